/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BASE_MOUNT_H
#define CAY_BASE_MOUNT_H
/* mount - copies of mounts.  If systemd is PID 1 every mount is shared: mounts propagate between a
 * copy and the original, in any namespace, and a shared mount cannot be the new root of pivot_root.
 * So every copy is made with mount_clone() (tests/platform/shared-clone.c). */
#include <sys/mount.h>

#include "base/mem.h"

/* A copy of the mount that contains path, from there on, detached and private; "" is dirfd itself,
 * and no link at the end is followed. attrs: MOUNT_ATTR_*; userns maps its ids, < 0: none. */
[[nodiscard]] int mount_clone(int dirfd, const char *path, uint64_t attrs, int userns);
#endif
