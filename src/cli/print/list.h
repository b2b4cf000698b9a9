/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_PRINT_LIST_H
#define CAY_CLI_PRINT_LIST_H
/*
 * list - the reply of a list operation, as a table or as JSON
 *
 * Columns name members of the row's field table.  A list in pages is read to its end and
 * printed as one.
 */
#include "cli/core/command.h"
#include "cli/print/print.h"

enum column_as {
	AS_VALUE, /* by the member's type: text, id, number, choice, RFC 3339 time, yes or no */
	AS_AGE,   /* time ago */
	AS_LEFT,  /* time to come */
	AS_SIZE,  /* bytes, "1.5 GiB" */
};

/* A value that is absent is shown as "-". */
struct column {
	const char *heading;
	const char *member; /* "pool.min" is one of an object in the row */
	enum column_as as;
	/* Instead of a member: append to out; 1: there is no value. */
	int (*format)(const void *row, struct buf *out);
};

#define COLUMNS_END { .heading = NULL }
/* Part of the row of a command. */
#define CMD_COLUMNS(...) \
	.columns = (const struct column[]) \
	{ \
		__VA_ARGS__, COLUMNS_END \
	}

/* Append the value of a column, not escaped. */
[[nodiscard]] int column_format(const struct column *column, const struct field_table *t,
				const void *row, struct buf *out);
/* Call a list operation and print its rows.  wanted: which rows, or NULL for all.  then, or NULL:
 * print what else is in a reply without pages. */
[[nodiscard]] int list_print(struct cli *c, const struct api_call *call,
			     const struct column *columns, bool (*wanted)(const void *row),
			     int (*then)(const void *reply, struct cay_err *err),
			     struct cay_err *err);
/* The name of an enum's value. */
const char *field_choice_name(const struct field_table *t, const char *member, unsigned value);
#endif
