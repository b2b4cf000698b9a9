/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "daemon/confine.h"
#include "daemon/daemon.h"
#include "daemon/stop.h"
#include "mcp/mcp.h"
#include "net/request-turns.h"

#define CONNS_MAX 4096
#define HEAD_MS 10000
#define IDLE_MS 60000

/* The mode of the directory restricts access to edges. */
static int mcp_daemon_listen(const struct mcp *m, struct cay_err *err)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int n = snprintf(at.sun_path, sizeof(at.sun_path), "%s/mcp.sock", m->settings.mcp_dir);
	struct stat st;

	if (fd < 0 || n < 0 || n >= (int)sizeof(at.sun_path))
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create a socket");
	if (stat(m->settings.mcp_dir, &st) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "mcp.run: %s", m->settings.mcp_dir);
	if (st.st_mode & S_IRWXO)
		return cay_fail(err, CAY_E_INVALID,
				"mcp.run: %s is accessible to all users; set its mode to 0770",
				m->settings.mcp_dir);
	(void)unlink(at.sun_path);
	if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    chmod(at.sun_path, 0660) < 0 || listen(fd, 512) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "listen at %s", at.sun_path);
	return cay_take_fd(&fd);
}

static int mcp_daemon_start(struct mcp *m, struct cay_err *err)
{
	struct request_turns *turns = NULL;
	int fd = mcp_daemon_listen(m, err);

	if (fd < 0)
		return fd;
	(void)uv_timer_init(&m->loop, &m->progress_timer);
	m->progress_timer.data = m;
	if (request_turns_start(&m->loop, &turns, err) < 0) {
		(void)close(fd);
		return -ENOMEM;
	}
	m->conf = (struct server_conf){ .max_conns = CONNS_MAX,
					.head_timeout_ms = HEAD_MS,
					.idle_timeout_ms = IDLE_MS,
					.find_special = mcp_listener_find_handler,
					.turns = turns,
					.arg = m };
	return server_start(&m->loop, fd, &m->conf, &m->server, err);
}

static void on_mcp_daemon_drain(void *arg)
{
	const struct mcp *m = arg;

	server_drain(m->server);
}

static unsigned mcp_daemon_count_connections(const void *arg)
{
	const struct mcp *m = arg;

	return server_count_connections(m->server);
}

static int mcp_daemon_run(struct mcp *m, struct cay_err *err)
{
	int r;

	daemon_stop_on_signals(&m->loop, &m->log, on_mcp_daemon_drain, mcp_daemon_count_connections,
			       m);
	json_object_seed(0); /* from the kernel, before the filter blocks it */
	r = confine_daemon(err);
	if (r < 0)
		return r;
	daemon_notify_ready(&m->log);
	(void)uv_run(&m->loop, UV_RUN_DEFAULT);
	return 0;
}

int main(int argc, char **argv)
{
	static struct mcp m;
	struct cay_err err = {};
	int r;

	m.log = log_create(STDERR_FILENO, "cay-mcp", &clk_system);
	r = daemon_start(argc, argv, "a user of its own", &m.settings, &m.log, &err);
	if (r > 0)
		return 0; /* --check, --version */
	if (r >= 0)
		r = confine_deny_io_uring(&err);
	if (r >= 0)
		r = uv_loop_init(&m.loop) < 0 ? cay_no_memory(&err) : mcp_daemon_start(&m, &err);
	if (r >= 0)
		r = mcp_daemon_run(&m, &err);
	return daemon_exit_status(r, &m.log, &err);
}
