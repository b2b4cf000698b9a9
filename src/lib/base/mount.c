/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mount.h"

#include <fcntl.h>

int mount_clone(int dirfd, const char *path, uint64_t attrs, int userns)
{
	struct mount_attr attr = {
		.attr_set = attrs | (userns < 0 ? 0 : MOUNT_ATTR_IDMAP),
		.attr_clr = attrs & MOUNT_ATTR__ATIME ? MOUNT_ATTR__ATIME : 0,
		.propagation = MS_PRIVATE,
		.userns_fd = userns < 0 ? 0 : (unsigned)userns,
	};
	auto_close int tree = open_tree(dirfd, path,
					OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW |
						(*path ? 0 : AT_EMPTY_PATH));

	if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return -errno;
	return cay_take_fd(&tree);
}
