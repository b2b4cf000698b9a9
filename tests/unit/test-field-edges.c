/* SPDX-License-Identifier: Apache-2.0 */
/* Each row of each table at the edges of its limits. */
#include <errno.h>
#include <stdio.h>

#include "ops/types.h"
#include "unit.h"

/* n entries for a list or a map, n bytes for a text, as JSON. */
static void write_value(const struct field *f, uint64_t n, struct buf *b)
{
	int r = buf_printf(b, "{\"%s\":%s", f->name,
			   f->type == FIELD_TEXT  ? "\""
			   : f->type == FIELD_MAP ? "{"
						  : "[");

	if (r >= 0 && f->type == FIELD_TEXT && (r = buf_reserve(b, n + 1)) >= 0) {
		memset(b->data + b->len, 'a', n);
		if (f->check == CHECK_PATH && n)
			b->data[b->len] = '/';
		b->len += n;
	}
	for (uint64_t i = 0; r >= 0 && f->type != FIELD_TEXT && i < n; i++)
		r = buf_printf(b, f->type == FIELD_MAP ? "%s\"a%d\":\"\"" : "%s\"%d\"",
			       i ? "," : "", (int)i + 1);
	if (r >= 0)
		r = buf_puts(b, f->type == FIELD_TEXT ? "\"}" : f->type == FIELD_MAP ? "}}" : "]}");
	assert_int_equal(r, 0);
}

/* The row alone, so that only its own limit can refuse. */
static int decode_row(const struct field *f, const char *json)
{
	const struct json_limits wide = { .bytes = MIB(9), .depth = 8, .values = 100000 };
	struct field alone = *f;
	const struct field_table t = { "T", "T", sizeof(max_align_t[8]), &alone, 1 };
	auto_arena arena = ARENA_INIT(MIB(9));
	auto_json j = NULL;
	max_align_t room[8] = {};
	int r;

	alone.offset = alone.has = 0;
	r = json_parse(slice_of(json), &wide, &j, NULL);
	return r < 0 ? r : field_decode(&t, j, &arena, room, NULL);
}

static void every_length_has_its_edges(void **)
{
	unsigned tried = 0;

	for (size_t i = 0; field_tables[i]; i++)
		for (size_t k = 0; k < field_tables[i]->n; k++) {
			const struct field *f = &field_tables[i]->rows[k];
			auto_buf most = BUF_INIT(MIB(9)), more = BUF_INIT(MIB(9));
			auto_buf less = BUF_INIT(MIB(9));

			if (f->type != FIELD_TEXT && f->type != FIELD_TEXTS && f->type != FIELD_MAP)
				continue;
			write_value(f, f->max, &most);
			write_value(f, f->max + 1, &more);
			row_check(k, decode_row(f, most.data) == 0);
			row_check(k, decode_row(f, more.data) == -EINVAL);
			if (f->min) {
				write_value(f, f->min - 1, &less);
				row_check(k, decode_row(f, less.data) == -EINVAL);
			}
			tried++;
		}
	assert_true(tried > 25);
}

static void every_number_has_its_edges(void **)
{
	for (size_t i = 0; field_tables[i]; i++)
		for (size_t k = 0; k < field_tables[i]->n; k++) {
			const struct field *f = &field_tables[i]->rows[k];
			char text[64];

			if (f->type != FIELD_U64 && f->type != FIELD_BYTES &&
			    f->type != FIELD_MILLI)
				continue;
#define WITH(v) \
	(assert_true(snprintf(text, sizeof(text), "{\"%s\":%llu}", f->name, \
			      (unsigned long long)(v)) > 0), \
	 decode_row(f, text))
			row_check(k, WITH(f->min) == 0 && WITH(f->max) == 0);
			row_check(k, f->min == 0 || WITH(f->min - 1) == -EINVAL);
			row_check(k, WITH(f->max + 1) == -EINVAL);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_length_has_its_edges),
		cmocka_unit_test(every_number_has_its_edges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
