/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_WATCH_H
#define CAY_FILE_WATCH_H
/*
 * watch - what happens to the files below a directory
 *
 * inotify, one watch a directory.  A directory that appears is watched first and looked
 * into then, so what was made in it before the watch is told by the look: an entry may be
 * told twice, never not at all.  Events the kernel had no room for are told as one
 * overflow, after which everything is looked for anew; so is reaching the limit of watches.
 * Links are not followed.
 */
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define WATCHES_MAX 8192

enum watch_kind {
	WATCH_READY, /* from here on nothing is missed */
	WATCH_CREATED,
	WATCH_MODIFIED,
	WATCH_CLOSED, /* by somebody who wrote to it */
	WATCH_DELETED,
	WATCH_MOVED_FROM,
	WATCH_MOVED_TO,
	WATCH_ATTRIB,
	WATCH_OVERFLOW, /* some were lost: look at everything */
	WATCH_LIMIT,    /* some directories are not watched */
	WATCH_GONE,     /* the directory itself; the last one */
	WATCH_NUM
};

struct watch_event {
	enum watch_kind kind;
	struct slice path; /* below the start, "" when it is the start itself */
	bool dir;
	uint32_t move; /* of the two halves of a move the same number; 0: none */
};

struct watch;

typedef int watch_fn(void *arg, const struct watch_event *e);

/* fn is told of everything; what it returns below 0 is what watch_read() returns. */
[[nodiscard]] int watch_open(const char *dir, bool recursive, watch_fn *fn, void *arg,
			     struct watch **ret, struct cay_err *err);
void watch_free(struct watch *w);
/* Wait so long (-1: for ever) and tell what happened: 1, 0 when nothing did, or an error;
 * -ENOENT once the start is gone. */
[[nodiscard]] int watch_read(struct watch *w, int timeout_ms);
CAY_DEFINE_FREEP(watch, watch_free)
#endif
