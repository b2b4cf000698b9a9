/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_UNPACK_ROOTFS_H
#define CAY_UNPACK_ROOTFS_H
/* rootfs - build the tree of an image, entry by entry
 *
 * The kernel resolves every name with the tree as its root: links on the way are followed and end
 * inside, the last component is never followed.  An existing entry is replaced by a new one, except
 * a directory by a directory: the last one wins.  Creating entries does not change the times of
 * their directory.
 *
 * Not restored, on purpose: extended attributes (file capabilities, ACLs, labels), devices, fifos
 * and sockets.  The set-id bits are: they mean nothing outside a sandbox, and inside no_new_privs
 * decides. */
#include <stdint.h>
#include <time.h>

#include "base/err.h"

#define ROOTFS_IDS 65536 /* users and groups 0 to 65535 */
#define ROOTFS_PATH_MAX 4095
#define ROOTFS_NAME_MAX 255
#define ROOTFS_DEPTH_MAX 256

/* A name of the tar, taken apart: no "..", ".", empty component, or NUL. */
struct rootfs_name {
	char text[ROOTFS_PATH_MAX + 1]; /* the directory, then a 0, then the last component */
	const char *dir;                /* "." for the tree itself */
	const char *base;               /* "" when the name is the tree itself */
};

struct rootfs {
	int fd;         /* borrowed */
	uint64_t *left; /* entries that may still be created, including directories the tar does not
			   name */
};

struct rootfs_meta {
	uint32_t uid, gid, mode;
	struct timespec mtime;
};

[[nodiscard]] int rootfs_name_parse(const char *text, struct rootfs_name *ret, struct cay_err *err);

/* The caller fills the file through *ret_fd, sets its length, and then calls
 * rootfs_set_meta(): writing would clear the set-id bits. */
[[nodiscard]] int rootfs_create_file(const struct rootfs *t, const struct rootfs_name *n,
				     int *ret_fd, struct cay_err *err);
[[nodiscard]] int rootfs_set_meta(int fd, const struct rootfs_name *n,
				  const struct rootfs_meta *meta, struct cay_err *err);
[[nodiscard]] int rootfs_create_dir(const struct rootfs *t, const struct rootfs_name *n,
				    const struct rootfs_meta *meta, struct cay_err *err);
[[nodiscard]] int rootfs_create_symlink(const struct rootfs *t, const struct rootfs_name *n,
					const char *target, const struct rootfs_meta *meta,
					struct cay_err *err);
/* target is of the tree, a regular file, and there already. */
[[nodiscard]] int rootfs_create_hardlink(const struct rootfs *t, const struct rootfs_name *n,
					 const struct rootfs_name *target, struct cay_err *err);

/* Whiteouts: remove base, or everything in dir.  Being absent is success. */
[[nodiscard]] int rootfs_apply_whiteout(const struct rootfs *t, const struct rootfs_name *n,
					const char *base, struct cay_err *err);
[[nodiscard]] int rootfs_apply_opaque_whiteout(const struct rootfs *t, const struct rootfs_name *n,
					       struct cay_err *err);

/* Mount points of a runtime must be real directories: a link there would lead root to a
 * place of the image's choice. make: create missing ones. */
[[nodiscard]] int rootfs_check_mount_dirs(int root, bool make, struct cay_err *err);
#endif
