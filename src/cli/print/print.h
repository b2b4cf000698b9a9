/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_PRINT_PRINT_H
#define CAY_CLI_PRINT_PRINT_H
/*
 * print - escaped text, tables and messages
 *
 * Text from a server is printed with control characters, bidirectional overrides and
 * invalid UTF-8 escaped, so no reply can move the cursor, hide a line or set a title.  The
 * output of commands in a sandbox is passed on unchanged; see session.c.
 */
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* Append s, escaped: "\x1b", "\n".  -ENOBUFS at the buffer's limit. */
[[nodiscard]] int print_append_escaped(struct buf *out, struct slice s);
/* Its columns on a terminal, one per code point; s must be escaped. */
size_t print_text_width(const char *s);

/* Rows of cells, aligned when printed; the first is the heading. */
#define PRINT_TABLE_COLUMNS_MAX 10

struct print_table {
	struct buf text; /* cells, each ended by a 0 */
	size_t columns, cells;
	int failed; /* a cell found no memory */
	size_t width[PRINT_TABLE_COLUMNS_MAX];
};

#define auto_table CAY_CLEANUP(print_table_fini) struct print_table

struct print_table print_table_create(size_t columns);
struct print_table print_table_create_headed(const char *const *headings, size_t n);
void print_table_fini(struct print_table *t);
/* Add one cell, escaped; columns of them make a row.  print_table_write() returns a failure. */
void print_table_add_cell(struct print_table *t, const char *text);
__attribute__((format(printf, 2, 3))) void print_table_add_cellf(struct print_table *t,
								 const char *fmt, ...);
/* A row of two: a name, and words about it. */
__attribute__((format(printf, 3, 4))) void print_table_add_pair(struct print_table *t,
								const char *name, const char *fmt,
								...);
[[nodiscard]] int print_table_write(const struct print_table *t, struct buf *out);
/* Write it to stdout. */
[[nodiscard]] int print_table_stdout(const struct print_table *t, struct cay_err *err);

/* The time between two instants: "3 min", "2 h", "5 d". */
#define PRINT_AGE_MAX 24
void print_age_format(uint64_t now_ns, uint64_t then_ns, char ret[static PRINT_AGE_MAX]);

/* "cay: message" and "  hint: ..." on stderr, both escaped; hint may be "". */
void print_failure(const char *message, const char *hint);
/* "cay: ..." on stderr, escaped. */
__attribute__((format(printf, 1, 2))) void print_note(const char *fmt, ...);
[[nodiscard]] int print_stdout(const struct buf *b, struct cay_err *err);
/* One line to stdout, escaped. */
[[nodiscard]] __attribute__((format(printf, 2, 3))) int print_line(struct cay_err *err,
								   const char *fmt, ...);
/* Text of several lines. */
[[nodiscard]] int print_lines(const char *text, struct cay_err *err);
/* Whether fd is a terminal that wants colours (NO_COLOR is not set). */
bool print_wants_colour(int fd);
#endif
