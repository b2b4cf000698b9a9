/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_ARCHIVE_OUT_FILE_H
#define CAY_ARCHIVE_OUT_FILE_H
/* out-file - write a file that may not become larger than agreed, in large pieces; pieces of zeros
 * become holes, so that a sparse file costs no more disk in an archive */
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define OUT_FILE_BUFFER KIB(64)

struct out_file {
	int fd;        /* the caller's */
	uint64_t left; /* bytes that it may still become larger */
	size_t n;
	uint64_t hole; /* bytes of zeros that are not written yet */
	char buffer[OUT_FILE_BUFFER];
};

/* A tar_write_fn; arg: struct out_file.  CAY_E_TOO_LARGE, and nothing is written, where the file
 * would become too large. */
[[nodiscard]] int on_out_file_write(void *arg, const void *p, size_t n, struct cay_err *err);
/* Write the last piece: the file has all its bytes then. */
[[nodiscard]] int out_file_finish(struct out_file *o, struct cay_err *err);
#endif
