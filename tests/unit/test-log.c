/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/log.h"
#include "unit.h"

struct fixture {
	int fds[2];
	struct clk_test clk;
	struct log log;
	char line[16384];
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f || pipe2(f->fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return -1;
	f->clk = clk_test_create(1, UINT64_C(1794707443123) * NS_PER_MS);
	f->log = log_create(f->fds[1], "cayd", &f->clk.clk);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	(void)close(f->fds[0]);
	(void)close(f->fds[1]);
	free(f);
	return 0;
}

static const char *read_line(struct fixture *f)
{
	ssize_t n = read(f->fds[0], f->line, sizeof(f->line) - 1);

	f->line[n > 0 ? n : 0] = 0;
	return f->line;
}

static void elsewhere_lines_are_json_with_fixed_keys(void **state)
{
	struct fixture *f = *state;
	json_t *j;

	assert_int_equal(f->log.form, LOG_JSON);
	log_warn(&f->log, "remove '%s' failed, ignoring", "a\"b\n\xFF");
	assert_string_equal(read_line(f),
			    "{\"ts\":\"2026-11-15T01:50:43.123Z\",\"level\":\"warning\","
			    "\"prog\":\"cayd\",\"msg\":\"remove 'a\\\"b\\n\xEF\xBF\xBD' "
			    "failed, ignoring\"}\n");
	f->log.op = "create";
	f->log.id = "sb1";
	f->log.request = "r1";
	log_error(&f->log, "x");
	j = json_loads(read_line(f), 0, NULL);
	assert_non_null(j);
	assert_int_equal(json_object_size(j), 7);
	assert_string_equal(json_string_value(json_object_get(j, "request")), "r1");
	json_decref(j);
}

static void on_a_terminal_lines_are_text_without_control_characters(void **state)
{
	struct fixture *f = *state;

	f->log.form = LOG_TEXT;
	f->log.op = "create";
	f->log.id = "sb1";
	f->log.request = "r1";
	log_info(&f->log, "title \x1b]0;evil\x07 %s", "\r\n");
	assert_string_equal(read_line(f), "01:50:43 info cayd create sb1 r1: title .]0;evil. ..\n");
}

static void text_hides_what_terminals_obey(void **state)
{
	static const struct {
		const char *msg, *want;
	} cases[] = {
		{ "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x8F\x9D",
		  "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x8F\x9D" },
		{ "\xC2\x9B[31m", "..[31m" },  /* C1 CSI */
		{ "\x9B[31m", ".[31m" },       /* the same as a bare byte */
		{ "a\xE2\x80\xAE!", "a...!" }, /* right-to-left override */
		{ "a\xE2\x81\xA6!", "a...!" }, /* isolate */
		{ "a\xE2\x80\x8F!", "a...!" }, /* right-to-left mark */
		{ "a\xE2\x80\xA8!", "a...!" }, /* line separator */
		{ "\xC2\xA0", "\xC2\xA0" },
	};
	struct fixture *f = *state;

	f->log.form = LOG_TEXT;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		log_info(&f->log, "%s", cases[i].msg);
		row_check(i, strstr(read_line(f), cases[i].want));
	}
}

/* A line that did not fit is cut off; the next still begins on its own line. */
static void a_cut_line_does_not_swallow_the_next(void **state)
{
	struct fixture *f = *state;
	char big[2000];
	unsigned reads = 0;

	memset(big, 1, sizeof(big) - 1);
	big[sizeof(big) - 1] = 0;
	assert_true(fcntl(f->fds[1], F_SETPIPE_SZ, 4096) >= 4096);
	log_info(&f->log, "%s", big); /* 12,000 bytes into a pipe of 4,096 */
	assert_int_equal(f->log.lost, 1);
	assert_true(f->log.torn);
	while (read(f->fds[0], f->line, sizeof(f->line)) > 0)
		reads++;
	assert_true(reads > 0);
	log_info(&f->log, "second");
	assert_memory_equal(read_line(f), "\n{", 2);
	assert_false(f->log.torn);
}

static void a_long_context_hides_no_line(void **state)
{
	struct fixture *f = *state;
	char evil[3000];

	memset(evil, 1, sizeof(evil) - 1);
	evil[sizeof(evil) - 1] = 0;
	f->log.request = f->log.op = f->log.id = evil;
	log_info(&f->log, "%s", evil);
	assert_int_equal(f->log.lost, 0);
	f->log.form = LOG_TEXT;
	log_info(&f->log, "%s", evil);
	assert_int_equal(f->log.lost, 0);
}

static void a_terminal_is_recognised(void **)
{
	auto_close int pty = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct log l = log_create(pty, "x", &clk_system);

	assert_true(pty >= 0);
	assert_int_equal(l.form, LOG_TEXT);
}

static void less_important_lines_are_not_written(void **state)
{
	struct fixture *f = *state;

	log_debug(&f->log, "quiet");
	assert_string_equal(read_line(f), "");
	f->log.level = LOG_L_DEBUG;
	log_debug(&f->log, "loud");
	assert_non_null(strstr(read_line(f), "loud"));
	assert_string_equal(log_level_names[LOG_L_DEBUG], "debug");
	assert_null(log_level_names[LOG_NUM_LEVELS]);
}

static void long_lines_are_cut_and_lost_lines_counted(void **state)
{
	struct fixture *f = *state;
	char text[4000];

	memset(text, '\x01', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	log_info(&f->log, "%s", text);
	assert_non_null(strstr(read_line(f), "...\"}"));
	assert_int_equal(f->log.lost, 0);
	f->log.fd = -1;
	log_info(&f->log, "nobody");
	assert_int_equal(f->log.lost, 1);
}

static void the_last_errors_are_kept(void **state)
{
	struct fixture *f = *state;
	struct log_recent recent = {};
	char text[600];

	f->log.recent = &recent;
	log_info(&f->log, "no error");
	assert_int_equal(recent.n, 0);
	log_warn(&f->log, "a\033[31m\nb");
	assert_int_equal(recent.n, 1);
	assert_string_equal(recent.rows[0].msg, "a.[31m.b");
	assert_int_equal(recent.rows[0].level, LOG_L_WARNING);
	/* two bytes a character, and no half of one is left */
	for (size_t i = 0; i + 1 < sizeof(text); i += 2)
		memcpy(text + i, "\xC3\xA9", 2);
	text[sizeof(text) - 1] = 0;
	text[sizeof(text) - 2] = 0;
	log_error(&f->log, "%s", text);
	assert_int_equal(strlen(recent.rows[1].msg), LOG_RECENT_MSG - 2);
	for (unsigned i = 0; i < 2 * LOG_RECENT; i++)
		log_error(&f->log, "%u", i);
	assert_int_equal(recent.n, 2 + 2 * LOG_RECENT);
	assert_string_equal(recent.rows[(recent.n - 1) % LOG_RECENT].msg, "31");
	assert_string_equal(recent.rows[recent.n % LOG_RECENT].msg, "16");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(elsewhere_lines_are_json_with_fixed_keys),
		T(on_a_terminal_lines_are_text_without_control_characters),
		T(text_hides_what_terminals_obey),
		T(a_cut_line_does_not_swallow_the_next),
		T(a_long_context_hides_no_line),
		cmocka_unit_test(a_terminal_is_recognised),
		T(less_important_lines_are_not_written),
		T(long_lines_are_cut_and_lost_lines_counted),
		T(the_last_errors_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
