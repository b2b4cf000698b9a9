/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/resource.h>

#include "daemon/confine.h"
#include "daemon/control-peer.h"
#include "daemon/daemon.h"
#include "daemon/stop.h"
#include "egress/egress.h"
#include "net/splice.h"

/* A flow has at most three descriptors, also while cay-broker has one of them, a sandbox three and
 * a query one.  Splices have at most an eighth of all, or there are none. */
static void egress_share_descriptors(struct egress *e)
{
	struct rlimit lim = { .rlim_cur = 1024 };
	uint64_t most = UINT32_MAX;

	(void)getrlimit(RLIMIT_NOFILE, &lim);
	if (lim.rlim_cur < most)
		most = lim.rlim_cur;
	e->flows_max = (unsigned)(most / 6) + 1;
	e->may_splice = most / 8 >= UINT64_C(2) * (SPLICES_MAX + SPLICE_PIPES_MAX);
}

/* The loop opens a descriptor with its first socket, for when there are no more.  Once confined it
 * could not, and would try with each connection. */
static int egress_open_spare(struct egress *e, struct cay_err *err)
{
	static uv_tcp_t first;

	if (uv_tcp_init(&e->loop, &first) < 0)
		return cay_no_memory(err);
	uv_close((uv_handle_t *)&first, NULL);
	return 0;
}

static int egress_start(struct egress *e, struct cay_err *err)
{
	int r = control_peer_find_user(&e->settings, "cay-egress", "users.egress", &e->control_uid,
				       err);

	egress_share_descriptors(e);

	if (r >= 0)
		r = addresses_open(e, err);
	if (r >= 0)
		r = name_map_parse(e->settings.egress_map, &e->map, err);
	if (r >= 0)
		r = proxy_open(e, err);
	if (r >= 0)
		r = webhook_open(e, err);
	if (r >= 0)
		r = resolver_open(e, err);
	if (r >= 0)
		r = ca_open(e, err);
	if (r >= 0)
		r = decision_log_open(e, err);
	if (r >= 0)
		r = name_file_open(e, err);
	if (r < 0)
		return r;
	r = egress_open_spare(e, err);
	if (r < 0)
		return r;
	e->room = conn_shared_new(&e->loop);
	if (!e->room)
		return cay_no_memory(err);
	r = counter_open(e, err);
	return r < 0 ? r : feed_open(e, err);
}

/* Connections end with the process; programs inside see a reset. */
static void egress_drain(void *) {}

static unsigned egress_count_connections(const void *)
{
	return 0;
}

static int egress_run(struct egress *e, struct cay_err *err)
{
	int r;

	daemon_stop_on_signals(&e->loop, &e->log, egress_drain, egress_count_connections, e);
	r = confine_dialling_daemon(err);
	if (r < 0)
		return r;
	daemon_notify_ready(&e->log);
	(void)uv_run(&e->loop, UV_RUN_DEFAULT);
	return 0;
}

int main(int argc, char **argv)
{
	static struct egress e = { .clk = &clk_system, .broker_fd = -EBADF };
	struct cay_err err = {};
	int r;

	e.log = log_create(STDERR_FILENO, "cay-egress", &clk_system);
	r = daemon_start(argc, argv, "the user in users.egress", &e.settings, &e.log, &err);
	if (r > 0)
		return 0; /* --check, --version */
	if (r >= 0)
		r = confine_deny_io_uring(&err);
	if (r >= 0)
		r = uv_loop_init(&e.loop) < 0 ? cay_no_memory(&err) : egress_start(&e, &err);
	if (r >= 0)
		r = egress_run(&e, &err);
	return daemon_exit_status(r, &e.log, &err);
}
