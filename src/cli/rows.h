/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_ROWS_H
#define CAY_CLI_ROWS_H
/*
 * rows - a whole list, all its pages, as a table or as one JSON object
 */
#include "cli/api.h"
#include "cli/show.h"

struct rows_kind {
	enum op_id op;
	const char *list; /* the member that holds the rows */
	const struct field_table *row;
	const char *headings[SHOW_COLUMNS_MAX];
	size_t columns;
	int (*cells)(struct show_table *t, const void *row); /* columns of them */
	bool (*wanted)(const void *row);                     /* or NULL: all of them */
	const struct sandbox_query *which;                   /* of sandboxes, or NULL */
};

[[nodiscard]] int rows_print(struct api *a, const struct rows_kind *kind, bool json,
			     struct cay_err *err);
/* The same of a list that one call tells whole, into `all`; rows is its member. */
[[nodiscard]] int rows_whole(struct api *a, const struct rows_kind *kind,
			     const struct api_call *call, void *all, const struct field_list *rows,
			     bool json, struct cay_err *err);
/* The same of a sandbox. */
[[nodiscard]] int rows_inside(struct api *a, const struct rows_kind *kind, const char *sandbox,
			      void *all, const struct field_list *rows, bool json,
			      struct cay_err *err);
/* The name of an enum's value. */
const char *rows_choice(const struct field_table *t, const char *member, unsigned value);
#endif
