/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>

#include "init/service/service-config.h"
#include "unit.h"

/* What was found, one line each: name|argv|...; for a table of cases. */
static void note(void *arg, struct service_config *p)
{
	struct buf *out = arg;

	assert_int_equal(buf_printf(out, "%s", p->name), 0);
	if (p->refused_why[0]) {
		assert_int_equal(buf_printf(out, " refused %s", p->refused_why), 0);
	} else {
		for (size_t i = 0; i < p->argv.n; i++)
			assert_int_equal(buf_printf(out, "|%s", p->argv.v[i]), 0);
		assert_null(p->argv.v[p->argv.n]);
		for (size_t i = 0; i < p->env.n; i++)
			assert_int_equal(
				buf_printf(out, " %s=%s", p->env.keys[i], p->env.values[i]), 0);
	}
	assert_int_equal(buf_putc(out, '\n'), 0);
	service_config_fini(p);
}

static const char *const env_keys[] = { "HOME", "X" }, *const env_values[] = { "/root", "a b" };
static const struct field_map env = { (const char **)env_keys, (const char **)env_values, 2 };

static void parse(const char *text, struct buf *out)
{
	buf_clear(out);
	service_config_parse_file(slice_of(text), "/etc/d/f.conf", &env, note, out);
}

static void files_are_read_as_supervisord_reads_them(void **)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "", "" },
		{ "[program:a]\ncommand=x", "a|x\n" },
		{ "[program:a]\r\ncommand = x  y\r\n", "a|x|y\n" },
		{ "; c\n# c\n[program:a] ; c\ncommand=x ;c\n", "a|x\n" },
		{ "[program:a]\ncommand=x #c\nunknown=1\nstdout_logfile=/dev/null", "a|x\n" },
		{ "[program:a]\ncommand=x;y a#b", "a|x;y|a#b\n" },
		{ "[program:a]\nCOMMAND: x", "a|x\n" },
		{ "[program:a]\ncommand=x\n  y\n\tz\n", "a|x|y|z\n" },
		{ "[program:a]\ncommand=x\n\n; c\n  y\n", "a|x|y\n" },
		{ "[program:a]\ncommand=x\ncommand=z\n", "a|z\n" },
		{ "[supervisord]\ncommand=no\n[program:b]\ncommand=y\n[include]\nfiles=x",
		  "b|y\n" },
		{ "[program:a]\ncommand=x\n[program:b]\ncommand=y", "a|x\nb|y\n" },
		{ "command=x\nrubbish\n[program:a]\ncommand=x", "a|x\n" },
		{ "[program:a]\ncommand=%(program_name)s %(here)s %(ENV_HOME)s %%",
		  "a|a|/etc/d|/root|%\n" },
		{ "[program:a]\ncommand=x %(ENV_X)s \"%(ENV_X)s\"", "a|x|a|b|a b\n" },
		{ "[program:a]\ncommand=x\nenvironment=A=1,B=\"2, 3\",C='%(ENV_HOME)s'",
		  "a|x A=1 B=2, 3 C=/root\n" },
		{ "[program:a]\ncommand=x\nenvironment=\n  A=\"1\",\n  B=\"2\",\n",
		  "a|x A=1 B=2\n" },
		{ "[program:a]\ncommand=sh -c 'echo \"a b\"' \"q\\\"\\n\" e\\ f \"\"",
		  "a|sh|-c|echo \"a b\"|q\"\\n|e f|\n" },
		/* what is wrong, with its line, and only of that one */
		{ "[program:a]", "a refused /etc/d/f.conf:1: the program has no command\n" },
		{ "[program:a]\ncommand=",
		  "a refused /etc/d/f.conf:2: command: the command is empty\n" },
		{ "[program:a]\ncommand=\"x",
		  "a refused /etc/d/f.conf:2: command: a quotation mark is not closed\n" },
		{ "[program:a]\ncommand=x \\",
		  "a refused /etc/d/f.conf:2: command: nothing follows a backslash\n" },
		{ "[program:a]\ncommand=x\nautorestart=maybe\n[program:b]\ncommand=y",
		  "a refused /etc/d/f.conf:3: autorestart: must be true, false or "
		  "unexpected\nb|y\n" },
		{ "[program:a]\ncommand=x %(ENV_NO)s",
		  "a refused /etc/d/f.conf:2: command: unknown %(name)s\n" },
		{ "[program:a]\ncommand=x 5%",
		  "a refused /etc/d/f.conf:2: command: a '%' must be written as %%\n" },
		{ "[program:a]\ncommand=x\nrubbish",
		  "a refused /etc/d/f.conf:3: expected a section or KEY=VALUE\n" },
		{ "[program:a]\ncommand=x\npriority=-1",
		  "a refused /etc/d/f.conf:3: priority: must be a number up to 1000000\n" },
		{ "[program:a]\ncommand=x\nexitcodes=0,256",
		  "a refused /etc/d/f.conf:3: exitcodes: must be exit codes separated by "
		  "commas\n" },
		{ "[program:a]\ncommand=x\nstopsignal=NO",
		  "a refused /etc/d/f.conf:3: stopsignal: unknown signal\n" },
		{ "[program:a]\ncommand=x\ndirectory=tmp",
		  "a refused /etc/d/f.conf:3: directory: not an absolute path\n" },
		{ "[program:a]\ncommand=x\nnumprocs=2",
		  "a refused /etc/d/f.conf:3: numprocs: only 1 is supported\n" },
		{ "[program:a]\ncommand=x\nenvironment='A=B'=1",
		  "a refused /etc/d/f.conf:3: environment: not KEY=\"value\",KEY=\"value\"\n" },
		{ "[program:a]\ncommand=x\nenvironment=A",
		  "a refused /etc/d/f.conf:3: environment: not KEY=\"value\",KEY=\"value\"\n" },
		{ "[program:a]\ncommand=x \xff",
		  "a refused /etc/d/f.conf:2: command: not UTF-8 text\n" },
		{ "\n[program:../a]\ncommand=x",
		  "line-2 refused /etc/d/f.conf:2: a name must have 1 to "
		  "63 letters, digits, '.', '_' or '-'\n" },
	};
	auto_buf out = BUF_INIT(KIB(4));

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		parse(cases[i].text, &out);
		if (!str_eq(buf_str(&out), cases[i].want))
			print_message("%s\n", buf_str(&out));
		row_check(i, str_eq(buf_str(&out), cases[i].want));
	}
}

static void keep(void *arg, struct service_config *p)
{
	*(struct service_config *)arg = *p;
}

static void values_arrive(void **)
{
	struct service_config p = {};

	service_config_parse_file(
		SLICE("[program:x]\ncommand=a\ndirectory=/d\nuser=u\nautostart=no\nautorestart=1\n"
		      "exitcodes=0,2, "
		      "255\npriority=7\nstartsecs=2\nstartretries=9\nstopsignal=QUIT\n"
		      "stopwaitsecs=3"),
		"f", NULL, keep, &p);
	assert_string_equal(p.refused_why, "");
	assert_string_equal(p.cwd, "/d");
	assert_string_equal(p.user, "u");
	assert_string_equal(p.source, "f");
	assert_false(p.autostart);
	assert_int_equal(p.autorestart, SERVICE_ALWAYS);
	for (unsigned i = 0; i < 256; i++)
		assert_int_equal(service_config_expects_exit(&p, i), i == 0 || i == 2 || i == 255);
	assert_int_equal(p.priority, 7);
	assert_int_equal(p.start_ms, 2000);
	assert_int_equal(p.start_retries, 9);
	assert_int_equal(p.stop_signal, SIGQUIT);
	assert_int_equal(p.stop_ms, 3000);
	service_config_fini(&p);
	service_config_parse_file(SLICE("[program:x]\ncommand=a"), "f", NULL, keep, &p);
	assert_true(p.autostart);
	assert_int_equal(p.autorestart, SERVICE_UNEXPECTED);
	assert_int_equal(p.priority, 999);
	assert_int_equal(p.start_ms, 0);
	assert_int_equal(p.start_retries, 3);
	assert_int_equal(p.stop_signal, SIGTERM);
	assert_int_equal(p.stop_ms, 10000);
	assert_true(service_config_expects_exit(&p, 0) && !service_config_expects_exit(&p, 1));
	service_config_fini(&p);
}

static void count(void *arg, struct service_config *p)
{
	(*(unsigned *)arg)++;
	service_config_fini(p);
}

static void a_file_is_bounded(void **)
{
	auto_buf text = BUF_INIT(MIB(1)), out = BUF_INIT(KIB(4));
	unsigned n = 0;

	for (int i = 0; i < 1000; i++)
		assert_int_equal(buf_printf(&text, "[program:p%d]\ncommand=x\n", i), 0);
	service_config_parse_file((struct slice){ text.data, text.len }, "f", NULL, count, &n);
	assert_int_equal(n, SERVICE_CONFIG_SECTIONS_MAX);
	buf_clear(&text);
	assert_int_equal(buf_puts(&text, "[program:a]\ncommand="), 0);
	for (int i = 0; i < 2000; i++)
		assert_int_equal(buf_puts(&text, "x "), 0);
	parse(text.data, &out);
	assert_string_equal(out.data, "a refused /etc/d/f.conf:2: command: too many words\n");
	for (int i = 0; i < 20000; i++)
		assert_int_equal(buf_puts(&text, "x "), 0);
	parse(text.data, &out);
	assert_string_equal(out.data, "a refused /etc/d/f.conf:2: too long\n");
}

static void a_request_is_checked(void **)
{
	static const char *argv[] = { "a", "b", NULL }, *nameless[] = { "", NULL };
	struct service_put good = { .argv = { argv, 2 }, .has_argv = true }, q;
	struct cay_err err = {};
	struct service_config p;

	assert_int_equal(service_config_from_request("x", &good, &p, &err), 0);
	assert_int_equal(p.argv.n, 2);
	assert_ptr_not_equal(p.argv.v[0], argv[0]);
	service_config_fini(&p);
	q = (struct service_put){ .command = "a 'b c'" };
	assert_int_equal(service_config_from_request("x", &q, &p, &err), 0);
	assert_string_equal(p.argv.v[1], "b c");
	service_config_fini(&p);
	q = good;
	q.command = "also";
	assert_true(service_config_from_request("x", &q, &p, &err) < 0);
	assert_string_equal(err.field, "argv");
	q = (struct service_put){ .argv = { nameless, 1 }, .has_argv = true };
	assert_true(service_config_from_request("x", &q, &p, &err) < 0);
	err = (struct cay_err){};
	q = good;
	q.stop_signal = "NO";
	assert_true(service_config_from_request("x", &q, &p, &err) < 0);
	assert_string_equal(err.field, "stop_signal");
	err = (struct cay_err){};
	q = good;
	q.exit_codes = "1,x";
	assert_true(service_config_from_request("x", &q, &p, &err) < 0);
	assert_string_equal(err.field, "exit_codes");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_are_read_as_supervisord_reads_them),
		cmocka_unit_test(values_arrive),
		cmocka_unit_test(a_file_is_bounded),
		cmocka_unit_test(a_request_is_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
