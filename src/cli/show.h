/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_SHOW_H
#define CAY_CLI_SHOW_H
/*
 * show - what cay itself prints, for people
 *
 * Names, messages and everything else that came from a server is shown with its
 * control characters, bidirectional overrides and broken UTF-8 escaped: no reply
 * can move the cursor, hide a line or set a title.  What a command in a sandbox
 * writes is not shown but passed on; see session.c.
 */
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* Append s, escaped: "\x1b", "\n".  -ENOBUFS at the buffer's limit. */
[[nodiscard]] int show_text(struct buf *out, struct slice s);
/* Columns it takes on a terminal, one per code point; s must be shown text. */
size_t show_width(const char *s);

/* Rows of cells, aligned when printed; the first is the heading. */
#define SHOW_COLUMNS_MAX 8

struct show_table {
	struct buf text; /* cells, a 0 behind each */
	size_t columns, cells;
	size_t width[SHOW_COLUMNS_MAX];
};

#define auto_table CAY_CLEANUP(show_table_fini) struct show_table

struct show_table show_table_of(size_t columns);
void show_table_fini(struct show_table *t);
/* Add one cell, escaped; columns of them make a row. */
[[nodiscard]] int show_cell(struct show_table *t, const char *text);
[[nodiscard]] int show_table_write(const struct show_table *t, struct buf *out);

/* "3 min", "2 h", "5 d": how long ago, shortly. */
#define SHOW_AGE_MAX 24
void show_age(uint64_t now_ns, uint64_t then_ns, char ret[static SHOW_AGE_MAX]);

/* "cay: message" and "  hint: ..." on stderr, both escaped; hint may be "". */
void show_error(const char *message, const char *hint);
/* "cay: ..." on stderr, escaped. */
__attribute__((format(printf, 1, 2))) void show_note(const char *fmt, ...);
/* All of it to stdout. */
[[nodiscard]] int show_out(const struct buf *b, struct cay_err *err);
/* Whether fd is a terminal that wants colours (NO_COLOR is not set). */
bool show_colour(int fd);
#endif
