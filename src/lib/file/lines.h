/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_LINES_H
#define CAY_FILE_LINES_H
/* lines - lines of a text file.  Memory is that of the reply and one block, however large the file
 * or a line is.  A line longer than the width is cut and marked at its end; line endings are kept.
 * A file with a NUL in its first block is binary, and nothing of it is shown. */
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define LINES_TEXT_MAX MIB(1)
/* Bytes read after the last line shown, to count the lines of the file. */
#define LINES_COUNT_MAX MIB(64)

struct file_lines_request {
	const char *path;
	uint64_t first; /* 1 is the first line; not with tail */
	uint64_t limit; /* most lines */
	bool tail;      /* the last `limit` lines */
	bool numbers;   /* before each line, as cat -n does */
	uint64_t width; /* longer lines are cut to this many bytes */
};

struct file_lines {
	struct buf text;
	uint64_t size;
	uint64_t first; /* number of the first line shown, 0 when that is not known */
	uint64_t n;     /* lines shown */
	uint64_t total; /* lines there are, when that is known */
	uint64_t cut;   /* lines that were cut */
	bool has_total;
	bool more; /* more lines follow */
	bool binary;
};

#define LINES_INIT ((struct file_lines){ .text = BUF_INIT(LINES_TEXT_MAX) })
#define auto_lines CAY_CLEANUP(file_lines_fini) struct file_lines

[[nodiscard]] int file_lines_read(const struct file_lines_request *ask, struct file_lines *ret,
				  struct cay_err *err);
void file_lines_fini(struct file_lines *l);
#endif
