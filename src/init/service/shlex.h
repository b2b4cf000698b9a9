/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SERVICE_SHLEX_H
#define CAY_INIT_SERVICE_SHLEX_H
/*
 * words - a line's words as Python's shlex has them, which supervisord's files are read with
 */
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

static inline bool shlex_is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* One word off the front of *s, unquoted, into out (room for all of *s); -1 and the reason when
 * a quote or escape has no end. */
[[nodiscard]] ptrdiff_t shlex_next_word(struct slice *s, char *out, const char *stops,
					const char **ret_why);
/* White space, and one more character. */
void shlex_skip_space(struct slice *s, char also);
/* A command's words.  How many, into v; or -EINVAL with the reason in *ret_why. */
[[nodiscard]] int shlex_split(struct arena *arena, struct slice command, const char **v, size_t max,
			      const char **ret_why);
#endif
