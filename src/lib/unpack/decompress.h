/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_UNPACK_DECOMPRESS_H
#define CAY_UNPACK_DECOMPRESS_H
/*
 * outer - the file an image came in, uncompressed if it has to be
 *
 * What is inside is looked up by offset, so a compressed one is first written out,
 * into a file without a name in the new tree.  One skin, gzip or zstd, is taken off.
 *
 * Runs in the confined child only.
 */
#include <stdint.h>

#include "base/err.h"

/* enum media of a tar that begins there: by its first bytes. */
unsigned decompress_detect_media(int fd, uint64_t at);
/* *ret_fd: -EBADF when the file is plain, else another one, of max_bytes at the most. */
[[nodiscard]] int decompress_open(int root, int fd, uint64_t max_bytes, int *ret_fd,
				  struct cay_err *err);
#endif
