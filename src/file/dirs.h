/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_DIRS_H
#define CAY_FILE_DIRS_H
/*
 * dirs - the directories below one that were used last, open
 *
 * A name is resolved by the kernel below the root and through no symlink, and what is missing
 * is made.  What was made so is ours: nobody had anything in it before.
 *
 * Bounded: DIRS_MAX fds and their names.
 */
#include "base/buf.h"
#include "base/str.h"

#define DIRS_MAX 128

struct dirs_one {
	uint32_t hash;
	uint64_t used; /* when, 0: never */
	struct buf name;
	int fd;
	bool ours;
};

struct dirs {
	int root; /* the caller's */
	uint64_t clock;
	unsigned n, max;
	struct dirs_one all[DIRS_MAX];
};

void dirs_init(struct dirs *d, int root);
void dirs_fini(struct dirs *d);
/* The directory of that name ("" is the root), whose fd stays ours; -errno. */
[[nodiscard]] int dirs_open(struct dirs *d, struct slice name, bool *ours);
#endif
