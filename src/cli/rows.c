/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/rows.h"

#include <assert.h>

struct printer {
	const struct rows_kind *kind;
	struct show_table *table;
	struct jw *json; /* or NULL */
};

static int each(void *to, const void *row)
{
	const struct printer *p = to;

	if (!p->json)
		return p->kind->cells(p->table, row);
	field_encode(p->kind->row, NULL, row, p->json);
	return 0;
}

int rows_print(struct api *a, const struct rows_kind *kind, bool json, struct cay_err *err)
{
	auto_buf out = BUF_INIT(MIB(64));
	auto_table table = show_table_of(kind->columns);
	struct jw w = jw_to(&out);
	struct printer p = { kind, &table, json ? &w : NULL };
	int r = 0;

	for (size_t i = 0; r >= 0 && i < kind->columns; i++)
		r = show_cell(&table, kind->headings[i]);
	jw_object(&w, NULL);
	jw_array(&w, kind->list);
	if (r >= 0)
		r = api_list(a, kind->op, kind->which, each, &p, err);
	if (r < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory for the list");
	jw_end(&w);
	jw_end(&w);
	if (json)
		r = jw_done(&w) < 0 ? -ENOMEM : buf_putc(&out, '\n');
	else
		buf_clear(&out);
	if (r >= 0 && !json)
		r = show_table_write(&table, &out);
	if (r < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory for the list");
	return show_out(&out, err);
}

const char *rows_choice(const struct field_table *t, const char *member, unsigned value)
{
	for (size_t i = 0; i < t->n; i++)
		if (str_eq(t->rows[i].name, member) && value < t->rows[i].n_choices)
			return t->rows[i].choices[value];
	assert(false);
	return "";
}
