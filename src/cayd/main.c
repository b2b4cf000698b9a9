/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>

#include "base/path.h"
#include "cayd/core/keeper-link.h"
#include "cayd/create/create.h"
#include "cayd/edge/edge-push.h"
#include "cayd/image/image.h"
#include "cayd/image/pull.h"
#include "cayd/image/registry.h"
#include "cayd/listeners.h"
#include "cayd/observe/audit-log.h"
#include "cayd/observe/event.h"
#include "cayd/observe/fsck.h"
#include "cayd/observe/request-metrics.h"
#include "cayd/sandbox/drain.h"
#include "cayd/sandbox/sandbox.h"
#include "cayd/template/build.h"
#include "cayd/template/pool.h"
#include "cayd/template/template.h"
#include "cayd/tenant/api-key.h"
#include "cayd/tenant/operator-key.h"
#include "cayd/tenant/tenant.h"
#include "cayd/tenant/token.h"
#include "cayd/upload/upload.h"
#include "daemon/daemon.h"

#define KEEPER_MS 30000
#define WORKERS "16"

static int cayd_open_state_dirs(struct cayd *c, struct cay_err *err)
{
	const struct {
		const char *name;
		int *fd;
	} dirs[] = { { "db", &c->db_dir },
		     { "tmp", &c->tmp },
		     { "audit", &c->audit_dir },
		     { "uploads", &c->uploads_dir } };
	auto_close int state = open(c->settings.state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (state < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "open %s", c->settings.state_dir);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		*dirs[i].fd = path_open(state, dirs[i].name, O_RDONLY | O_DIRECTORY, 0);
		if (*dirs[i].fd < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, -*dirs[i].fd, "open %s in %s",
					    dirs[i].name, c->settings.state_dir);
	}
	return path_remove_tmp_files(c->db_dir);
}

struct cayd_signals {
	uv_signal_t signals[3];
	struct cayd *cayd;
};

static void on_cayd_signal(uv_signal_t *s, int number)
{
	struct cayd_signals *stop = s->data;
	struct cayd *c = stop->cayd;

	if (number == SIGHUP) {
		daemon_reload_settings(c->argc, c->argv, &c->settings, &c->log);
		return;
	}
	if (c->drain_ns) { /* asked twice: at once */
		uv_stop(&c->loop);
		return;
	}
	listeners_close(c);
	if (drain_is_configured(c)) {
		drain_start(c);
		return;
	}
	log_info(&c->log, "signal %d: stopping; sandboxes go on", number);
	uv_stop(&c->loop);
}

static int cayd_serve(struct cayd *c, struct cay_err *err)
{
	static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
	struct cayd_signals stop = { .cayd = c };
	int r = listeners_open(c, err);

	if (r >= 0)
		r = edge_push_open(c, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		(void)uv_signal_init(&c->loop, &stop.signals[i]);
		stop.signals[i].data = &stop;
		(void)uv_signal_start(&stop.signals[i], on_cayd_signal, numbers[i]);
	}
	daemon_notify_ready(&c->log);
	(void)uv_run(&c->loop, UV_RUN_DEFAULT);
	db_close(c->db);
	audit_close(c->audit);
	return 0;
}

static int cayd_start(struct cayd *c, struct cay_err *err)
{
	int r = cayd_open_state_dirs(c, err);

	if (r >= 0)
		r = images_open(c, err);
	if (r >= 0)
		r = registries_open(c, err);
	if (r >= 0)
		r = pulls_remove_leftovers(c, err);
	if (r >= 0)
		r = tenants_open(c, err);
	if (r >= 0)
		r = templates_open(c, err);
	if (r >= 0)
		r = keys_open(c, err);
	if (r >= 0)
		r = clk_read_boot_id(c->boot);
	/* before the keeper hears of us: who has no journal must not fence who has */
	if (r >= 0)
		r = db_open(c->db_dir, &c->loop, &c->db, err);
	if (r >= 0)
		r = audit_log_open(c, err);
	if (r >= 0)
		r = keeper_link_open(c, KEEPER_MS, err);
	if (r >= 0)
		r = sandboxes_open(c, err);
	if (r >= 0)
		r = events_open(c, err);
	if (r >= 0)
		r = creates_open(c, err);
	if (r >= 0)
		r = builds_open(c, err);
	if (r >= 0)
		r = pools_open(c, err);
	if (r >= 0)
		r = recovery_run(c, err);
	if (r >= 0)
		r = uploads_open(c, err);
	if (r >= 0) {
		builds_recover(c);
		r = operator_key_ensure(c, err);
	}
	if (r >= 0)
		r = token_signer_open(c, err);
	if (r >= 0)
		r = sandboxes_start_sweeper(c, err);
	return r;
}

int main(int argc, char **argv)
{
	static struct cayd c = {
		.clk = &clk_system,
		.db_dir = -EBADF,
		.tmp = -EBADF,
		.audit_dir = -EBADF,
		.uploads_dir = -EBADF,
	};
	struct cay_err err = {};
	int r;

	c.log = log_create(STDERR_FILENO, "cayd", &clk_system);
	c.argc = argc;
	c.argv = argv;
	r = daemon_start(argc, argv, "the user in users.control", &c.settings, &c.log, &err);
	if (r > 0)
		return 0; /* --check, --version */
	if (r >= 0)
		(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	/* some wait for a disk, and others are not to wait for them */
	if (r >= 0 && setenv("UV_THREADPOOL_SIZE", WORKERS, 0) < 0)
		r = cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
	if (r >= 0)
		r = uv_loop_init(&c.loop) < 0 ? cay_fail(&err, CAY_E_NO_MEMORY, "out of memory")
					      : cayd_start(&c, &err);
	if (r >= 0)
		r = cayd_serve(&c, &err);
	return daemon_exit_status(r, &c.log, &err);
}
