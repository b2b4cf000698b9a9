/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_ARCHIVE_TAR_INTERNAL_H
#define CAY_ARCHIVE_TAR_INTERNAL_H
/* Offsets of the header's fields: POSIX.1-1988, with the GNU extensions. */
#include "archive/tar.h"

enum {
	AT_NAME = 0,
	AT_MODE = 100,
	AT_UID = 108,
	AT_GID = 116,
	AT_SIZE = 124,
	AT_MTIME = 136,
	AT_SUM = 148,
	AT_TYPE = 156,
	AT_LINK = 157,
	AT_MAGIC = 257,
	AT_PREFIX = 345,
};

enum {
	LEN_NAME = 100,
	LEN_ID = 8,
	LEN_NUMBER = 12,
	LEN_SUM = 8,
	LEN_PREFIX = 155,
};

/* The sum counts its own field as spaces. */
static inline unsigned tar_checksum(const uint8_t *block)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < TAR_BLOCK; i++)
		sum += i >= AT_SUM && i < AT_SUM + LEN_SUM ? ' ' : block[i];
	return sum;
}

static inline unsigned tar_padding_len(uint64_t size)
{
	return (unsigned)((TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
}
#endif
