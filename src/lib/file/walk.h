/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_WALK_H
#define CAY_FILE_WALK_H
/* walk - everything below a directory, in directory order
 *
 * Links are reported and never followed, so they cannot form a loop.  Counted and skipped: what
 * cannot be opened, levels below WALK_DEPTH_MAX, and the kernel's own trees (/proc, /sys) unless
 * the walk began in one.  Memory and fds grow with the depth, not with the number of files. */
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define WALK_DEPTH_MAX 128
#define WALK_PRUNE 1

struct walk_entry {
	int dirfd;          /* it is `name` in here */
	const char *name;   /* for the time of the call */
	struct slice path;  /* below the start; ended by a 0 */
	unsigned depth;     /* 0 in the start itself */
	unsigned char type; /* DT_* */
};

/* 0 to go on, WALK_PRUNE not to enter this directory, -errno to end the walk with. */
typedef int walk_fn(void *arg, const struct walk_entry *e);

struct walk {
	walk_fn *fn;
	void *arg;
	uint64_t skipped; /* counted by the walk */
};

/* dir is a path as the process sees it. */
[[nodiscard]] int walk_tree(struct walk *w, const char *dir, struct cay_err *err);
#endif
