/* SPDX-License-Identifier: Apache-2.0 */
/* The command table: complete rows, no option twice, and a man page that says
 * the same. */
#include <fcntl.h>

#include "base/path.h"
#include "cli/print/hint.h"
#include "cli/print/list.h"
#include "cli/print/pager.h"
#include "cli/print/reason.h"
#include "cli/setup/doctor.h"
#include "unit.h"

static void check_member(const struct cmd *c, const struct field_table *t, const char *member)
{
	struct slice path = slice_of(member);

	while (path.p) {
		struct slice name = slice_cut(&path, '.');
		size_t i = 0;

		while (t && i < t->n && !slice_eq(slice_of(t->rows[i].name), name))
			i++;
		if (!t || i == t->n)
			fail_msg("cay %s: the reply has no member %s", c->name, member);
		t = t->rows[i].sub;
	}
}

/* A row without a function: its operation's reply has what is printed of it. */
static void check_operation(const struct cmd *c)
{
	const struct field_table *reply = ops[c->op].response;

	if (c->no_json || !reply || ((c->columns || c->print) && c->prints))
		fail_msg("cay %s: not complete", c->name);
	if (c->prints)
		check_member(c, reply, c->prints);
	for (const struct column *col = c->columns; col && col->heading; col++)
		if (!col->format)
			check_member(c, reply->rows[0].sub, col->member);
}

static void every_command_is_complete(void **)
{
	for (const struct cmd *const *c = commands; *c; c++) {
		const char *name = (*c)->name;
		size_t used;

		if (!name || !(*c)->args || !(*c)->help || (*c)->min > (*c)->max)
			fail_msg("%s: not complete", name ? name : "?");
		if (!(*c)->run)
			check_operation(*c);
		if ((*c)->options && !(*c)->size)
			fail_msg("%s: options without a struct", name);
		if ((*c)->help[strlen((*c)->help) - 1] == '.')
			fail_msg("%s: help ends in a full stop", name);
		assert_ptr_equal(cmd_find(&(const char *){ name }, 1, &used),
				 strchr(name, ' ') ? NULL : *c);
	}
}

static void words_find_commands(void **)
{
	static const char *const two[] = { "image", "import", "x" };
	size_t used;

	assert_ptr_equal(cmd_find(two, 3, &used), &cmd_image_import);
	assert_int_equal(used, 2);
	assert_null(cmd_find(two, 1, &used));
	assert_null(cmd_find(two + 1, 2, &used));
	assert_string_equal(cmd_find_similar("crate"), "create");
	assert_string_equal(cmd_find_similar("hlep"), "help");
	assert_null(cmd_find_similar("frobnicate"));
	assert_null(cmd_find_similar("x"));
}

static void each_option(const struct cmd *c, void (*see)(const struct cmd *, const struct opt *))
{
	for (const struct opt_group *g = c->options; g && g->rows; g++)
		for (size_t i = 0; i < g->n; i++)
			see(c, &g->rows[i]);
}

static void check_option(const struct cmd *c, const struct opt *o)
{
	unsigned same = 0;

	if (!o->help || (o->type != OPT_FLAG && !o->arg))
		fail_msg("cay %s --%s: not complete", c->name, o->name);
	if (o->type == OPT_CHOICE)
		assert_non_null(opt_list_choices(o));
	for (const struct opt_group *g = c->options; g && g->rows; g++)
		for (size_t i = 0; i < g->n; i++)
			same += str_eq(g->rows[i].name, o->name) ||
				(o->letter && g->rows[i].letter == o->letter);
	if (same != 1)
		fail_msg("cay %s --%s: there twice", c->name, o->name);
	if (o->offset >= c->size)
		fail_msg("cay %s --%s: outside its struct", c->name, o->name);
}

static void every_option_is_complete_and_there_once(void **)
{
	for (const struct cmd *const *c = commands; *c; c++)
		each_option(*c, check_option);
}

static void the_man_page_is_fresh(void **)
{
	auto_close int dir = open(getenv("CAY_SOURCE"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_buf want = BUF_INIT(KIB(256)), is = BUF_INIT(KIB(256));

	assert_int_equal(help_format_man(&want), 0);
	assert_int_equal(path_read(dir, "docs/man/cay.1.scd", &is), 0);
	if (!str_eq(buf_str(&want), buf_str(&is)))
		fail_msg("docs/man/cay.1.scd is not what `cay help --scd` prints");
}

static void every_check_is_complete(void **)
{
	const struct doctor_check *const lists[] = { doctor_kernel, doctor_host };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		for (const struct doctor_check *c = lists[i]; c->name; c++)
			if (!c->run || !c->advice || c->bad == VERDICT_OK || strlen(c->name) > 18)
				fail_msg("%s: not complete", c->name);
}

static void every_reason_has_words_and_advice(void **)
{
	for (unsigned i = 0; i < END_NUM_REASONS; i++) {
		if (!reasons[i].words || !reasons[i].advice || !reasons[i].words[0] ||
		    !reasons[i].advice[0])
			fail_msg("reason %u: not complete", i);
		if (reasons[i].advice[strlen(reasons[i].advice) - 1] == '.')
			fail_msg("reason %u: its advice ends in a full stop", i);
		for (unsigned k = 0; k < i; k++)
			assert_string_not_equal(reasons[i].words, reasons[k].words);
	}
}

/* The words behind every "'cay " up to the quote name a command. */
static void check_commands(const char *text)
{
	for (const char *p = strstr(text, "'cay "); p; p = strstr(p + 1, "'cay ")) {
		struct slice rest = { p + 5, strcspn(p + 5, "'") };
		char words[2][32] = {};
		const char *v[2] = { words[0], words[1] };
		size_t n = 0, used;

		while (rest.p && n < 2) {
			struct slice word = slice_cut(&rest, ' ');

			assert_true(word.n < sizeof(words[0]));
			memcpy(words[n++], word.p, word.n);
		}
		if (!cmd_find(v, n, &used))
			fail_msg("there is no command '%s %s', which is advised: %s", v[0], v[1],
				 text);
	}
}

static void every_command_that_is_advised_is_there(void **)
{
	for (unsigned i = CAY_OK + 1; i < CAY_NUM_CODES; i++)
		check_commands(cay_error_row((enum cay_code)i)->hint);
	for (unsigned i = 0; i < END_NUM_REASONS; i++)
		check_commands(reasons[i].advice);
	for (const struct doctor_check *c = doctor_host; c->name; c++)
		check_commands(c->advice);
	for (const struct hint *h = hints; h->words; h++) {
		bool used = false;

		check_commands(h->words);
		assert_true(strlen(h->words) < API_HINT_MAX);
		for (size_t i = 0; i < OP_NUM; i++)
			used |= strncmp(ops[i].name, h->op, strlen(h->op)) == 0;
		if (!used)
			fail_msg("no operation begins with '%s'", h->op);
	}
}

static void hints_are_by_operation_error_and_field(void **)
{
	static const struct {
		enum op_id op;
		enum cay_code code;
		const char *field, *said, *want;
	} cases[] = {
		{ OP_SANDBOX_CREATE, CAY_E_NOT_FOUND, "image", "", "'cay image ls' lists" },
		{ OP_SANDBOX_CREATE, CAY_E_NOT_FOUND, "template", "", "'cay template ls' lists" },
		{ OP_SANDBOX_CREATE, CAY_E_NOT_FOUND, "image", "mine", "mine" },
		{ OP_TEMPLATE_CREATE, CAY_E_NOT_FOUND, "defaults.image", "",
		  "'cay image ls' lists" },
		{ OP_TEMPLATE_GET, CAY_E_NOT_FOUND, "", "", "'cay template ls' lists" },
		{ OP_IMAGE_DELETE, CAY_E_NOT_FOUND, "", "", "'cay image ls' lists images" },
		{ OP_EXEC_RUN, CAY_E_STATE, "", "", "'cay why" },
		{ OP_EXEC_RUN, CAY_E_TIMEOUT, "", "", "it took longer" },
		{ OP_EXEC_RUN, CAY_E_INTERNAL, "", "", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct api a = { .last_op = cases[i].op, .has_last_op = true };
		struct cay_err err = {};

		(void)cay_fail_field(&err, cases[i].code, cases[i].field, "x");
		/* a server sends the table's own words when it knows nothing better */
		api_hint_set(&a, cases[i].said);
		row_check(i,
			  strncmp(hint_find(&a, &err), cases[i].want, strlen(cases[i].want)) == 0);
		if (cases[i].said[0] || cases[i].code == CAY_E_INTERNAL)
			continue;
		api_hint_set(&a, cay_error_row(cases[i].code)->hint);
		row_check(i,
			  strncmp(hint_find(&a, &err), cases[i].want, strlen(cases[i].want)) == 0);
	}
}

static void a_pager_is_for_what_does_not_fit(void **)
{
	static const struct {
		const char *text;
		unsigned columns, rows;
		bool want;
	} cases[] = {
		{ "a\nb\n", 80, 3, false },
		{ "a\nb\nc\n", 80, 3, true },
		{ "aaaa\naaaa\n", 4, 3, false },
		{ "aaaaa\naaaa\n", 4, 3, true },
		{ "\xc3\xa4\xc3\xa4\n\n", 2, 3, false },
		{ "\n\n\n", 80, 3, true },
		{ "a\nb\nc\n", 0, 0, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		row_check(i, pager_is_needed(slice_of(cases[i].text), cases[i].columns,
					     cases[i].rows) == cases[i].want);
}

static void a_reason_is_one_line_of_what_is_known(void **)
{
	static const struct {
		struct end end;
		const char *want;
	} cases[] = {
		{ { .reason = END_TTL }, "ttl" },
		{ { .reason = END_EXIT, .has_exit_code = true }, "exit 0" },
		{ { .reason = END_SIGNAL, .signal = "SIGKILL", .detail = "" }, "signal SIGKILL" },
		{ { .reason = END_OOM, .detail = "peak 5" }, "oom: peak 5" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_buf b = BUF_INIT(256);

		row_check(i, reason_format_line(&cases[i].end, &b) == 0);
		assert_text(&b, cases[i].want);
	}
}

static void versions_compare_by_number(void **)
{
	static const struct {
		const char *a, *b;
		int want;
	} cases[] = {
		{ "1.28", "1.28", 0 },    { "1.9", "1.28", -1 },
		{ "1.28.1", "1.28", 1 },  { "1.3.6+ds1", "1.3.6", 0 },
		{ "1.3.5", "1.3.6", -1 }, { "6.12.30-amd64", "6.1", 1 },
		{ "6.0.99", "6.1", -1 },  { "", "1", -1 },
		{ "2", "1.99.99", 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		row_check(i, doctor_version_compare(cases[i].a, cases[i].b) == cases[i].want);
}

static enum doctor_verdict verdict_of(const char *name, const char *text, const char *version)
{
	char path[] = "/tmp/cay-doctor-XXXXXX";
	int fd = mkstemp(path);
	struct doctor_check row = {};
	struct doctor_finding f;

	assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	for (const struct doctor_check *c = doctor_kernel; c->name; c++)
		if (str_eq(c->name, name))
			row = *c;
	assert_non_null(row.name);
	row.path = path;
	row.version = version;
	doctor_check_run(NULL, &row, &f);
	buf_fini(&f.found);
	(void)close(fd);
	(void)unlink(path);
	return f.verdict;
}

/* Settings by which a sandbox has the host act. */
static void the_doctor_sees_what_the_host_would_do(void **)
{
	static const struct {
		const char *name, *text, *version;
		enum doctor_verdict want;
	} cases[] = {
		{ "line disciplines", "0\n", NULL, VERDICT_OK },
		{ "line disciplines", "1\n", NULL, VERDICT_WARN },
		{ "core_pattern", "core\n", NULL, VERDICT_OK },
		{ "core_pattern", "|/usr/lib/systemd/systemd-coredump %P\n", NULL, VERDICT_OK },
		{ "core_pattern", "@/run/cores.sock\n", NULL, VERDICT_WARN },
		/* a kernel older than 999 asks for modules, one of 1 does not */
		{ "module loader", "/sbin/modprobe\n", "999", VERDICT_WARN },
		{ "module loader", "\n", "999", VERDICT_OK },
		{ "module loader", "/sbin/modprobe\n", "1", VERDICT_OK },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		row_check(i, verdict_of(cases[i].name, cases[i].text, cases[i].version) ==
				     cases[i].want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_command_is_complete),
		cmocka_unit_test(words_find_commands),
		cmocka_unit_test(every_option_is_complete_and_there_once),
		cmocka_unit_test(the_man_page_is_fresh),
		cmocka_unit_test(every_check_is_complete),
		cmocka_unit_test(every_reason_has_words_and_advice),
		cmocka_unit_test(every_command_that_is_advised_is_there),
		cmocka_unit_test(hints_are_by_operation_error_and_field),
		cmocka_unit_test(a_pager_is_for_what_does_not_fit),
		cmocka_unit_test(a_reason_is_one_line_of_what_is_known),
		cmocka_unit_test(versions_compare_by_number),
		cmocka_unit_test(the_doctor_sees_what_the_host_would_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
