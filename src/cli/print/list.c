/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/list.h"

#include <assert.h>

#include "cli/core/command.h"
#include "cli/print/pager.h"

struct list_printer {
	const struct list_spec *kind;
	struct print_table *table;
	struct jw *json; /* or NULL */
};

static int list_print_row(void *to, const void *row)
{
	const struct list_printer *p = to;

	if (p->kind->row_is_wanted && !p->kind->row_is_wanted(row))
		return 0;
	if (!p->json)
		return p->kind->add_cells(p->table, row);
	field_encode(p->kind->row, NULL, row, p->json);
	return 0;
}

int list_print_all_pages(struct api *a, const struct list_spec *kind, bool json,
			 struct cay_err *err)
{
	auto_buf out = BUF_INIT(MIB(64));
	auto_table table = print_table_create(kind->columns);
	struct jw w = jw_to(&out);
	struct list_printer p = { kind, &table, json ? &w : NULL };
	int r = 0;

	for (size_t i = 0; r >= 0 && i < kind->columns; i++)
		r = print_table_add_cell(&table, kind->headings[i]);
	jw_object_begin(&w, NULL);
	jw_array_begin(&w, kind->list_member);
	if (r >= 0)
		r = api_list_each(a, kind->op, kind->query, list_print_row, &p, err);
	if (r < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory for the list");
	jw_end(&w);
	jw_end(&w);
	if (json)
		r = jw_finish(&w) < 0 ? -ENOMEM : buf_putc(&out, '\n');
	else
		buf_clear(&out);
	if (r >= 0 && !json)
		r = print_table_write(&table, &out);
	if (r < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory for the list");
	return json ? print_stdout(&out, err) : pager_show(a, &out, err);
}

int list_print_reply(struct api *a, const struct list_spec *kind, const struct api_call *call,
		     void *all, const struct field_list *rows, bool json, struct cay_err *err)
{
	auto_table t = print_table_create(kind->columns);
	auto_buf out = BUF_INIT(MIB(8));
	int r = api_call(a, call, all, err);

	if (r < 0)
		return r;
	if (json)
		return print_json(ops[kind->op].response, all, err);
	for (size_t i = 0; r >= 0 && i < kind->columns; i++)
		r = print_table_add_cell(&t, kind->headings[i]);
	for (size_t i = 0; r >= 0 && i < rows->n; i++)
		r = kind->add_cells(&t, (const char *)rows->v + i * kind->row->size);
	if (r >= 0)
		r = print_table_write(&t, &out);
	return r < 0 ? cay_fail(err, CAY_E_NO_MEMORY, "no memory for the list")
		     : pager_show(a, &out, err);
}

int list_print_of_sandbox(struct api *a, const struct list_spec *kind, const char *sandbox,
			  void *all, const struct field_list *rows, bool json, struct cay_err *err)
{
	struct api_call call = { .op = kind->op };
	int r = api_find_sandbox(a, sandbox, &call.ids[0], err);

	return r < 0 ? r : list_print_reply(a, kind, &call, all, rows, json, err);
}

const char *field_choice_name(const struct field_table *t, const char *member, unsigned value)
{
	for (size_t i = 0; i < t->n; i++)
		if (str_eq(t->rows[i].name, member) && value < t->rows[i].n_choices)
			return t->rows[i].choices[value];
	assert(false);
	return "";
}
