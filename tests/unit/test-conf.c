/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "text/conf.h"
#include "unit.h"

struct all {
	uint64_t number, size, wait;
	bool flag;
	unsigned choice;
	char dir[9];
	char word[9];
	char text[9];
};

static const char *const colours[] = { "red", "green", NULL };
static const struct conf_key keys[] = {
	{ "one", "number", CONF_U64, offsetof(struct all, number), 1, 100, "7", NULL, true, "N" },
	{ "one", "max-size", CONF_BYTES, offsetof(struct all, size), 0, 1 << 30, "1Mi", NULL, false,
	  "S" },
	{ "two", "wait", CONF_DURATION, offsetof(struct all, wait), 1000, 60000, "5s", NULL, false,
	  "W" },
	{ "two", "flag", CONF_BOOL, offsetof(struct all, flag), 0, 0, "no", NULL, false, "F" },
	{ "two", "colour", CONF_CHOICE, offsetof(struct all, choice), 0, 0, "green", colours, false,
	  "C" },
	{ "two", "dir", CONF_PATH, offsetof(struct all, dir), 1, 8, "/", NULL, false, "D" },
	{ "two", "word", CONF_WORD, offsetof(struct all, word), 2, 8, "cay", NULL, false, "O" },
	{ "two", "text", CONF_TEXT, offsetof(struct all, text), 0, 8, "", NULL, false, "T" },
};
static const struct conf_table table = { keys, ARRAY_SIZE(keys) };

static void defaults_come_from_the_table(void **)
{
	struct all a;

	conf_set_defaults(&table, &a);
	assert_int_equal(a.number, 7);
	assert_int_equal(a.size, 1 << 20);
	assert_int_equal(a.wait, 5000);
	assert_false(a.flag);
	assert_int_equal(a.choice, 1);
	assert_string_equal(a.dir, "/");
	assert_string_equal(a.word, "cay");
	assert_string_equal(a.text, "");
}

static void a_file_sets_what_it_says(void **)
{
	struct all a;
	struct cay_err err = {};

	conf_set_defaults(&table, &a);
	assert_int_equal(conf_parse(&table,
				    SLICE("# comment\n\n[one]\nnumber = 42\n\tmax-size=2Ki  \n"
					  "[two]\nwait= 1m\nflag = yes\n colour = red\n"
					  "dir = /a#b\xC3\xA9\ntext = a b:1 c\n[one]\n"),
				    "f", &a, &err),
			 0);
	assert_int_equal(a.number, 42);
	assert_int_equal(a.size, 2048);
	assert_int_equal(a.wait, 60000);
	assert_true(a.flag);
	assert_int_equal(a.choice, 0);
	assert_string_equal(a.dir, "/a#b\xC3\xA9");
	assert_string_equal(a.text, "a b:1 c");
	assert_int_equal(conf_parse(&table, SLICE(""), "f", &a, &err), 0);
	assert_int_equal(conf_parse(&table, SLICE("[one]\nnumber = 3"), "f", &a, &err), 0);
	assert_int_equal(a.number, 3);
}

static void mistakes_name_their_line(void **)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "number = 1\n", "f:1: 'number' comes before any [section]" },
		{ "[one]\nnumber = 1\nnumber = 2\n", "f:3: 'number' is set twice" },
		{ "[one]\n[two]\nnumber = 1\n", "f:3: there is no key 'number' in [two]" },
		{ "[three]\n", "f:1: there is no section [three]" },
		{ "[one\n", "f:1: a section ends in ']'" },
		{ "[", "f:1: a section ends in ']'" },
		{ "[]\n", "f:1: there is no section []" },
		{ "[one]\nnumber\n", "f:2: neither [section] nor key = value" },
		{ "[one]\n= 1\n", "f:2: there is no key '' in [one]" },
		{ "[one]\nnumber = 0\n", "f:2: number = '0' is not a number from 1 to 100" },
		{ "[one]\nnumber = 101\n", "f:2: number = '101' is not a number from 1 to 100" },
		{ "[one]\nnumber = 1 # x\n",
		  "f:2: number = '1 # x' is not a number from 1 to 100" },
		{ "[one]\nmax-size = 2Gi\n",
		  "f:2: max-size = '2Gi' is not a size such as 512Mi, 0 to 1Gi" },
		{ "[two]\nwait = 1\n", "f:2: wait = '1' is not a duration such as 15m, 1s to 1m" },
		{ "[two]\nflag = true\n", "f:2: flag = 'true' is not yes or no" },
		{ "[two]\ncolour = blue\n", "f:2: colour = 'blue' is not one of red, green" },
		{ "[two]\ndir = x\n", "f:2: dir = 'x' is not an absolute path of at most 8 bytes" },
		{ "[two]\ndir =\n", "f:2: dir = '' is not an absolute path of at most 8 bytes" },
		{ "[two]\ndir = /12345678\n",
		  "f:2: dir = '/12345678' is not an absolute path of at most 8 bytes" },
		{ "[two]\nword = Cay\n", "f:2: word = 'Cay' is not a word of a-z, 0-9, hyphens and "
					 "underscores of at most 8 bytes" },
		{ "[two]\nword = a/b\n", "f:2: word = 'a/b' is not a word of a-z, 0-9, hyphens and "
					 "underscores of at most 8 bytes" },
		{ "[two]\nword = c\n", "f:2: word = 'c' is not a word of a-z, 0-9, hyphens and "
				       "underscores of at most 8 bytes" },
		{ "[two]\ntext = a  b\n", "f:2: text = 'a  b' is not words with one space between "
					  "them of at most 8 bytes" },
		{ "[two]\ntext = \xC3\xA9\n", "f:2: text = '\xC3\xA9' is not words with one space "
					      "between them of at most 8 bytes" },
		{ "[two]\ntext = a b c d e\n", "f:2: text = 'a b c d e' is not words with one "
					       "space between them of at most 8 bytes" },
		{ "[one]\r\n", "f:1: not plain UTF-8 text" },
		{ "[one]\n# \x01\n", "f:2: not plain UTF-8 text" },
		{ "[one]\n# \x7f\n", "f:2: not plain UTF-8 text" },
		{ "[one]\n\n\n# \xFF\n", "f:4: not plain UTF-8 text" },
		{ "\xEF\xBB\xBF[one]\n", "f:1: neither [section] nor key = value" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct all a;
		struct cay_err err = {};

		conf_set_defaults(&table, &a);
		row_check(i, conf_parse(&table, slice_of(cases[i].text), "f", &a, &err) == -EINVAL);
		assert_string_equal(err.msg, cases[i].says);
	}
}

static void variables_override(void **)
{
	const char *const env[] = { "CAY_ONE_NUMBER=9", "CAY_ONE_MAX_SIZE=4Ki", "CAY_FAULT=x",
				    "CAY_ONE_NUMBERS=1", NULL };
	const char *const bad[] = { "CAY_TWO_FLAG=maybe", NULL };
	const char *const control[] = { "CAY_TWO_DIR=/a\nb", NULL };
	const char *const bare[] = { "CAY_TWO_DIR", NULL };
	struct cay_err err = {};
	struct all a;

	conf_set_defaults(&table, &a);
	assert_int_equal(conf_apply_env(&table, env, &a, &err), 0);
	assert_int_equal(a.number, 9);
	assert_int_equal(a.size, 4096);
	assert_int_equal(conf_apply_env(&table, bad, &a, &err), -EINVAL);
	assert_string_equal(err.msg, "CAY_TWO_FLAG: flag = 'maybe' is not yes or no");
	assert_int_equal(conf_apply_env(&table, control, &a, NULL), -EINVAL);
	assert_int_equal(conf_apply_env(&table, bare, &a, NULL), -EINVAL);
}

static void each_value_has_an_origin_and_is_written_as_it_is_read(void **)
{
	const char *const env[] = { "CAY_TWO_WAIT=9s", NULL };
	static const struct {
		const char *value;
		struct conf_origin origin;
	} want[] = {
		{ "42", { CONF_FROM_FILE, 3 } },
		{ "1Mi", {} },
		{ "9s", { CONF_FROM_VARIABLE, 0 } },
		{ "yes", { CONF_FROM_FILE, 6 } },
		{ "red", { CONF_FROM_FILE, 7 } },
		{ "/", {} },
		{ "cay", {} },
		{ "a b", { CONF_FROM_FILE, 8 } },
	};
	struct conf_origin origins[ARRAY_SIZE(keys)] = {};
	struct cay_err err = {};
	struct all a;

	conf_set_defaults(&table, &a);
	assert_int_equal(conf_parse_traced(&table,
					   SLICE("# 1\n[one]\nnumber = 42\n\n[two]\nflag = yes\n"
						 "colour = red\ntext = a b\nwait = 2s\n"),
					   "f", &a, origins, &err),
			 0);
	assert_int_equal(conf_apply_env_traced(&table, env, &a, origins, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		auto_buf value = BUF_INIT(64);

		assert_int_equal(conf_value_format(&keys[i], &a, &value), 0);
		row_check(i, str_eq(buf_str(&value), want[i].value) &&
				     origins[i].from == want[i].origin.from &&
				     origins[i].line == want[i].origin.line);
	}
}

/* Each '#key' line of the sample with its '#' removed is what the table says. */
static void the_sample_reads_back(void **)
{
	auto_buf sample = BUF_INIT(KIB(64)), plain = BUF_INIT(KIB(64));
	struct slice rest;
	struct cay_err err = {};
	struct all a = {};

	assert_int_equal(conf_write_sample(&table, &sample), 0);
	rest = (struct slice){ sample.data, sample.len };
	while (rest.n) {
		struct slice line = slice_cut(&rest, '\n');

		if (line.n > 1 && line.p[0] == '#' && line.p[1] != ' ') {
			line.p++;
			line.n--;
		}
		assert_int_equal(buf_append(&plain, line.p, line.n), 0);
		assert_int_equal(buf_putc(&plain, '\n'), 0);
	}
	assert_int_equal(conf_parse(&table, (struct slice){ plain.data, plain.len }, "s", &a, &err),
			 0);
	assert_int_equal(a.number, 7);
	assert_int_equal(a.wait, 5000);
	assert_non_null(strstr(sample.data, "# N (a number from 1 to 100; applied on SIGHUP)\n"
					    "#number = 7\n"));
}

static void the_man_page_has_every_key(void **)
{
	auto_buf man = BUF_INIT(KIB(64)), tiny = BUF_INIT(10);

	assert_int_equal(conf_write_man(&table, &man), 0);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		assert_non_null(strstr(man.data, keys[i].key));
	assert_non_null(strstr(man.data, "Variable: CAY\\_ONE\\_MAX\\_SIZE."));
	assert_int_equal(conf_write_man(&table, &tiny), -ENOBUFS);
	assert_int_equal(conf_write_sample(&table, &tiny), -ENOBUFS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_come_from_the_table),
		cmocka_unit_test(a_file_sets_what_it_says),
		cmocka_unit_test(mistakes_name_their_line),
		cmocka_unit_test(variables_override),
		cmocka_unit_test(each_value_has_an_origin_and_is_written_as_it_is_read),
		cmocka_unit_test(the_sample_reads_back),
		cmocka_unit_test(the_man_page_has_every_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
