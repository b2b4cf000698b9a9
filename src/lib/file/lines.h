/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_LINES_H
#define CAY_FILE_LINES_H
/*
 * lines - a part of a text file, by lines
 *
 * However large the file or one line of it is, memory is the answer's and one block.
 * A line longer than asked for is cut, and says so at its end; line ends stay what
 * they are.  What has a NUL in its first block is no text, and nothing of it is shown.
 */
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define LINES_MAX_LIMIT 100000
#define LINES_TEXT_MAX MIB(1)
/* Behind the last line shown, so much is read to say how many there are. */
#define LINES_COUNT_MAX MIB(64)

struct file_lines_request {
	const char *path;
	uint64_t first; /* 1 is the first line; not with tail */
	uint64_t limit; /* so many at the most */
	bool tail;      /* the last `limit` lines */
	bool numbers;   /* in front of each, as cat -n has them */
	uint64_t width; /* longer lines are cut to so many bytes */
};

struct file_lines {
	struct buf text;
	uint64_t size;
	uint64_t first; /* number of the first line shown, 0 when that is not known */
	uint64_t n;     /* lines shown */
	uint64_t total; /* lines there are, when that is known */
	uint64_t cut;   /* lines that were cut */
	bool has_total;
	bool more; /* there are lines behind those shown */
	bool binary;
};

#define LINES_INIT ((struct file_lines){ .text = BUF_INIT(LINES_TEXT_MAX) })
#define auto_lines CAY_CLEANUP(file_lines_fini) struct file_lines

[[nodiscard]] int file_lines_read(const struct file_lines_request *ask, struct file_lines *ret,
				  struct cay_err *err);
void file_lines_fini(struct file_lines *l);
#endif
