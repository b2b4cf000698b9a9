/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_PRINT_LIST_H
#define CAY_CLI_PRINT_LIST_H
/*
 * rows - a whole list, all its pages, as a table or as one JSON object
 */
#include "cli/client/api.h"
#include "cli/print/print.h"

struct list_spec {
	enum op_id op;
	const char *list_member; /* the member that holds the rows */
	const struct field_table *row;
	const char *headings[PRINT_TABLE_COLUMNS_MAX];
	size_t columns;
	int (*add_cells)(struct print_table *t, const void *row); /* columns of them */
	bool (*row_is_wanted)(const void *row);                   /* or NULL: all of them */
	const struct sandbox_query *query;                        /* of sandboxes, or NULL */
};

[[nodiscard]] int list_print_all_pages(struct api *a, const struct list_spec *kind, bool json,
				       struct cay_err *err);
/* The same of a list that one call tells whole, into `all`; rows is its member. */
[[nodiscard]] int list_print_reply(struct api *a, const struct list_spec *kind,
				   const struct api_call *call, void *all,
				   const struct field_list *rows, bool json, struct cay_err *err);
/* The same of a sandbox. */
[[nodiscard]] int list_print_of_sandbox(struct api *a, const struct list_spec *kind,
					const char *sandbox, void *all,
					const struct field_list *rows, bool json,
					struct cay_err *err);
/* The name of an enum's value. */
const char *field_choice_name(const struct field_table *t, const char *member, unsigned value);
#endif
