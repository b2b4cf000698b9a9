/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_MADE_H
#define CAY_FILE_MADE_H
/* made - which files somebody has made: a set of inodes that grows to MADE_MAX of them */
#include <stdint.h>
#include <sys/stat.h>

#define MADE_MAX (1U << 20)

struct made {
	uint64_t *slots; /* 0 is empty */
	unsigned n, cap;
};

void made_fini(struct made *m);
/* -ENOBUFS when there are too many, -ENOMEM. */
[[nodiscard]] int made_add(struct made *m, const struct stat *st);
bool made_has(const struct made *m, const struct stat *st);
#endif
