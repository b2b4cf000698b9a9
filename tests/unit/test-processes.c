/* SPDX-License-Identifier: Apache-2.0 */
#include "init/proc/processes.h"
#include "unit.h"

#define TAIL \
	" S 1 7 7 0 -1 4194560 90 0 0 0 12 3 0 0 20 0 4 0 8213346 2592768 209 " \
	"18446744073709551615 1"

static void a_line_of_stat(void **)
{
	static const struct {
		const char *text, *comm;
	} good[] = {
		{ "12 (sleep)" TAIL, "sleep" },
		{ "12 (a) R 7 (x)" TAIL, "a) R 7 (x" },
		{ "12 ()" TAIL, "" },
		{ "12 (\n\377 ))" TAIL, "\n\377 )" },
	};
	static const char *const bad[] = {
		"",          "12",         "12 sleep S 1",     "(x)" TAIL,
		" (x)" TAIL, "x (x)" TAIL, "12 (sleep) S 1 2", "12 )x(" TAIL
	};
	struct process_stat s;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		assert_int_equal(process_stat_parse(slice_of(good[i].text), &s), 0);
		assert_true(slice_eq(s.comm, slice_of(good[i].comm)));
		assert_int_equal(s.pid, 12);
		assert_int_equal(s.ppid, 1);
		assert_int_equal(s.state, 'S');
		assert_int_equal(s.cpu_ticks, 15);
		assert_int_equal(s.threads, 4);
		assert_int_equal(s.start, 8213346);
		assert_int_equal(s.rss_pages, 209);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(process_stat_parse(slice_of(bad[i]), &s), -EPROTO);
}

static void a_strangers_bytes(void **)
{
	static const struct {
		const char *in;
		size_t n, max;
		const char *out;
	} rows[] = {
		{ "a\0b\0\0", 5, 99, "a b" },
		{ "\033[2J\n\177", 6, 99, " [2J  " },
		{ "x\377\xc3", 3, 99, "x\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xc3\xa9t\xc3\xa9", 5, 4, "\xc3\xa9t" },
		{ "\377\377", 2, 5, "\xef\xbf\xbd" },
		{ "", 0, 0, "" },
	};
	char got[100];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		process_text_to_utf8(rows[i].in, rows[i].n, got, rows[i].max);
		assert_string_equal(got, rows[i].out);
	}
}

static void the_exec_of_a_cgroup(void **)
{
#define EX "ex0001000g00000000000000tr"
	static const struct {
		const char *text;
		bool found;
	} rows[] = {
		{ "0::/" EX "\n", true },
		{ "5:pids:/a\n0::/cay/sb/" EX "/inner\n", true },
		{ "5:pids:/" EX "\n0::/\n", false },
		{ "0::/x" EX "\n", false },
		{ "0::/sb000000000000000000000001\n", false },
		{ "", false },
	};
	char text[ID_TEXT_LEN + 1];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct id id = process_exec_from_cgroup(slice_of(rows[i].text));

		assert_int_equal(id.noun == ID_EXEC, rows[i].found);
		if (rows[i].found) {
			id_format(&id, text);
			assert_int_equal(memcmp(text, "ex", 2), 0);
		}
	}
}

static void nobody_signals_pid_1(void **)
{
	uint64_t start = 0;

	assert_int_equal(process_send_signal(1, NULL, 0), -EPERM);
	assert_int_equal(process_send_signal(0, NULL, 0), -EPERM);
	assert_int_equal(process_send_signal(UINT64_MAX, NULL, 0), -EPERM);
	assert_int_equal(process_send_signal((uint64_t)getpid(), &start, 0), -ESRCH);
	assert_int_equal(process_send_signal((uint64_t)getpid(), NULL, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_of_stat),
		cmocka_unit_test(a_strangers_bytes),
		cmocka_unit_test(the_exec_of_a_cgroup),
		cmocka_unit_test(nobody_signals_pid_1),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
