/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/options.h"

#include <stdio.h>

#include "ops/types.h"
#include "unit.h"

struct args {
	bool flag, other;
	const char *text;
	uint64_t number, bytes, milli, ms;
	unsigned choice;
	struct field_map pairs;
};

#define AT(m) offsetof(struct args, m)
static const struct opt rows[] = {
	{ "flag", 'f', OPT_FLAG, AT(flag) },
	{ "other", 'o', OPT_FLAG, AT(other) },
	{ "text", 't', OPT_TEXT, AT(text), .arg = "TEXT" },
	{ "number", 'n', OPT_U64, AT(number), 2, 9, .arg = "N" },
	{ "bytes", 0, OPT_BYTES, AT(bytes), .arg = "SIZE" },
	{ "milli", 0, OPT_MILLI, AT(milli), .arg = "CORES" },
	{ "time", 0, OPT_DURATION, AT(ms), .arg = "TIME" },
	{ "runtime", 0, OPT_CHOICE, AT(choice), .arg = "crun|runc", .table = &sandbox_create_table,
	  .member = "runtime" },
	{ "pair", 'p', OPT_PAIRS, AT(pairs), .arg = "KEY=VALUE" },
};
static const struct opt_group groups[] = { { rows, ARRAY_SIZE(rows), 0 }, {} };

static const struct {
	const char *words[8];
	const char *message; /* NULL: fine */
	const char *near;
	size_t operands, rest;
	struct args want; /* pairs: only n */
} cases[] = {
	{ {}, NULL, NULL, 0, 0, {} },
	{ { "a", "b" }, NULL, NULL, 2, 0, {} },
	{ { "--flag", "a" }, NULL, NULL, 1, 0, { .flag = true } },
	{ { "a", "--flag" }, NULL, NULL, 1, 0, { .flag = true } },
	{ { "-f", "-o" }, NULL, NULL, 0, 0, { .flag = true, .other = true } },
	{ { "-fo" }, NULL, NULL, 0, 0, { .flag = true, .other = true } },
	{ { "-fn7" }, NULL, NULL, 0, 0, { .flag = true, .number = 7 } },
	{ { "-fn", "7" }, NULL, NULL, 0, 0, { .flag = true, .number = 7 } },
	{ { "--text", "x" }, NULL, NULL, 0, 0, { .text = "x" } },
	{ { "--text=x=y" }, NULL, NULL, 0, 0, { .text = "x=y" } },
	{ { "--text=" }, NULL, NULL, 0, 0, { .text = "" } },
	{ { "--text", "-f" }, NULL, NULL, 0, 0, { .text = "-f" } },
	{ { "-" }, NULL, NULL, 1, 0, {} },
	{ { "a", "--", "-f", "--nope", "--" }, NULL, NULL, 1, 3, {} },
	{ { "--bytes", "1Gi", "--milli", "500m", "--time", "15m", "--runtime", "runc" },
	  NULL,
	  NULL,
	  0,
	  0,
	  { .bytes = 1u << 30, .milli = 500, .ms = 900000, .choice = 1 } },
	{ { "-p", "a=b", "-pc=d=e", "--pair=f=" }, NULL, NULL, 0, 0, { .pairs.n = 3 } },
	{ { "--flga" }, "there is no option '--flga'", "flag", 0, 0, {} },
	{ { "--zzzzzzzz" }, "there is no option '--zzzzzzzz'", NULL, 0, 0, {} },
	{ { "-x" }, "there is no option '-x'", NULL, 0, 0, {} },
	{ { "-fx" }, "there is no option '-x'", NULL, 0, 0, {} },
	{ { "--flag=1" }, "--flag takes no value", NULL, 0, 0, {} },
	{ { "--flag", "-f" }, "--flag is given twice", NULL, 0, 0, {} },
	{ { "--text", "a", "-tb" }, "--text is given twice", NULL, 0, 0, {} },
	{ { "--text" }, "--text: missing TEXT", NULL, 0, 0, {} },
	{ { "--text", "--", "a" }, "--text: missing TEXT", NULL, 0, 0, {} },
	{ { "-t" }, "--text: missing TEXT", NULL, 0, 0, {} },
	{ { "-n", "1" }, "--number: 1 is out of range", NULL, 0, 0, {} },
	{ { "-n", "10" }, "--number: 10 is out of range", NULL, 0, 0, {} },
	{ { "-n", "-1" }, "--number: invalid number '-1'", NULL, 0, 0, {} },
	{ { "--bytes", "1Qi" }, "--bytes: invalid size '1Qi' (use 512Mi, 2Gi)", NULL, 0, 0, {} },
	{ { "--time", "5" }, "--time: invalid duration '5' (use 30s, 10m, 1h)", NULL, 0, 0, {} },
	{ { "--runtime", "kata" },
	  "--runtime: invalid value 'kata' (use crun|runc)",
	  NULL,
	  0,
	  0,
	  {} },
	{ { "-p", "a" }, "--pair: expected KEY=VALUE", NULL, 0, 0, {} },
	{ { "-p", "=b" }, "--pair: expected KEY=VALUE", NULL, 0, 0, {} },
	{ { "-p", "a=1", "-p", "a=2" }, "--pair: 'a' is given twice", NULL, 0, 0, {} },
};

static void same_text(size_t i, const char *a, const char *b)
{
	row_check(i, !a == !b && (!a || str_eq(a, b)));
}

static void words_become_options(void **)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_arena arena = ARENA_INIT(KIB(64));
		const struct args *want = &cases[i].want;
		struct args got = {};
		struct cay_err err = {};
		struct opt_words w = {};
		const char *near, *words[9] = {};
		size_t n = 0;
		int r;

		for (; n < 8 && cases[i].words[n]; n++)
			words[n] = cases[i].words[n];
		r = opt_parse_words(groups, words, n, &arena, &got, &w, &near, &err);
		row_check(i, (r == 0) == !cases[i].message);
		same_text(i, cases[i].near, near);
		if (r < 0) {
			assert_string_equal(err.msg, cases[i].message);
			continue;
		}
		row_check(i, w.n_operands == cases[i].operands && w.n_rest == cases[i].rest);
		row_check(i, got.flag == want->flag && got.other == want->other);
		same_text(i, got.text, want->text);
		row_check(i, got.number == want->number && got.bytes == want->bytes);
		row_check(i, got.milli == want->milli && got.ms == want->ms);
		row_check(i, got.choice == want->choice && got.pairs.n == want->pairs.n);
	}
}

static void a_command_begins_after_the_operands(void **)
{
	static const struct {
		const char *words[8];
		size_t operands, own;
	} lines[] = {
		{ {}, 1, 0 },
		{ { "box" }, 1, 1 },
		{ { "box", "ls", "-l" }, 1, 1 },
		{ { "box", "--", "ls" }, 1, 1 },
		{ { "--", "ls" }, 1, 0 },
		{ { "box", "-f", "ls", "-f" }, 1, 2 },
		{ { "-t", "x", "box", "ls" }, 1, 3 },
		{ { "-tx", "box", "ls" }, 1, 2 },
		{ { "-fot", "x", "box", "ls" }, 1, 3 },
		{ { "--text", "x", "box", "ls" }, 1, 3 },
		{ { "--text=x", "box", "ls" }, 1, 2 },
		{ { "box", "--text", "x", "ls", "--text" }, 1, 3 },
		{ { "--flag", "box", "ls" }, 1, 2 },
		{ { "--nope", "box", "ls" }, 1, 2 },
		{ { "-", "ls" }, 1, 1 },
		{ { "box", "-t", "--", "ls" }, 1, 2 },
		{ { "box", "-t" }, 1, 2 },
		{ { "box", "web", "run", "it" }, 2, 2 },
		{ { "box", "-", "x" }, 1, 1 },
		{ { "ls" }, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		size_t n = 0;

		while (n < 8 && lines[i].words[n])
			n++;
		row_check(i, opt_count_own_words(groups, lines[i].words, n, lines[i].operands) ==
				     lines[i].own);
	}
}

static void pairs_keep_what_is_behind_the_first_sign(void **)
{
	auto_arena arena = ARENA_INIT(KIB(64));
	static const char *const words[] = { "-p", "c=d=e", NULL };
	struct args got = {};
	struct opt_words w;
	const char *near;

	assert_int_equal(opt_parse_words(groups, words, 2, &arena, &got, &w, &near, NULL), 0);
	assert_string_equal(got.pairs.keys[0], "c");
	assert_string_equal(got.pairs.values[0], "d=e");
}

static void pairs_are_bounded(void **)
{
	auto_arena arena = ARENA_INIT(MIB(1));
	static const char *words[2 * OPT_PAIRS_MAX + 3];
	static char text[OPT_PAIRS_MAX + 1][16];
	struct cay_err err = {};
	struct args got = {};
	struct opt_words w;
	const char *near;

	for (size_t i = 0; i <= OPT_PAIRS_MAX; i++) {
		assert_true(snprintf(text[i], sizeof(text[i]), "k%zu=v", i) > 0);
		words[2 * i] = "-p";
		words[2 * i + 1] = text[i];
	}
	assert_int_equal(
		opt_parse_words(groups, words, 2 * OPT_PAIRS_MAX, &arena, &got, &w, &near, &err),
		0);
	got = (struct args){};
	assert_true(opt_parse_words(groups, words, 2 * OPT_PAIRS_MAX + 2, &arena, &got, &w, &near,
				    &err) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_become_options),
		cmocka_unit_test(a_command_begins_after_the_operands),
		cmocka_unit_test(pairs_keep_what_is_behind_the_first_sign),
		cmocka_unit_test(pairs_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
