/* SPDX-License-Identifier: Apache-2.0 */
/* cay - the command line */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/path.h"
#include "cli/core/command.h"
#include "cli/core/settings-file.h"
#include "cli/print/hint.h"
#include "cli/print/pager.h"
#include "cli/print/print.h"
#include "text/time.h"

/* The daemons' configuration, if it exists and can be read.  Commands that help to repair it run
 * with the defaults. */
static void cli_read_settings(struct cli *c)
{
	struct cay_err ignored = {};
	int r = settings_file_read(NULL, &c->settings, NULL, &c->settings_error);

	if (r != -ENOENT && r != -EACCES && r < 0) {
		conf_set_defaults(&settings_table, &c->settings);
		(void)!conf_apply_env(&settings_table, (const char *const *)environ, &c->settings,
				      &ignored);
	}
}

static int cli_configure(struct cli *c, struct cay_err *err)
{
	const char *socket = getenv("CAY_SOCKET"), *timeout = getenv("CAY_TIMEOUT");
	struct dial *to = &c->api.dial;
	int n;

	cli_read_settings(c);
	c->api.timeout_ms = 30000;
	if (timeout && (duration_parse(slice_of(timeout), &c->api.timeout_ms) < 0 ||
			!c->api.timeout_ms || c->api.timeout_ms > 86400000))
		return cay_fail(err, CAY_E_INVALID,
				"CAY_TIMEOUT: invalid duration '%s' (use 30s, 10m, 1h)", timeout);
	n = socket && socket[0] ? snprintf(to->socket, sizeof(to->socket), "%s", socket)
				: snprintf(to->socket, sizeof(to->socket), "%s/control.sock",
					   c->settings.run_dir);
	if (n < 0 || n >= (int)sizeof(to->socket))
		return cay_fail(err, CAY_E_INVALID, "the path of the socket is too long");
	return 0;
}

static int cli_report_unknown_command(const char *const *words, size_t n)
{
	auto_buf message = BUF_INIT(KIB(4)), hint = BUF_INIT(KIB(4));
	int r = cmd_describe_unknown(words, n, &message, &hint);

	print_failure(r < 0 ? "there is no such command" : buf_str(&message), buf_str(&hint));
	return cay_error_row(CAY_E_INVALID)->exit;
}

static int cli_report_error(const struct cli *c, const struct cay_err *err)
{
	const struct cay_error_row *row = cay_error_row(err->code);

	/* 127 as in a shell; failures of cay itself are below 64 */
	if (err->code == CAY_E_INVALID && str_eq(err->field, "argv")) {
		print_failure(err->msg, "check that the program is in the image, is executable and "
					"matches the node's architecture");
		return 127;
	}
	print_failure(err->msg, hint_find(&c->api, err));
	return row->exit;
}

/* Read options before the command; returns the number of their words. */
static int cli_read_global_options(struct cli *c, const char *const *words, size_t n,
				   struct cay_err *err)
{
	static const struct opt_group groups[] = { OPTS(opts_everywhere, 0), OPTS_END };
	static const char name[] = "--context", with[] = "--context=", plain[] = "--no-pager";
	struct opt_words w;
	const char *near;
	size_t used = 0;
	int r;

	while (used < n && (str_eq(words[used], name) || str_eq(words[used], plain) ||
			    strncmp(words[used], with, sizeof(with) - 1) == 0))
		used += str_eq(words[used], name) ? 2 : 1;
	r = opt_parse_words(groups, words, used < n ? used : n, &c->arena, &c->global, &w, &near,
			    err);
	return r < 0 ? r : (int)used;
}

static int cli_dispatch(struct cli *c, const char *const *words, size_t n)
{
	struct cay_err err = {};
	auto_buf out = BUF_INIT(KIB(256));
	const struct cmd *cmd;
	size_t used;
	int r = cli_read_global_options(c, words, n, &err);

	if (r < 0)
		return cli_report_error(c, &err);
	words += r;
	n -= (size_t)r < n ? (size_t)r : n;
	if (!n || str_eq(words[0], "--help") || str_eq(words[0], "-h")) {
		c->api.no_pager = c->global.no_pager;
		r = help_format_list(&out) < 0 ? -ENOMEM : pager_show(&c->api, &out, &err);
		return r < 0 || !n ? cay_error_row(CAY_E_INVALID)->exit : 0;
	}
	/* only for `make docs`, so not in the table */
	if (n == 2 && str_eq(words[0], "help") && str_eq(words[1], "--scd"))
		return help_format_man(&out) < 0 || print_stdout(&out, &err) < 0;
	cmd = cmd_find(words, n, &used);
	if (!cmd && str_eq(words[0], "--version")) {
		cmd = &cmd_version;
		used = 1;
	}
	if (!cmd)
		return cli_report_unknown_command(words, n);
	r = cli_configure(c, &err);
	if (r >= 0)
		r = cmd_dispatch(c, cmd, words + used, n - used, &err);
	return r < 0 ? cli_report_error(c, &err) : r;
}

int main(int argc, char **argv)
{
	struct cli c = {
		.api = { .intr = INTERRUPT_INIT, .arena = ARENA_INIT(MIB(256)) },
		.arena = ARENA_INIT(MIB(4)),
	};
	int status;

	/* memory holds a token: write no core files */
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR || argc < 1 ||
	    setrlimit(RLIMIT_CORE, &(struct rlimit){}) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return 1;
	status = cli_dispatch(&c, (const char *const *)argv + 1, (size_t)argc - 1);
	interrupt_fini(&c.api.intr);
	dial_fini(&c.api.dial);
	arena_fini(&c.api.arena);
	arena_fini(&c.arena);
	return status;
}
