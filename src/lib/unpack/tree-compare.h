/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_UNPACK_TREE_COMPARE_H
#define CAY_UNPACK_TREE_COMPARE_H
/*
 * tree-compare - whether two untrusted trees are the same
 *
 * The same: names, types, owners, modes, links, device numbers and contents.  Times are not
 * compared: a directory that no layer names gets the time of its unpacking.
 *
 * No link is followed.  Memory and fds are bounded by TREE_COMPARE_DEPTH_MAX, whatever the trees
 * hold; no other process may change them.
 */

#define TREE_COMPARE_DEPTH_MAX 256

/* Of the directory `name` in both: 0 the same, 1 different, or -errno.  Deeper trees than
 * TREE_COMPARE_DEPTH_MAX are different. */
[[nodiscard]] int tree_compare(int a_fd, int b_fd, const char *name);
#endif
