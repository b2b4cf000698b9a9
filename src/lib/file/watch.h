/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_WATCH_H
#define CAY_FILE_WATCH_H
/* watch - changes of the files below a directory
 *
 * inotify, one watch per directory.  A new directory is watched first and scanned then, so entries
 * created before the watch are found by the scan: an entry may be reported twice, never not at all.
 * Events the kernel had no room for are reported as one overflow, after which everything is
 * rescanned; the same holds for reaching the limit of watches.  Links are not followed. */
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define WATCHES_MAX 8192

enum watch_kind {
	WATCH_READY, /* from here on nothing is missed */
	WATCH_CREATED,
	WATCH_MODIFIED,
	WATCH_CLOSED, /* by a process that had it open for writing */
	WATCH_DELETED,
	WATCH_MOVED_FROM,
	WATCH_MOVED_TO,
	WATCH_ATTRIB,
	WATCH_OVERFLOW, /* events were lost: rescan everything */
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

/* fn is called for every event; a negative return value is returned by watch_read(). */
[[nodiscard]] int watch_open(const char *dir, bool recursive, watch_fn *fn, void *arg,
			     struct watch **ret, struct cay_err *err);
void watch_free(struct watch *w);
/* Wait this long (-1: for ever) and report events: 1, 0 if there were none, or an error;
 * -ENOENT once the watched directory is gone. */
[[nodiscard]] int watch_read(struct watch *w, int timeout_ms);
CAY_DEFINE_FREEP(watch, watch_free)
#endif
