/* SPDX-License-Identifier: Apache-2.0 */
#include "text/absolute-path.h"
#include "unit.h"

static void one_path_has_one_spelling(void **)
{
	static const struct {
		const char *dir, *path, *want; /* NULL: refused */
	} cases[] = {
		{ "/workspace", "out/f", "/workspace/out/f" },
		{ "/workspace", "/etc/x", "/etc/x" },
		{ "/workspace", ".", "/workspace" },
		{ "/workspace", "./a//b/./c/", "/workspace/a/b/c" },
		{ "/", "a", "/a" },
		{ "/", ".", "/" },
		{ "/w/", "/", "/" },
		{ "/w//x/", "...", "/w/x/..." },
		{ "/w", "..a/.b/c..", "/w/..a/.b/c.." },
		{ "/w", " a\nb ", "/w/ a\nb " },
		{ "/w", "", NULL },
		{ "/w", "..", NULL },
		{ "/w", "a/..", NULL },
		{ "/w", "/../etc", NULL },
		{ "/w", "a/../b", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_buf b = BUF_INIT(100);
		int r = absolute_path_format(cases[i].dir, slice_of(cases[i].path), &b);

		row_check(i, cases[i].want ? r >= 0 && strcmp(buf_str(&b), cases[i].want) == 0
					   : r == -EINVAL);
	}
}

static void it_has_a_bound(void **)
{
	auto_buf b = BUF_INIT(8), c = BUF_INIT(8);

	assert_int_equal(absolute_path_format("/w", SLICE("12345"), &b), 0);
	assert_string_equal(buf_str(&b), "/w/12345");
	assert_int_equal(absolute_path_format("/w", SLICE("123456"), &c), -ENOBUFS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_path_has_one_spelling),
		cmocka_unit_test(it_has_a_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
