/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/resource.h>

#include "broker/broker.h"
#include "daemon/confine.h"
#include "daemon/control-peer.h"
#include "daemon/daemon.h"
#include "daemon/stop.h"
#include "net/tls.h"

#define HANDSHAKE_MS 10000

/* A flow has two descriptors. */
static void broker_share_descriptors(struct broker *b)
{
	struct rlimit lim = { .rlim_cur = 1024 };

	(void)getrlimit(RLIMIT_NOFILE, &lim);
	b->flows_max = (unsigned)((lim.rlim_cur < UINT32_MAX ? lim.rlim_cur : UINT32_MAX) / 4) + 1;
}

/* The certificates are read once: files cannot be opened later. */
static int broker_read_certificates(struct broker *b, struct cay_err *err)
{
	const char *roots = b->settings.egress_roots, *ours = b->settings.egress_ca;
	struct tls_client_conf conf = { .ca_file = roots,
					.more_ca_file = ours[0] ? ours : NULL,
					.host = "",
					.handshake_ms = HANDSHAKE_MS };

	if (access(roots, F_OK) <
	    0) { /* a node without ca-certificates works, but trusts no host */
		log_warn(&b->log, "%s: %s; only CAs in egress.ca are trusted", roots,
			 strerror(errno));
		conf.ca_file = "";
	}
	return tls_client_new(&conf, &b->tls, err);
}

static int broker_start(struct broker *b, struct cay_err *err)
{
	gid_t gid;
	int r = control_peer_find_user(&b->settings, "cay-broker", "users.broker", &b->control_uid,
				       err);

	if (r >= 0)
		r = daemon_find_user("users.egress", b->settings.egress_user, &b->egress_uid, &gid,
				     err);
	if (r >= 0 && b->egress_uid == geteuid())
		r = cay_fail(err, CAY_E_FORBIDDEN,
			     "cay-broker must not run as the user of cay-egress: start it as the "
			     "one in users.broker");
	if (r >= 0)
		r = broker_read_certificates(b, err);
	if (r >= 0)
		r = broker_key_open(b, err);
	if (r >= 0)
		r = credential_feed_open(b, err);
	if (r < 0)
		return r;
	broker_share_descriptors(b);
	b->room = conn_shared_new(&b->loop);
	return b->room ? flow_feed_open(b, err) : cay_no_memory(err);
}

/* Connections end with the process. */
static void broker_drain(void *) {}

static unsigned broker_count_connections(const void *)
{
	return 0;
}

static int broker_run(struct broker *b, struct cay_err *err)
{
	int r;

	daemon_stop_on_signals(&b->loop, &b->log, broker_drain, broker_count_connections, b);
	r = confine_daemon(err);
	if (r < 0)
		return r;
	daemon_notify_ready(&b->log);
	(void)uv_run(&b->loop, UV_RUN_DEFAULT);
	return 0;
}

int main(int argc, char **argv)
{
	static struct broker b;
	struct cay_err err = {};
	int r;

	b.log = log_create(STDERR_FILENO, "cay-broker", &clk_system);
	r = daemon_start(argc, argv, "the user in users.broker", &b.settings, &b.log, &err);
	if (r > 0)
		return 0; /* --check, --version */
	if (r >= 0)
		r = confine_deny_io_uring(&err);
	if (r >= 0)
		r = uv_loop_init(&b.loop) < 0 ? cay_no_memory(&err) : broker_start(&b, &err);
	if (r >= 0)
		r = broker_run(&b, &err);
	return daemon_exit_status(r, &b.log, &err);
}
