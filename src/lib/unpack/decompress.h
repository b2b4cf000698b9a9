/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_UNPACK_DECOMPRESS_H
#define CAY_UNPACK_DECOMPRESS_H
/* decompress - the file of an image, decompressed if needed
 *
 * Its parts are found by offset, so a compressed file is first written out, into a file without a
 * name in the new tree.  One layer of compression, gzip or zstd, is removed.
 *
 * Runs in the confined child only. */
#include <stdint.h>

#include "base/err.h"

/* enum media of a tar that begins there: by its first bytes. */
unsigned decompress_detect_media(int fd, uint64_t at);
/* *ret_fd: -EBADF if the file is plain, else another file, of at most max_bytes. */
[[nodiscard]] int decompress_open(int root, int fd, uint64_t max_bytes, int *ret_fd,
				  struct cay_err *err);
#endif
