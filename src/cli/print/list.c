/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/list.h"

#include <assert.h>

#include "base/clock.h"
#include "cli/print/pager.h"
#include "cli/print/progress.h"

static const struct field *field_find(const struct field_table *t, struct slice name)
{
	for (size_t i = 0; i < t->n; i++)
		if (slice_eq(slice_of(t->rows[i].name), name))
			return &t->rows[i];
	return NULL;
}

const char *field_choice_name(const struct field_table *t, const char *member, unsigned value)
{
	const struct field *f = field_find(t, slice_of(member));

	assert(f && value < f->n_choices);
	return f->choices[value];
}

static int column_format_time(enum column_as as, uint64_t ns, struct buf *out)
{
	uint64_t now = clk_wall_ns(&clk_system);
	char text[CLK_TEXT_LEN + 1], age[PRINT_AGE_MAX];

	if (as == AS_VALUE) {
		clk_format_rfc3339(ns, text);
		return buf_puts(out, text);
	}
	print_age_format(as == AS_AGE ? now : ns, as == AS_AGE ? ns : now, age);
	return buf_printf(out, "%s%s", as == AS_LEFT ? "in " : "", age);
}

/* The value at `at`; 1: there is none. */
static int column_format_value(const struct field *f, enum column_as as, const void *at,
			       struct buf *out)
{
	char id[ID_TEXT_LEN + 1];
	uint64_t number;

	switch (f->type) {
	case FIELD_TEXT:
		return *(const char *const *)at ? buf_puts(out, *(const char *const *)at) : 1;
	case FIELD_BOOL:
		return buf_puts(out, *(const bool *)at ? "yes" : "no");
	case FIELD_ENUM:
		return buf_puts(out, f->choices[*(const unsigned *)at]);
	case FIELD_ID:
		if (!((const struct id *)at)->noun)
			return 1;
		id_format(at, id);
		return buf_puts(out, id);
	case FIELD_TIME:
		number = *(const uint64_t *)at;
		return number ? column_format_time(as, number, out) : 1;
	case FIELD_U64:
	case FIELD_BYTES:
	case FIELD_MILLI:
		number = *(const uint64_t *)at;
		return as == AS_SIZE ? byte_size_format(number, out)
				     : buf_printf(out, "%llu", (unsigned long long)number);
	case FIELD_TEXTS:
	case FIELD_MAP:
	case FIELD_OBJECT:
	case FIELD_LIST:
	case FIELD_NUM_TYPES:
		break;
	}
	assert(false);
	return -EINVAL;
}

int column_format(const struct column *column, const struct field_table *t, const void *row,
		  struct buf *out)
{
	struct slice path = slice_of(column->format ? "" : column->member);
	const struct field *f = NULL;
	int r = 0;

	if (column->format)
		r = column->format(row, out);
	while (path.p && r == 0 && !column->format) {
		f = field_find(t, slice_cut(&path, '.'));
		assert(f);
		r = f->has && !*((const bool *)row + (f->has - 1));
		row = (const char *)row + f->offset;
		t = f->sub;
	}
	if (r == 0 && f)
		r = column_format_value(f, column->as, row, out);
	return r > 0 ? buf_putc(out, '-') : r;
}

struct list_printer {
	const struct field_table *row;
	const struct column *columns;
	bool (*wanted)(const void *row);
	struct print_table *table;
	struct jw *json;   /* or NULL */
	uint64_t left_out; /* rows the reply had no room for */
	const void *reply; /* of a list without pages */
};

static int list_print_row(void *to, const void *row)
{
	const struct list_printer *p = to;

	if (p->wanted && !p->wanted(row))
		return 0;
	if (p->json) {
		field_encode(p->row, NULL, row, p->json);
		return 0;
	}
	for (const struct column *column = p->columns; column->heading; column++) {
		auto_buf text = BUF_INIT(MIB(1));
		int r = column_format(column, p->row, row, &text);

		if (r < 0)
			return r;
		print_table_add_cell(p->table, buf_str(&text));
	}
	return 0;
}

static int list_print_pages(struct cli *c, const struct api_call *call, struct list_printer *p,
			    struct cay_err *err)
{
	auto_buf out = BUF_INIT(MIB(64));
	struct jw w = json_list_begin(&out, ops[call->op].response->rows[0].name);
	int r;

	p->json = c->global.json ? &w : NULL;
	r = api_list_each(&c->api, call->op, call->query, list_print_row, p, err);
	return r < 0 || !p->json ? r : json_list_print(&w, &out, err);
}

/* A list without pages. */
static int list_print_reply(struct cli *c, const struct api_call *call, struct list_printer *p,
			    struct cay_err *err)
{
	const struct field_table *t = ops[call->op].response;
	const struct field *left = field_find(t, SLICE("left_out"));
	char *all = arena_alloc(&c->arena, 1, t->size);
	const struct field_list *rows;
	int r;

	if (!all)
		return cay_no_memory(err);
	p->reply = all;
	rows = (const void *)(all + t->rows[0].offset);
	r = api_call(&c->api, call, all, err);
	if (r < 0 || c->global.json)
		return r < 0 ? r : print_json(t, all, err);
	for (size_t i = 0; r >= 0 && i < rows->n; i++)
		r = list_print_row(p, (const char *)rows->v + i * p->row->size);
	p->left_out = left ? *(const uint64_t *)(const void *)(all + left->offset) : 0;
	return r;
}

int list_print(struct cli *c, const struct api_call *call, const struct column *columns,
	       bool (*wanted)(const void *row), int (*then)(const void *reply, struct cay_err *err),
	       struct cay_err *err)
{
	const struct field_table *reply = ops[call->op].response;
	bool paged = field_find(reply, SLICE("next_cursor"));
	auto_buf out = BUF_INIT(MIB(64));
	auto_table table = print_table_create(0);
	struct list_printer p = {
		.row = reply->rows[0].sub, .columns = columns, .wanted = wanted, .table = &table
	};
	int r;

	for (; columns[table.columns].heading; table.columns++)
		assert(table.columns < PRINT_TABLE_COLUMNS_MAX);
	for (size_t i = 0; i < table.columns; i++)
		print_table_add_cell(&table, columns[i].heading);
	r = paged ? list_print_pages(c, call, &p, err) : list_print_reply(c, call, &p, err);
	if (r < 0 && err->code)
		return r;
	if (r >= 0 && c->global.json)
		return 0;
	if (r < 0 || print_table_write(&table, &out) < 0)
		return cay_no_memory(err);
	r = pager_show(&c->api, &out, err);
	if (r >= 0 && p.left_out)
		print_note("%llu %s are left out", (unsigned long long)p.left_out,
			   reply->rows[0].name);
	return r >= 0 && then && p.reply ? then(p.reply, err) : r;
}
