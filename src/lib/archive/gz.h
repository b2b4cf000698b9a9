/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_ARCHIVE_GZ_H
#define CAY_ARCHIVE_GZ_H
/* gz - gzip between a tar and its transport
 *
 * Wraps the callbacks of tar.h; nested compression is not decompressed.  Several members in a row
 * are one stream, as in gzip; a wrong checksum and a truncated stream are failures.  The size of
 * the output is bounded by its consumer, not here.
 *
 * Bounded: KIB(32) in or out, and zlib's own memory (44 KiB in, 268 KiB out). */
#include <zlib.h>

#include "archive/tar.h"

#define GZ_BUF KIB(32)

struct gz_reader {
	tar_read_fn *read;
	void *arg;
	z_stream z;
	bool ready;
	bool inside; /* a member */
	bool ended;  /* nothing more comes */
	uint8_t in[GZ_BUF];
};

struct gz_writer {
	tar_write_fn *write;
	void *arg;
	z_stream z;
	bool ready;
	uint8_t out[GZ_BUF];
};

[[nodiscard]] int gz_reader_init(struct gz_reader *g, tar_read_fn *read, void *arg,
				 struct cay_err *err);
void gz_reader_fini(struct gz_reader *g);
tar_read_fn gz_read; /* arg: the reader */

[[nodiscard]] int gz_writer_init(struct gz_writer *g, tar_write_fn *write, void *arg,
				 struct cay_err *err);
void gz_writer_fini(struct gz_writer *g);
tar_write_fn gz_write; /* arg: the writer */
[[nodiscard]] int gz_finish(struct gz_writer *g, struct cay_err *err);
#endif
