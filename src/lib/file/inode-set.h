/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_INODE_SET_H
#define CAY_FILE_INODE_SET_H
/* inode-set - the files an archive has created: a set of at most MADE_MAX inodes */
#include <stdint.h>
#include <sys/stat.h>

#define INODE_SET_MAX (1U << 20)

struct inode_set {
	uint64_t *slots; /* 0 is empty */
	unsigned n, cap;
};

void inode_set_fini(struct inode_set *m);
/* -ENOBUFS if full, -ENOMEM. */
[[nodiscard]] int inode_set_add(struct inode_set *m, const struct stat *st);
bool inode_set_has(const struct inode_set *m, const struct stat *st);
#endif
