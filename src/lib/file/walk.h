/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_WALK_H
#define CAY_FILE_WALK_H
/*
 * walk - everything below a directory, as it is met
 *
 * Links are told and never followed, so a loop of them is no loop.  What cannot be
 * opened is counted and passed by; so is what lies deeper than WALK_DEPTH_MAX, and
 * the kernel's own trees (/proc, /sys) when the walk did not begin in one.  Memory
 * and fds go with the depth, not with how much there is.
 */
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
