/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/kernel/code-block.h"

#include "unit.h"

static void more_lines_have_to_come(void **)
{
	static const struct {
		const char *language, *text;
		bool open;
	} cases[] = {
		{ "python", "1 + 1\n", false },
		{ "python", "f(1,\n", true },
		{ "python", "f(1,\n2)\n", false },
		{ "python", "f(')')\n", false },
		{ "python", "x = '('  # (\n", false },
		{ "python", "x = '\\'('\n", false },
		{ "python", "'''a\n", true },
		{ "python", "'''a\nb'''\n", false },
		{ "python", "\"\"\"it's '\n", true },
		{ "python", "\"\"\"it's '\"\"\"\n", false },
		{ "python", "x = ''\n", false },
		{ "python", "x = 'no end\n", false }, /* the kernel says so */
		{ "python", "x = 'a\\\n", true },
		{ "python", "x = 1 + \\\n", true },
		{ "python", "x = 1 + \\\n2\n", false },
		{ "python", "if x:\n", true },
		{ "python", "if x:  # why\n", true },
		{ "python", "if x:\n    y\n", true },
		{ "python", "if x:\n    y\n\n", false },
		{ "python", "if x:\n    y\n   \n", false },
		{ "python", "if x: y\n", false },
		{ "python", "x = {1:\n2}\n", false },
		{ "python", "def f():\n    '''\n\n", true },
		{ "python", "@f\n", true },
		{ "python", "@f\ndef g(): pass\n\n", false },
		{ "python", "%%bash\n", true },
		{ "python", "%%bash\necho\n\n", false },
		{ "python", "!echo '(\n", false },
		{ "python", "%time f(\n", false },
		{ "python", ")\n", false },
		{ "python", "", false },
		{ "node", "if (x) {\n", true },
		{ "node", "if (x) {\n}\n", false },
		{ "node", "x = `a\n", true },
		{ "node", "x = `a\n`\n", false },
		{ "node", "x = 'a\n", false },
		{ "node", "// {\n", false },
		{ "node", "/* {\n", true },
		{ "node", "/* {\n*/\n", false },
		{ "node", "x = {a:\n1}\n", false },
		{ "node", "a ? b :\n", false },
		{ "r", "f <- function(x) {\n", true },
		{ "r", "f <- function(x) {\nx }\n", false },
		{ "r", "x <- 'a\n", true },
		{ "r", "x <- 'a\nb'\n", false },
		{ "r", "# it's {\n", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		row_check(i, code_block_is_open(cases[i].language, slice_of(cases[i].text)) ==
				     cases[i].open);
}

/* Each beginning of each, at its exact size. */
static void no_text_is_read_past_its_end(void **)
{
	static const char text[] = "'''a\\\n\"\"\"`/*//*/#\\\n@%%!({[]})'\"\\";
	static const char *const languages[] = { "python", "node", "r" };

	for (size_t n = 0; n < sizeof(text); n++)
		for (size_t l = 0; l < ARRAY_SIZE(languages); l++) {
			char *exact = malloc(n ? n : 1);

			assert_non_null(exact);
			memcpy(exact, text, n);
			(void)code_block_is_open(languages[l], (struct slice){ exact, n });
			free(exact);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(more_lines_have_to_come),
		cmocka_unit_test(no_text_is_read_past_its_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
