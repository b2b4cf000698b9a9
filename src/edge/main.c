/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/resource.h>

#include "daemon/confine.h"
#include "daemon/daemon.h"
#include "daemon/stop.h"
#include "edge/desktop/viewer-files.h"
#include "edge/edge.h"
#include "net/request-turns.h"
#include "net/tls.h"

#define HANDSHAKE_MS 10000
#define HEAD_MS 10000
#define IDLE_MS 60000
/* cayd closes idle connections after 60 s. */
#define KEPT_MAX 64
#define KEPT_MS 30000
/* Anonymous requests of one peer: per minute, and at once. */
#define STRANGERS 1200
#define STRANGERS_BURST 100
#define TOLD_MS 10000
#define JWKS_FILE_MAX KIB(256)

struct listen_address {
	struct sockaddr_storage at;
	socklen_t len;
	bool loopback, any;
	char host[64];
};

/* "127.0.0.1:7070" or "[::1]:7070". */
static int listen_address_parse(struct slice word, struct listen_address *ret)
{
	struct sockaddr_in *v4 = (void *)&ret->at;
	struct sockaddr_in6 *v6 = (void *)&ret->at;
	const char *colon = memrchr(word.p, ':', word.n);
	struct slice host = { word.p, colon ? (size_t)(colon - word.p) : 0 };
	char text[64];
	uint64_t port;

	*ret = (struct listen_address){};
	if (!host.n || host.n >= sizeof(text) ||
	    str_parse_u64((struct slice){ colon + 1, word.n - host.n - 1 }, 1, 65535, &port) < 0)
		return -EINVAL;
	memcpy(ret->host, host.p, host.n);
	if (host.p[0] == '[' && host.p[host.n - 1] == ']')
		host = (struct slice){ host.p + 1, host.n - 2 };
	memcpy(text, host.p, host.n);
	text[host.n] = 0;
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		ret->len = sizeof(*v4);
		ret->loopback = ntohl(v4->sin_addr.s_addr) >> 24 == 127;
		ret->any = v4->sin_addr.s_addr == htonl(INADDR_ANY);
		return 0;
	}
	if (inet_pton(AF_INET6, text, &v6->sin6_addr) != 1 || ret->host[0] != '[')
		return -EINVAL;
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons((uint16_t)port);
	ret->len = sizeof(*v6);
	ret->loopback = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
	ret->any = IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
	return 0;
}

static int listen_address_bind(const struct listen_address *a, struct cay_err *err)
{
	auto_close int fd = socket(a->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	/* several edges share a port, and a restart need not wait */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0 ||
	    (a->at.ss_family == AF_INET6 &&
	     setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0) ||
	    bind(fd, (const struct sockaddr *)&a->at, a->len) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "edge.listen: %s", a->host);
	return cay_take_fd(&fd);
}

/* Bind now, so that a mistake fails at once; listening follows later. */
static int edge_bind_address(struct edge *e, struct slice word, struct cay_err *err)
{
	struct listen_address a;
	int fd;

	if (listen_address_parse(word, &a) < 0)
		return cay_fail(err, CAY_E_INVALID, "edge.listen: '%.*s' is not ADDRESS:PORT",
				(int)word.n, word.p);
	if (!a.loopback && !e->tls && !e->settings.edge_plain)
		return cay_fail(err, CAY_E_INVALID,
				"edge.listen: %s is reachable by others; set edge.cert and "
				"edge.key, or edge.plain behind a TLS proxy",
				a.host);
	if (e->n_listen_fds == EDGE_LISTENERS)
		return cay_fail(err, CAY_E_INVALID, "edge.listen: at most %d addresses",
				EDGE_LISTENERS);
	fd = listen_address_bind(&a, err);
	if (fd < 0)
		return fd;
	if (!a.any)
		memcpy(e->addresses[e->n_listen_fds], a.host, sizeof(a.host));
	e->listen_fds[e->n_listen_fds++] = fd;
	return 0;
}

static int edge_bind_all(struct edge *e, struct cay_err *err)
{
	struct slice left = slice_of(e->settings.edge_listen);
	int r = 0;

	while (left.n && r >= 0)
		r = edge_bind_address(e, slice_cut(&left, ' '), err);
	return r;
}

/* Connections per listener.  A server accepts twice as many for a moment, to refuse them, and each
 * has an upstream: there must be fds for all, because libuv's way to handle their exhaustion is
 * blocked by the seccomp filter. */
static unsigned edge_max_conns(const struct edge *e)
{
	struct rlimit lim = { .rlim_cur = 1024 };
	uint64_t most;

	(void)getrlimit(RLIMIT_NOFILE, &lim);
	most = (lim.rlim_cur > 512 ? lim.rlim_cur - 256 : 256) / 3;
	most = most < e->settings.edge_conns ? most : e->settings.edge_conns;
	/* what the faces call back needs a listener each */
	return (unsigned)(most / (e->n_listen_fds + faces_count(e)));
}

static void on_edge_loop_round(uv_prepare_t *p)
{
	admission_measure_loop_round(p->data);
}

static int edge_watch_loop_rounds(struct edge *e)
{
	e->round_ns = clk_boot_ns(e->clk);
	(void)uv_prepare_init(&e->loop, &e->round);
	e->round.data = e;
	(void)uv_prepare_start(&e->round, on_edge_loop_round);
	return load_shed_init(&e->load_shed, e->round_ns);
}

static bool edge_trusts_peer(const struct sockaddr_storage *peer, void *arg)
{
	const struct edge *e = arg;
	uint8_t address[NET_ADDRESS_LEN];

	return net_address_from_socket(peer, address) &&
	       trusted_proxies_contain(&e->trusted, address);
}

static int edge_start_servers(struct edge *e, struct cay_err *err)
{
	uint64_t most = edge_max_conns(e), peer = e->settings.edge_peer;
	struct request_turns *turns = NULL;
	int r = request_turns_start(&e->loop, &turns, err);

	e->conf = (struct server_conf){ .max_conns = (unsigned)most,
					.max_peer = (unsigned)(peer ? peer : (most + 3) / 4),
					.head_timeout_ms = HEAD_MS,
					.idle_timeout_ms = IDLE_MS,
					.find_special = route_find_special_handler,
					.admit = admission_admit_request,
					.handler = route_request,
					.sandbox_handler = route_request,
					.raw = true,
					.answered = on_edge_request_answered,
					.head_refused = on_edge_preview_head_refused,
					.trusts = edge_trusts_peer,
					.arg = e,
					.turns = turns,
					.layer = e->tls };
	for (; e->n_servers < e->n_listen_fds && r >= 0; e->n_servers += r >= 0)
		r = server_start(&e->loop, e->listen_fds[e->n_servers], &e->conf,
				 &e->servers[e->n_servers], err);
	return r < 0 ? r : faces_serve(e, err);
}

static int edge_read_jwks(struct edge *e, struct cay_err *err)
{
	auto_buf text = BUF_INIT(JWKS_FILE_MAX);
	int r = daemon_read_file(e->settings.jwt_keys, &text);

	if (r < 0)
		return cay_fail_sys(err, CAY_E_INVALID, -r, "jwt.keys: read %s",
				    e->settings.jwt_keys);
	return jwks_parse((struct slice){ text.data, text.len }, &e->jwks, err);
}

static int edge_open_files(struct edge *e, struct cay_err *err)
{
	const struct settings *s = &e->settings;
	struct tls_server_conf tls = { .cert_file = s->edge_cert,
				       .key_file = s->edge_key,
				       .handshake_ms = HANDSHAKE_MS };
	int r = 0;

	if (!s->edge_cert[0] != !s->edge_key[0])
		return cay_fail(err, CAY_E_INVALID, "edge.cert and edge.key go together");
	if (s->edge_cert[0])
		r = tls_server_new(&tls, &e->tls, err);
	if (r >= 0)
		r = settings_check(s, err);
	if (r >= 0)
		r = trusted_proxies_parse(slice_of(s->edge_trusted), &e->trusted, err);
	if (r >= 0 && s->jwt_keys[0])
		r = edge_read_jwks(e, err);
	return r;
}

/* An edge without keys leaves the port to the others, but not for ever. */
static void edge_wait_for_control(struct edge *e)
{
	uint64_t until = clk_boot_ns(e->clk) + TOLD_MS * NS_PER_MS;

	while (!control_state_is_ready(e->control_state) && clk_boot_ns(e->clk) < until)
		(void)uv_run(&e->loop, UV_RUN_ONCE); /* the feed has a timer, so this returns */
	if (!control_state_is_ready(e->control_state))
		log_warn(&e->log, "control is not connected: serving without keys until it is");
}

static int edge_start(struct edge *e, struct cay_err *err)
{
	char path[108];
	int n = snprintf(path, sizeof(path), "%s/edge/control.sock", e->settings.run_dir), r;

	if (n < 0 || n >= (int)sizeof(path))
		return cay_fail(err, CAY_E_INVALID, "paths.run is too long");
	r = edge_open_files(e, err);
	if (r >= 0)
		r = edge_bind_all(e, err);
	if (r < 0)
		return r;
	e->control_state = control_state_new();
	e->known_jwts = known_jwts_new();
	e->failure_rates = rate_limiter_new(e->settings.edge_failures, e->settings.edge_failures);
	e->tenant_rates = rate_limiter_new(60 * e->settings.edge_rate, 2 * e->settings.edge_rate);
	e->anonymous_rates = rate_limiter_new(STRANGERS, STRANGERS_BURST);
	e->control = upstream_pool_new(&e->loop, path, KEPT_MAX, KEPT_MS);
	if (!e->control_state || !e->known_jwts || !e->failure_rates || !e->tenant_rates ||
	    !e->anonymous_rates || !e->control || edge_watch_loop_rounds(e) < 0)
		return cay_no_memory(err);
	r = edge_preview_open(e, err);
	if (r >= 0)
		r = viewer_files_read(e->settings.edge_novnc, &e->viewer_files, err);
	if (r >= 0)
		r = faces_open(e, err);
	if (r >= 0)
		r = control_feed_start(e, err);
	if (r >= 0)
		r = live_requests_start_timer(e, err);
	if (r < 0)
		return r;
	edge_wait_for_control(e);
	return edge_start_servers(e, err);
}

static void edge_drain(void *arg)
{
	struct edge *e = arg;

	for (unsigned i = 0; i < e->n_servers; i++)
		server_drain(e->servers[i]);
	/* the sockets of the faces stay open: requests in progress still call back */
	edge_attach_drain_all(e);
}

static unsigned edge_count_connections(const void *arg)
{
	const struct edge *e = arg;
	unsigned n = 0;

	for (unsigned i = 0; i < e->n_servers; i++)
		n += server_count_connections(e->servers[i]);
	return n;
}

static int edge_run(struct edge *e, struct cay_err *err)
{
	int r;

	daemon_stop_on_signals(&e->loop, &e->log, edge_drain, edge_count_connections, e);
	r = confine_daemon(err);
	if (r < 0)
		return r;
	daemon_notify_ready(&e->log);
	(void)uv_run(&e->loop, UV_RUN_DEFAULT);
	return 0;
}

int main(int argc, char **argv)
{
	static struct edge e = { .clk = &clk_system };
	struct cay_err err = {};
	int r;

	e.log = log_create(STDERR_FILENO, "cay-edge", &clk_system);
	r = daemon_start(argc, argv, "a user of cayd's group", &e.settings, &e.log, &err);
	if (r > 0)
		return 0; /* --check, --version */
	if (r >= 0)
		edge_counters_open(&e.counters);
	if (r >= 0)
		r = confine_deny_io_uring(&err);
	if (r >= 0)
		r = uv_loop_init(&e.loop) < 0 ||
				    uv_loop_configure(&e.loop, UV_METRICS_IDLE_TIME) < 0
			    ? cay_no_memory(&err)
			    : edge_start(&e, &err);
	if (r >= 0)
		r = edge_run(&e, &err);
	return daemon_exit_status(r, &e.log, &err);
}
