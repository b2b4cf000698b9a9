/* SPDX-License-Identifier: Apache-2.0 */
/* setup-node - check the machine; create users and settings, start daemons */
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/path.h"
#include "base/seqpacket.h"
#include "cli/setup/doctor.h"
#include "cli/setup/run-program.h"
#include "cli/setup/setup.h"

#define CONF_DIR "/etc/cay"
#define CONF_NAME "cay.conf"
#define CONF_PATH CONF_DIR "/" CONF_NAME
#define UP_MS 60000
#define UNITS_MAX 8

int setup_root_check(struct setup *s, struct cay_err *err)
{
	if (geteuid() == 0)
		return setup_report(s, 1, "yes");
	api_hint_set(s->api, "sudo cay setup");
	return cay_fail(err, CAY_E_FORBIDDEN, "setup must run as root");
}

/* Checks of a running daemon are left to the later steps. */
static bool setup_check_needs_daemon(const struct doctor_check *row)
{
	return str_eq(row->name, "quota") || str_eq(row->name, "daemon") ||
	       str_eq(row->name, "journal");
}

static int setup_machine_run_checks(struct setup *s, const struct doctor_check *rows,
				    unsigned count[static VERDICT_NUM], struct cay_err *err)
{
	int r = 0;

	for (const struct doctor_check *row = rows; r >= 0 && row->name; row++) {
		struct doctor_finding f;

		if (setup_check_needs_daemon(row))
			continue;
		doctor_check_run(s->cli, row, &f);
		count[f.verdict]++;
		if (f.verdict == VERDICT_FAIL)
			r = cay_fail(err, CAY_E_UNSUPPORTED, "%s: %s; %s", row->name,
				     buf_str(&f.found), row->advice);
		buf_fini(&f.found);
	}
	return r;
}

int setup_machine_check(struct setup *s, struct cay_err *err)
{
	unsigned count[VERDICT_NUM] = {};
	uint64_t timeout = s->api->timeout_ms;
	int r;

	s->api->timeout_ms = 1000; /* do not wait for a daemon that hangs */
	r = setup_machine_run_checks(s, doctor_kernel, count, err);
	if (r >= 0)
		r = setup_machine_run_checks(s, doctor_host, count, err);
	s->api->timeout_ms = timeout;
	if (r < 0) {
		api_hint_set(s->api, "run 'cay doctor' for the full list");
		return r;
	}
	return setup_report(s, 1, "%u checks passed%s", count[VERDICT_OK],
			    count[VERDICT_WARN] ? "; run 'cay doctor' for warnings" : "");
}

/* A numeric user needs no entry. */
static bool setup_user_exists(const char *user)
{
	return ascii_is_digit(user[0]) ||
	       getpwnam(user); /* NOLINT(concurrency-mt-unsafe): no threads */
}

/* Users of the daemons; NULL: control.user of cay.conf. */
static const char *const users[] = { NULL,         "cay-edge",        "cay-mcp",
				     "cay-e2b",    "cay-opensandbox", "cay-pull",
				     "cay-egress", "cay-broker" };

static const char *setup_user_name(const struct setup *s, size_t i)
{
	return users[i] ? users[i] : s->cli->settings.control_user;
}

int setup_users_check(struct setup *s, struct cay_err *err)
{
	auto_buf list = BUF_INIT(SETUP_FOUND_MAX);

	for (size_t i = 0; i < ARRAY_SIZE(users); i++) {
		if (!setup_user_exists(setup_user_name(s, i)))
			return setup_report(s, 0, "no user %s", setup_user_name(s, i));
		if (buf_printf(&list, "%s%s", i ? ", " : "", setup_user_name(s, i)) < 0)
			return cay_no_memory(err);
	}
	return setup_report(s, 1, "%s", buf_str(&list));
}

int setup_program_fail(const char *what, const struct buf *said, struct cay_err *err)
{
	struct slice text = { buf_str(said), said->len }, line = slice_cut(&text, '\n');

	return cay_fail(err, CAY_E_INTERNAL, "%s: %.*s", what, (int)(line.n < 200 ? line.n : 200),
			line.p);
}

int setup_program_fail_last(const char *what, const struct buf *said, struct cay_err *err)
{
	struct slice text = { buf_str(said), said->len }, last = {};

	while (text.p) {
		struct slice line = slice_trim(slice_cut(&text, '\n'));

		if (line.n)
			last = line;
	}
	return cay_fail(err, CAY_E_INTERNAL, "%s: %.*s", what, (int)(last.n < 200 ? last.n : 200),
			last.n ? last.p : "");
}

static int setup_user_add(struct setup *s, const char *name, const char *home, struct cay_err *err)
{
	const char *const argv[] = {
		"useradd",          "--system", "--user-group",      "--home-dir", home,
		"--no-create-home", "--shell",  "/usr/sbin/nologin", name,         NULL
	};
	auto_buf out = BUF_INIT(KIB(4));
	int r = run_program_to_end(&s->cli->arena, argv, NULL, 30000, &out, err);

	return r > 0 ? setup_program_fail(name, &out, err) : r;
}

int setup_users_apply(struct setup *s, struct cay_err *err)
{
	auto_buf list = BUF_INIT(SETUP_FOUND_MAX);
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(users); i++) {
		const char *home = users[i] ? "/nonexistent" : s->cli->settings.state_dir;
		const char *user = setup_user_name(s, i);

		if (setup_user_exists(user))
			continue;
		r = setup_user_add(s, user, home, err);
		if (r >= 0 && buf_printf(&list, "%s%s", list.len ? ", " : "", user) < 0)
			r = cay_no_memory(err);
	}
	return r < 0 ? r : setup_report(s, 0, "created %s", buf_str(&list));
}

int setup_config_check(struct setup *s, struct cay_err *err)
{
	bool there = access(CONF_PATH, F_OK) == 0;

	if (s->cli->settings_error.code) {
		*err = s->cli->settings_error;
		api_hint_set(s->api, "correct it; 'cay config check' checks the file");
		return -cay_error_row(err->code)->errnum;
	}
	return setup_report(s, there, there ? CONF_PATH : "no " CONF_PATH);
}

int setup_config_apply(struct setup *s, struct cay_err *err)
{
	auto_buf text = BUF_INIT(KIB(256));
	auto_close int dir = -EBADF;
	int r = conf_write_sample(&settings_table, &text);

	if (r < 0)
		return cay_no_memory(err);
	if (mkdir(CONF_DIR, 0755) < 0 && errno != EEXIST)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create " CONF_DIR);
	dir = open(CONF_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = dir < 0 ? -errno : path_write_atomic(dir, CONF_NAME, text.data, text.len, 0644);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "write " CONF_PATH);
	return setup_report(s, 0, "wrote " CONF_PATH " with the defaults as comments");
}

static int setup_daemon_query_health(struct setup *s, struct health *ret, struct cay_err *err)
{
	uint64_t timeout = s->api->timeout_ms;
	int r;

	s->api->timeout_ms = 5000;
	r = api_call(s->api, &(struct api_call){ .op = OP_SYSTEM_HEALTH }, ret, err);
	s->api->timeout_ms = timeout;
	return r;
}

int setup_daemons_check(struct setup *s, struct cay_err *)
{
	struct health health = {};
	struct cay_err why = {};

	if (setup_daemon_query_health(s, &health, &why) < 0) {
		s->api->hint[0] = 0;
		return setup_report(s, 0, "cayd is not running");
	}
	return setup_report(s, 1, "cayd %s is running at %s", health.version, s->api->dial.socket);
}

/* The installed units of packaging/systemd. */
static size_t setup_units_find(const char **ret, size_t max)
{
	static const struct {
		const char *file, *unit;
	} units[] = {
		{ "cay-keeper.service", "cay-keeper.service" },
		{ "cay-pull.service", "cay-pull.service" },
		{ "cay-egress.service", "cay-egress.service" },
		{ "cay-broker.service", "cay-broker.service" },
		{ "cayd.service", "cayd.service" },
		{ "cay-edge@.service", "cay-edge@1.service" },
		{ "cay-mcp.service", "cay-mcp.service" },
		{ "cay-e2b.service", "cay-e2b.service" },
		{ "cay-opensandbox.service", "cay-opensandbox.service" },
	};
	static const char *const dirs[] = { "/etc/systemd/system", "/usr/lib/systemd/system",
					    "/usr/local/lib/systemd/system" };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(units) && n < max; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(dirs); k++) {
			auto_buf path = BUF_INIT(256);

			if (buf_printf(&path, "%s/%s", dirs[k], units[i].file) < 0 ||
			    access(buf_str(&path), F_OK) < 0)
				continue;
			ret[n++] = units[i].unit;
			break;
		}
	}
	return n;
}

static int setup_start_command_add(struct setup *s, const struct buf *line)
{
	const char *text = arena_strndup(&s->cli->arena, buf_str(line), line->len);

	if (!text || s->n_start_commands == SETUP_START_COMMANDS_MAX)
		return -ENOMEM;
	s->start_commands[s->n_start_commands++] = text;
	return 0;
}

static int setup_start_directory(struct setup *s, const char *user, const char *dir)
{
	auto_buf line = BUF_INIT(KIB(1));
	int r = buf_printf(&line, "install -d -m 0770 -o %s -g %s %s", user, user, dir);

	return r < 0 ? r : setup_start_command_add(s, &line);
}

/* The commands that replace the units on a machine without systemd. */
static int setup_start_commands_list(struct setup *s)
{
	static const struct {
		const char *program, *user, *groups; /* user NULL: cayd's; groups NULL: none */
	} rows[] = {
		{ "cay-keeper", "root", NULL },
		{ "cay-pull", "cay-pull", NULL },
		{ "cay-egress", "cay-egress", NULL },
		{ "cay-broker", "cay-broker", NULL },
		{ "cayd", NULL, NULL },
		{ "cay-mcp", "cay-mcp", NULL },
		{ "cay-e2b", "cay-e2b", NULL },
		{ "cay-opensandbox", "cay-opensandbox", NULL },
		{ "cay-edge", "cay-edge", "cay-mcp,cay-e2b,cay-opensandbox" },
	};
	const char *init = s->cli->settings.init_path, *control = s->cli->settings.control_user;
	int dir = (int)(strrchr(init, '/') - init);
	int r = setup_start_directory(s, "cay-mcp", s->cli->settings.mcp_dir);

	if (r >= 0)
		r = setup_start_directory(s, "cay-e2b", s->cli->settings.e2b_dir);
	if (r >= 0)
		r = setup_start_directory(s, "cay-opensandbox", s->cli->settings.opensandbox_dir);
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(rows); i++) {
		const char *user = rows[i].user ? rows[i].user : control;
		auto_buf line = BUF_INIT(KIB(8));

		if (!str_eq(user, "root"))
			r = buf_printf(&line, "setpriv --reuid=%s --regid=%s ", user, user);
		if (r >= 0 && rows[i].groups)
			r = buf_printf(&line, "--groups=%s,%s ", control, rows[i].groups);
		else if (r >= 0 && line.len)
			r = buf_puts(&line, "--clear-groups ");
		if (r >= 0)
			r = buf_printf(&line, "%.*s/%s &", dir, init, rows[i].program);
		if (r >= 0)
			r = setup_start_command_add(s, &line);
	}
	return r;
}

/* cayd replies once the keeper has probed its runtimes. */
static int setup_daemon_wait_ready(struct setup *s, struct cay_err *err)
{
	uint64_t deadline = clk_boot_ns(&clk_system) + UP_MS * NS_PER_MS;
	struct health health = {};
	int r;

	for (;;) {
		struct cay_err why = {};

		r = setup_daemon_query_health(s, &health, &why);
		s->api->hint[0] = 0;
		if (r >= 0 || clk_boot_ns(&clk_system) > deadline)
			break;
		(void)poll(NULL, 0, 200);
	}
	if (r >= 0)
		return 0;
	api_hint_set(s->api, "see 'journalctl -u cayd -u cay-keeper'");
	return cay_fail(err, CAY_E_UNAVAILABLE,
			"the daemons were started, but cayd does not respond");
}

bool setup_systemd_runs(void)
{
	struct stat st;

	return stat("/run/systemd/system", &st) == 0 && S_ISDIR(st.st_mode);
}

/* It has sandboxes and the state's directory open, also while cayd is not running. */
static bool setup_keeper_listens(const struct setup *s)
{
	auto_close int fd = seqpacket_connect(s->cli->settings.run_dir, "box/keeper.sock");

	return fd >= 0 || fd == -EAGAIN;
}

bool setup_daemons_run_without_systemd(struct setup *s)
{
	const char *units[UNITS_MAX];
	struct cay_err none = {};

	return (!setup_systemd_runs() || !setup_units_find(units, ARRAY_SIZE(units))) &&
	       (setup_keeper_listens(s) || setup_daemons_check(s, &none) > 0);
}

int setup_daemons_stop(struct setup *s, struct cay_err *err)
{
	const char *argv[UNITS_MAX + 3] = { "systemctl", "stop" };
	auto_buf out = BUF_INIT(KIB(4));
	int r;

	if (!setup_systemd_runs() || !setup_units_find(argv + 2, UNITS_MAX))
		return 0;
	r = run_program_to_end(&s->cli->arena, argv, NULL, 120000, &out, err);
	return r > 0 ? setup_program_fail("systemctl stop", &out, err) : r;
}

int setup_daemons_apply(struct setup *s, struct cay_err *err)
{
	const char *argv[UNITS_MAX + 4] = { "systemctl", "enable", "--now" };
	auto_buf out = BUF_INIT(KIB(4));
	size_t n = setup_units_find(argv + 3, UNITS_MAX);
	int r;

	if (!setup_systemd_runs() || !n) {
		if (setup_start_commands_list(s) < 0)
			return cay_no_memory(err);
		api_hint_set(s->api, "start them with these commands, then run 'cay setup' again");
		return cay_fail(err, CAY_E_UNAVAILABLE, "%s, and the daemons are not running",
				n ? "systemd is not running"
				  : "the systemd units are not installed");
	}
	r = run_program_to_end(&s->cli->arena, argv, NULL, 120000, &out, err);
	if (r > 0) {
		api_hint_set(s->api, "see 'systemctl status cayd cay-keeper'");
		return setup_program_fail("systemctl enable", &out, err);
	}
	if (r >= 0)
		r = setup_daemon_wait_ready(s, err);
	return r < 0 ? r : setup_report(s, 0, "enabled and started %zu units", n);
}
