/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_TRANSFER_USTAR_H
#define CAY_CLI_TRANSFER_USTAR_H
/*
 * ustar - the 512 bytes in front of a file in a tar archive
 *
 * Made for archives that must be the same bytes every time: owner root, mode
 * 0644 or 0755, no time.  Sizes past 8 GiB are written as GNU tar does.
 */
#include <stdint.h>

#define USTAR_BLOCK 512
#define USTAR_NAME_MAX 100

/* A file, or a directory when its name ends in '/'.  -ENAMETOOLONG. */
[[nodiscard]] int ustar_write_header(const char *name, uint64_t size,
				     uint8_t ret[static USTAR_BLOCK]);
/* Zero bytes behind a file of this size. */
static inline uint64_t ustar_padding(uint64_t size)
{
	return (USTAR_BLOCK - size % USTAR_BLOCK) % USTAR_BLOCK;
}
#endif
