/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/name-lines.h"

#include <string.h>

#include "unit.h"

static void set_ids(char one[static ID_TEXT_LEN + 1], char two[static ID_TEXT_LEN + 1])
{
	struct id a = { .noun = ID_SANDBOX }, b = a;

	a.bits[3] = 7;
	b.bits[9] = 9;
	id_format(&a, one);
	id_format(&b, two);
}

/* %1: one sandbox, %2: another. */
static void put_text(struct buf *out, const char *text)
{
	char one[ID_TEXT_LEN + 1], two[ID_TEXT_LEN + 1];

	set_ids(one, two);
	for (const char *p = text; *p; p++)
		if (*p == '%')
			assert_int_equal(buf_puts(out, *++p == '1' ? one : two), 0);
		else
			assert_int_equal(buf_putc(out, *p), 0);
}

static void lines_that_are_left(void **)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "", "" },
		{ "%1 a.example\n%1 b.example\n", "%1 a.example\n%1 b.example\n" },
		{ "%1 a.example\n%2 b.example\n%1 -\n", "%2 b.example\n" },
		/* an id that comes back, as of a sandbox that is stopped and started */
		{ "%1 a.example\n%1 -\n%1 b.example\n%2 c.example\n%1 -\n%1 d.example\n",
		  "%2 c.example\n%1 d.example\n" },
		{ "%1 -\n%1 a.example\n", "%1 a.example\n" },
		{ "%1 -\n%2 -\n%1 -\n", "" },
		/* no lines */
		{ "%1 a..b\nno line\n\n%1\n%1 \nsb1 a.example\n%2 a.example\n", "%2 a.example\n" },
		{ "%1 a.example\n%1 b.exam", "%1 a.example\n" },
		{ "%1 a.example\n%1 -", "%1 a.example\n" },
		{ "%1 a.example", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_buf text = BUF_INIT(KIB(4)), want = BUF_INIT(KIB(4)), got = BUF_INIT(KIB(4));

		put_text(&text, rows[i].text);
		put_text(&want, rows[i].want);
		assert_int_equal(
			name_lines_select((struct slice){ buf_str(&text), text.len }, &got), 0);
		row_check(i, strcmp(buf_str(&got), buf_str(&want)) == 0);
	}
}

static void what_does_not_fit_is_an_error(void **)
{
	auto_buf text = BUF_INIT(KIB(4)), got = BUF_INIT(20);

	put_text(&text, "%1 a.example\n");
	assert_true(name_lines_select((struct slice){ buf_str(&text), text.len }, &got) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_that_are_left),
		cmocka_unit_test(what_does_not_fit_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
