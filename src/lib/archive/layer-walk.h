/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_ARCHIVE_LAYER_WALK_H
#define CAY_ARCHIVE_LAYER_WALK_H
/* layer-walk - every name in a writable layer of overlayfs, while a sandbox may change it
 *
 * The upper directory says what was written over the files below: a character device 0/0 hides the
 * name below it, a directory with the attribute trusted.overlay.opaque hides all names that it does
 * not have itself.  That attribute is for real root, so source->dir_flags() has another process ask
 * for it.
 *
 * No symlink is followed and nothing is opened but files and directories; the type is that of the
 * opened file.  Left out and counted as skipped: names longer than TAR_NAME_MAX, directories deeper
 * than LAYER_DEPTH_MAX, files that cannot be opened.
 *
 * Bounded: LAYER_DEPTH_MAX levels with two fds each, two blocks of names, LAYER_NAMES_MAX names of
 * all directories together, because a process that renames can make a directory endless. */
#include <sys/stat.h>

#include "archive/tar.h"
#include "archive/tree-pack.h"

#define LAYER_DEPTH_MAX 256
#define LAYER_NAMES_MAX 5000000
#define LAYER_OPAQUE 1 /* it hides the names below */
#define LAYER_MOVED 2  /* its content is below another name: nothing here does that */

struct layer_source {
	int upper;
	int below;  /* the files that it is over; < 0: do not compare with them */
	bool opens; /* files are opened and links are read */
	/* LAYER_* of a directory of upper, or -errno */
	int (*dir_flags)(void *arg, int fd, struct cay_err *err);
	void *arg;
};

enum layer_what {
	LAYER_FILE,
	LAYER_DIRECTORY, /* before its names */
	LAYER_SYMLINK,
	LAYER_OTHER,
	LAYER_WHITEOUT, /* the name below is deleted */
	LAYER_HIDDEN,   /* the same by an opaque directory; only where `below` is known */
};

struct layer_entry {
	enum layer_what what;
	const char *name;      /* from the top, "" is the top; any bytes */
	const struct stat *st; /* NULL of LAYER_HIDDEN */
	const struct stat
		*below;     /* what has the name there; NULL: nothing, or it is not compared */
	bool opaque;        /* itself, not by a directory above */
	int fd;             /* of a file, if source->opens */
	const char *target; /* of a symlink, if source->opens */
};

/* -errno ends the walk; LAYER_LEAVE_OUT from a directory leaves out its names. */
typedef int layer_fn(void *arg, const struct layer_entry *e, struct cay_err *err);
#define LAYER_LEAVE_OUT 1

[[nodiscard]] int layer_walk(const struct layer_source *source, layer_fn *fn, void *arg,
			     uint64_t *skipped, struct cay_err *err);
#endif
