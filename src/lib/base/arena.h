/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BASE_ARENA_H
#define CAY_BASE_ARENA_H
/* arena - memory of one request: allocated in pieces, freed at once.  Bounded from birth; a request
 * that exceeds the bound gets NULL.  Pieces are not freed one by one. */
#include <stddef.h>

#include "base/mem.h"

struct arena {
	struct arena_block *blocks;
	size_t left;  /* bytes that may still be taken */
	size_t block; /* least size of a block; 0: a page */
	bool full;    /* something was refused for the limit, not for memory */
};

#define auto_arena CAY_CLEANUP(arena_fini) struct arena
#define ARENA_INIT(max_) ((struct arena){ .left = (max_) })
/* For a few short texts that are kept long. */
#define ARENA_INIT_SMALL(max_) ((struct arena){ .left = (max_), .block = 224 })

void arena_fini(struct arena *p);
/* Zeroed and aligned for anything; NULL when memory or the limit ran out. */
[[nodiscard]] void *arena_alloc(struct arena *p, size_t count, size_t size);
/* Of all its blocks. */
size_t arena_get_size(const struct arena *p);
/* A copy of n bytes followed by a 0. */
[[nodiscard]] char *arena_strndup(struct arena *p, const char *s, size_t n);
#endif
