/* SPDX-License-Identifier: Apache-2.0 */
#include "net/server.h"

#include "base/seqpacket.h"
#include "net/peer-limit.h"
#include "net/server-internal.h"

#define LAST_MS 1000
#define BACKLOG 4096
#define KEEPIDLE_S 60

void server_free_when_done(struct server *s)
{
	if (s->open || s->n_conns)
		return;
	conn_shared_unref(s->shared);
	peer_limits_free(s->peers);
	free(s);
}

bool server_conn_proxied_address(const struct server_conn *c, struct sockaddr_storage *ret)
{
	struct sockaddr_in6 *v6 = (void *)ret;
	struct sockaddr_in *v4 = (void *)ret;

	if (!c->proxied || !c->proxied->has_address)
		return false;
	*ret = (struct sockaddr_storage){ .ss_family = AF_INET6 };
	v6->sin6_port = htons(c->proxied->port);
	memcpy(&v6->sin6_addr, c->proxied->address, sizeof(v6->sin6_addr));
	if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
		*ret = (struct sockaddr_storage){ .ss_family = AF_INET };
		v4->sin_port = htons(c->proxied->port);
		memcpy(&v4->sin_addr, c->proxied->address + 12, sizeof(v4->sin_addr));
	}
	return true;
}

/* Beyond this a peer gets no error reply: each counts as a connection until it is sent. */
static unsigned server_peer_hard_limit(const struct server *s)
{
	return s->conf->max_peer + s->conf->max_peer / 16 + 1;
}

static void server_refuse_excess_conn(struct server_conn *c, enum cay_code code, unsigned most,
				      const char *where)
{
	struct cay_err err = {};

	(void)cay_fail(&err, code, "too many connections%s: at most %u", where, most);
	(void)request_add_reply_header(&c->rq, "Retry-After", "1");
	server_conn_fail_last(c, &err);
}

/* Count a connection of that peer.  Excess ones get an error reply, unless too many wait for one.
 */
static void server_count_peer(struct server_conn *c, const struct sockaddr_storage *at)
{
	const struct server *s = c->server;

	if (!s->peers || c->closing)
		return;
	c->peer = peer_limit_add_conn(s->peers, at);
	if (peer_limit_count_conns(c->peer) > server_peer_hard_limit(s))
		server_conn_close(c);
	else if (peer_limit_count_conns(c->peer) > s->conf->max_peer && !c->lingering)
		server_refuse_excess_conn(c, CAY_E_RATE, s->conf->max_peer, " from this address");
}

/* The first bytes of a connection of a proxy. */
static bool on_server_conn_preamble(struct conn *conn, struct slice *wire)
{
	struct server_conn *c = conn_data(conn);
	struct sockaddr_storage at;
	int r = proxy_header_feed(c->proxied, wire);

	if (r < 0)
		server_conn_close(c);
	else if (r == PROXY_HEADER_DONE && server_conn_proxied_address(c, &at))
		server_count_peer(c, &at);
	return r == PROXY_HEADER_MORE;
}

static void server_identify_peer(struct server_conn *c)
{
	const struct server_conf *conf = c->conf;
	struct sockaddr_storage at = {};
	socklen_t len = sizeof(at);

	if (getpeername(conn_fd(c->conn), (struct sockaddr *)&at, &len) < 0)
		return;
	if (!conf->trusts || !conf->trusts(&at, conf->arg)) {
		server_count_peer(c, &at);
		return;
	}
	c->proxied = calloc(1, sizeof(*c->proxied));
	if (c->proxied)
		conn_set_preamble(c->conn, on_server_conn_preamble);
	else
		server_conn_close(c);
}

static void on_server_connection(uv_stream_t *listener, int status)
{
	struct server *s = listener->data;
	struct server_conn *c = status < 0 ? NULL : server_conn_accept(s);

	if (!c)
		return;
	if (s->n_conns > 2 * s->conf->max_conns) {
		server_conn_close(c);
		return;
	}
	if (s->n_conns > s->conf->max_conns)
		server_refuse_excess_conn(c, CAY_E_UNAVAILABLE, s->conf->max_conns, "");
	if (!c->closing && (s->peers || s->conf->trusts))
		server_identify_peer(c);
	if (c->closing)
		return;
	conn_set_reading(c->conn, true);
	if (!c->lingering) /* it must send a request in time */
		server_conn_set_timeout(c, s->conf->head_timeout_ms);
}

static void on_server_handle_closed(uv_handle_t *h)
{
	struct server *s = h->data;

	s->open--;
	server_free_when_done(s);
}

/* Accepted sockets inherit these options. */
static int server_listen_on(struct server *s, uv_loop_t *loop, int fd)
{
	struct sockaddr_storage name = {};
	socklen_t len = sizeof(name);
	int on = 1, idle_s = KEEPIDLE_S, r;

	if (getsockname(fd, (struct sockaddr *)&name, &len) < 0)
		name.ss_family = AF_UNIX; /* uv_pipe_open() then reports the error */
	if (name.ss_family == AF_UNIX) {
		(void)uv_pipe_init(loop, &s->listener.pipe, 0);
		seqpacket_refuse_fds(fd);
		r = uv_pipe_open(&s->listener.pipe, fd);
	} else {
		(void)uv_tcp_init(loop, &s->listener.tcp);
		/* replies are not delayed, and dead peers are noticed */
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
		(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
		r = uv_tcp_open(&s->listener.tcp, fd);
	}
	s->listener.handle.data = s;
	s->open++;
	if (r < 0)
		(void)close(fd);
	return r < 0 ? r : uv_listen(&s->listener.stream, BACKLOG, on_server_connection);
}

int server_start(uv_loop_t *loop, int fd, const struct server_conf *conf, struct server **ret,
		 struct cay_err *err)
{
	struct server *s = calloc(1, sizeof(*s));
	int r;

	if (s)
		s->shared = conn_shared_new(loop);
	if (!s || !s->shared) {
		free(s);
		(void)close(fd);
		return cay_no_memory(err);
	}
	s->conf = conf;
	s->peers = conf->max_peer ? peer_limits_new() : NULL; /* without memory, unlimited */
	(void)uv_prepare_init(loop, &s->flush_held);
	s->flush_held.data = s;
	s->open++;
	r = server_listen_on(s, loop, fd);
	if (r < 0) {
		server_stop(s);
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "listen");
	}
	*ret = s;
	return 0;
}

void server_stop(struct server *s)
{
	if (!uv_is_closing(&s->listener.handle))
		uv_close(&s->listener.handle, on_server_handle_closed);
	if (!uv_is_closing((uv_handle_t *)&s->flush_held))
		uv_close((uv_handle_t *)&s->flush_held, on_server_handle_closed);
	for (struct server_conn *c = s->conns; c; c = c->next)
		server_conn_close(c);
	for (struct upgraded_conn *t = s->upgraded; t; t = t->next)
		conn_notify_stuck(t->conn);
}

void server_drain(struct server *s)
{
	s->draining = true;
	if (!uv_is_closing(&s->listener.handle))
		uv_close(&s->listener.handle, on_server_handle_closed);
	for (struct server_conn *c = s->conns; c; c = c->next)
		if (c->live)
			c->last_request = true;         /* also correct when the reply has begun */
		else if (http_parser_is_idle(&c->http)) /* its next request may be in flight */
			server_conn_set_timeout(c, LAST_MS);
}

unsigned server_count_connections(const struct server *s)
{
	return s->n_conns;
}

uint64_t server_refusing_ns(const struct server *s)
{
	return s->refusing_ns;
}

struct conn_shared *request_conn_shared(struct request *rq)
{
	return server_conn_of_request(rq)->server->shared;
}
