/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_NAME_OPS_H
#define CAY_FILE_NAME_OPS_H
/* name-ops - one step on names: create, move, copy, delete, change, link
 *
 * Each is done or not, except deleting and changing a tree, which may stop half way and report it.
 * A copy of a tree grows under a hidden name and is renamed when it is complete.  Links inside a
 * tree are never followed. */
#include <stdint.h>

#include "file/path-at.h"

#define NAME_OP_DEPTH_MAX \
	128 /* directories below each other, of a tree that is copied or changed \
	     */

enum name_op_kind {
	NAME_OP_MKDIR,
	NAME_OP_MOVE,
	NAME_OP_COPY,
	NAME_OP_DELETE,
	NAME_OP_CHMOD,
	NAME_OP_SYMLINK,
	NAME_OP_NUM
};

struct name_op {
	enum name_op_kind kind;
	const char *path;
	const char *to;  /* of move and copy; of a link: where it leads */
	bool parents;    /* create missing directories */
	bool overwrite;  /* replace an existing file */
	bool recursive;  /* of a tree: all of it */
	bool missing_ok; /* nothing to delete is no failure */
	bool has_mode;
	mode_t mode;
	uid_t uid; /* (uid_t)-1: as it is */
	gid_t gid;
	/* Called now and then during long work, or NULL. */
	void (*on_progress)(void *arg);
	void *arg;
};

[[nodiscard]] int name_op_run(const struct name_op *c, struct cay_err *err);
/* copy.c: a file or a tree, from one place to another where nothing is, or a file is and may go. */
[[nodiscard]] int name_op_copy(const struct name_op *c, struct cay_err *err);
#endif
