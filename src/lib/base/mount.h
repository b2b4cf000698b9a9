/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BASE_MOUNT_H
#define CAY_BASE_MOUNT_H
/*
 * mnt - copies of mounts
 *
 * Where systemd is PID 1 every mount is shared: a copy hears of what is mounted on the
 * original and tells it of its own, whatever namespace it is in, and cannot be a root to
 * pivot to.  So none is made but with mount_clone() (tests/platform/shared-clone.c).
 */
#include <sys/mount.h>

#include "base/mem.h"

/* A copy of the mount that path is in, from there on, attached to nothing and nobody's peer;
 * "" is dirfd itself, and no link at the end is followed.  attrs: MOUNT_ATTR_*; userns
 * maps its ids, < 0: none. */
CAY_MUST_CHECK int mount_clone(int dirfd, const char *path, uint64_t attrs, int userns);
#endif
