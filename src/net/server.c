/* SPDX-License-Identifier: Apache-2.0 */
#include "net/server.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/msg.h"
#include "net/peer.h"
#include "net/server-internal.h"

#define IN_MAX (CONN_READ + HTTP_HEAD_MAX)
#define LINGER_MS 2000
#define LAST_MS 1000
#define LINGER_BYTES MIB(4)
#define BACKLOG 4096
#define PAUSED_MS 1000
#define KEEPIDLE_S 60

/* A connection that was upgraded: not read by us any more, but ours to end. */
struct taken {
	struct server *server;
	struct conn *conn;
	struct peer *peer;
	struct taken *prev, *next;
};

struct server {
	const struct server_conf *conf;
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_pipe_t pipe;
		uv_tcp_t tcp;
	} listener;
	uv_prepare_t let_go; /* of what is held; runs while there is some */
	unsigned open;       /* of those two handles */
	bool draining;
	struct conn_room *room;
	struct peers *peers; /* NULL: nobody counts */
	struct client *clients, *held;
	struct taken *taken;
	unsigned n_conns;
	uint64_t refusing_ns;
	uint32_t id_first, id_next; /* of requests: unlike those of our neighbours, then counted */
};

static void server_free_when_done(struct server *s)
{
	if (s->open || s->n_conns)
		return;
	conn_room_unref(s->room);
	peers_free(s->peers);
	free(s);
}

/* Over: what a request held is given back; the connection may live on. */
static void forget_request(struct client *c)
{
	c->live = c->handed = c->raw = c->begun = c->finished = false;
	c->paused = c->want_drain = c->bodiless = c->told = false;
	c->code = CAY_OK;
	c->route = NULL;
	pool_fini(&c->rq.pool);
	buf_fini(&c->body);
	buf_fini(&c->extra);
	c->rq = (struct request){};
}

bool client_answered(struct client *c, int status, bool whole)
{
	const struct server_conf *conf = c->server->conf;

	if (c->told || !conf->answered)
		return false;
	c->told = true;
	return conf->answered(&c->rq, status, c->code, whole, conf->arg);
}

void client_unref(struct client *c)
{
	struct server *s = c->server;

	if (--c->open)
		return;
	if (c->handed && !c->finished && c->rq.events && c->rq.events->gone)
		c->rq.events->gone(&c->rq);
	if (c->live)
		(void)client_answered(c, 0, false);
	forget_request(c);
	http_fini(&c->http);
	buf_fini(&c->in);
	buf_fini(&c->held);
	if (c->prev)
		c->prev->next = c->next;
	else
		s->clients = c->next;
	if (c->next)
		c->next->prev = c->prev;
	s->n_conns--;
	peer_leave(s->peers, c->peer);
	free(c);
	server_free_when_done(s);
}

static void on_timer_closed(uv_handle_t *h)
{
	client_unref(h->data);
}

static void on_conn_closed(struct conn *conn)
{
	struct client *c = conn_data(conn);

	c->conn = NULL;
	client_unref(c);
}

static void unhold(struct client *c)
{
	if (!c->on_held)
		return;
	if (c->held_prev)
		c->held_prev->held_next = c->held_next;
	else
		c->server->held = c->held_next;
	if (c->held_next)
		c->held_next->held_prev = c->held_prev;
	c->held_prev = c->held_next = NULL;
	c->on_held = false;
}

void client_close(struct client *c)
{
	if (c->closing)
		return;
	/* what was said is said */
	if (c->on_held) {
		unhold(c);
		client_flush(c);
		if (c->closing)
			return;
	}
	c->closing = true;
	conn_close(c->conn);
	uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}

static void on_taken_free(void *arg)
{
	struct taken *t = arg;
	struct server *s = t->server;

	if (t->prev)
		t->prev->next = t->next;
	else
		s->taken = t->next;
	if (t->next)
		t->next->prev = t->prev;
	peer_leave(s->peers, t->peer);
	free(t);
	s->n_conns--;
	server_free_when_done(s);
}

struct conn *client_part(struct client *c)
{
	struct server *s = c->server;
	struct taken *t = calloc(1, sizeof(*t));

	if (!t) {
		client_close(c);
		return NULL;
	}
	*t = (struct taken){
		.server = s, .conn = cay_take(c->conn), .peer = cay_take(c->peer), .next = s->taken
	};
	if (s->taken)
		s->taken->prev = t;
	s->taken = t;
	s->n_conns++; /* on top of the client, which goes */
	conn_on_free(t->conn, on_taken_free, t);
	c->closing = true;
	c->open--;
	unhold(c);
	uv_close((uv_handle_t *)&c->timer, on_timer_closed);
	return t->conn;
}

static void let_go(uv_prepare_t *h)
{
	struct server *s = h->data;

	while (s->held) {
		struct client *c = s->held;

		unhold(c);
		client_flush(c);
	}
	(void)uv_prepare_stop(h);
}

void client_hold(struct client *c)
{
	struct server *s = c->server;

	if (c->on_held || c->closing)
		return;
	if (!s->held)
		(void)uv_prepare_start(&s->let_go, let_go);
	c->on_held = true;
	c->held_next = s->held;
	if (s->held)
		s->held->held_prev = c;
	s->held = c;
}

static void on_timeout(uv_timer_t *t)
{
	client_close(t->data);
}

static bool has_left(const struct client *c)
{
	struct pollfd p = { .fd = conn_fd(c->conn), .events = POLLRDHUP };

	return p.fd >= 0 && poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR);
}

bool request_left(struct request *rq)
{
	return has_left(client_of(rq));
}

/* Who is not read from is looked at now and then: it may have left. */
static void on_paused(uv_timer_t *t)
{
	struct client *c = t->data;

	if (has_left(c))
		client_close(c);
}

void client_arm(struct client *c, uint64_t ms)
{
	if (ms)
		(void)uv_timer_start(&c->timer, on_timeout, ms, 0);
	else
		(void)uv_timer_stop(&c->timer);
}

/* We are done but the peer may still be sending.  Closing now would throw away
 * what it has not read of our reply, so it gets a moment to finish. */
static void linger(struct client *c)
{
	c->lingering = true;
	c->paused = false;
	conn_shutdown(c->conn);
	client_arm(c, LINGER_MS);
}

void client_name(struct client *c)
{
	struct server *s = c->server;
	uint64_t id = (uint64_t)s->id_first << 32 | s->id_next++;

	for (unsigned i = 0; i < REQUEST_ID_LEN; i++)
		c->rq.id[i] = "0123456789abcdef"[id >> 4 * (REQUEST_ID_LEN - 1 - i) & 15];
	c->rq.id[REQUEST_ID_LEN] = 0;
}

/* Who does not read its whole reply is not waited for for ever. */
static void on_unread(uv_timer_t *t)
{
	struct client *c = t->data;
	size_t left = conn_queued(c->conn) + conn_unsent(c->conn);

	if (left == c->unsent)
		client_close(c);
	c->unsent = left;
}

static void watch_reading(struct client *c)
{
	uint64_t ms = c->conf->idle_timeout_ms;

	if (!c->finished || !c->complete || c->waits || !conn_queued(c->conn) ||
	    uv_is_active((uv_handle_t *)&c->timer))
		return;
	c->unsent = conn_queued(c->conn) + conn_unsent(c->conn);
	(void)uv_timer_start(&c->timer, on_unread, ms, ms);
}

/* The reply is out: what now?  False when there is nothing more to do here. */
static bool next_request(struct client *c, bool more)
{
	watch_reading(c);
	if (!c->finished || c->held.len || conn_queued(c->conn))
		return false;
	if (c->last) {
		if (c->complete && !more) {
			conn_shutdown(c->conn);
			client_close(c);
		} else {
			linger(c);
		}
		return false;
	}
	forget_request(c);
	http_reset(&c->http);
	client_arm(c, c->conf->idle_timeout_ms);
	return true;
}

/* One step of input; false when nothing can be done now. */
static bool step(struct client *c, struct slice *in)
{
	bool idle = http_idle(&c->http);
	struct cay_err err = {};
	struct slice body;
	int r;

	/* answered before all of it was read: write_head() made it the last */
	if (http_ended(&c->http) || (c->finished && c->last))
		return next_request(c, in->n);
	if (c->paused)
		return false;
	r = http_next(&c->http, in, &body, &err);
	if (r < 0) {
		client_broken(c, &err);
		return true;
	}
	switch ((enum http_event)r) {
	case HTTP_MORE:
		if (idle && !http_idle(&c->http))
			client_arm(c, c->conf->head_timeout_ms);
		return false;
	case HTTP_HEAD_DONE:
		client_arm(c, c->conf->idle_timeout_ms);
		client_begin(c);
		return true;
	case HTTP_BODY:
		client_body(c, body);
		return true;
	case HTTP_END:
		client_body_end(c);
		return true;
	}
	return false;
}

/* Sockets. */

static void pump(struct client *c, struct slice fresh);

static void on_read(struct conn *conn, struct slice bytes)
{
	struct client *c = conn_data(conn);

	if (c->lingering) {
		c->discarded += bytes.n;
		if (c->discarded > LINGER_BYTES)
			client_close(c);
		return;
	}
	/* a raw body may be long; any other has the time it was given at its head */
	if (c->live && !c->complete && !c->finished && c->rq.match.op &&
	    c->rq.match.op->body == BODY_RAW)
		client_arm(c, c->conf->idle_timeout_ms);
	/* who sends more than a head's worth ahead of our reply is not a client */
	if (c->live && c->complete && c->in.len + bytes.n > HTTP_HEAD_MAX)
		client_close(c);
	else
		pump(c, bytes);
}

static void on_end(struct conn *conn, const struct cay_err *err)
{
	if (!err)
		conn_shutdown(conn);
	client_close(conn_data(conn));
}

static void on_stuck(struct conn *conn)
{
	client_close(conn_data(conn));
}

static void on_sent(struct conn *conn)
{
	client_sent(conn_data(conn));
}

/* Whose turn it is: while it is paused it waits for us, but may leave. */
static void watch_for(struct client *c)
{
	bool was = c->watched;

	c->watched = c->paused;
	if (c->paused && !was)
		(void)uv_timer_start(&c->timer, on_paused, PAUSED_MS, PAUSED_MS);
	else if (!c->paused && was) {
		if (c->live) /* or it is between requests, and has its timer */
			client_arm(c, c->complete ? 0 : c->conf->idle_timeout_ms);
	} else if (c->live && !c->complete && !uv_is_active((uv_handle_t *)&c->timer))
		client_arm(c, c->conf->idle_timeout_ms);
}

/* Fresh bytes are parsed where they lie; only what must wait is copied. */
static void pump(struct client *c, struct slice fresh)
{
	bool copied = c->in.len;
	size_t n;

	if (copied && buf_add(&c->in, fresh.p, fresh.n) < 0) {
		client_close(c);
		return;
	}
	if (c->pumping || c->closing || c->lingering)
		return;
	c->pumping = true;
	c->rest = copied ? (struct slice){ c->in.data, c->in.len } : fresh;
	n = c->rest.n;
	while (!c->closing && !c->lingering && step(c, &c->rest))
		;
	c->pumping = false;
	if (c->closing)
		return;
	if (copied)
		buf_consume(&c->in, n - c->rest.n);
	else if (c->rest.n && buf_add(&c->in, c->rest.p, c->rest.n) < 0) {
		client_close(c);
		return;
	}
	c->rest = (struct slice){};
	if (!c->in.len) {
		buf_fini(&c->in);
		c->in.max = IN_MAX;
	}
	/* nothing is read behind an answer that is not out yet, but the end of its request */
	conn_read(c->conn, c->complete || c->lingering || !(c->paused || (c->finished && c->last)));
	if (!c->lingering)
		watch_for(c);
}

void client_pump(struct client *c)
{
	pump(c, (struct slice){});
}

static struct client *new_client(struct server *s)
{
	struct client *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	*c = (struct client){ .server = s, .conf = s->conf, .open = 2, .next = s->clients };
	http_init(&c->http, HTTP_KIND_REQUEST);
	c->in.max = IN_MAX;
	c->held.max = SERVER_OUT_MAX;
	(void)uv_timer_init(s->listener.handle.loop, &c->timer);
	c->timer.data = c;
	if (s->clients)
		s->clients->prev = c;
	s->clients = c;
	s->n_conns++;
	return c;
}

static void count_peer(struct client *c)
{
	struct sockaddr_storage at = {};
	socklen_t len = sizeof(at);

	if (getpeername(conn_fd(c->conn), (struct sockaddr *)&at, &len) == 0)
		c->peer = peer_enter(c->server->peers, &at);
}

/* More of one peer are not even told: what is told counts as one until it has heard. */
static unsigned peer_end(const struct server *s)
{
	return s->conf->max_peer + s->conf->max_peer / 16 + 1;
}

static void one_too_many(struct client *c, enum cay_code code, unsigned most, const char *where)
{
	struct cay_err err = {};

	(void)cay_fail(&err, code, "%u connections%s are open already", most, where);
	(void)request_header(&c->rq, "Retry-After", "1");
	client_broken(c, &err);
}

static void on_connection(uv_stream_t *listener, int status)
{
	static const struct conn_events events = { .read = on_read,
						   .end = on_end,
						   .sent = on_sent,
						   .stuck = on_stuck,
						   .closed = on_conn_closed };
	struct server *s = listener->data;
	struct client *c = status < 0 ? NULL : new_client(s);
	struct conn_conf conf = {
		.layer = s->conf->layer, .events = &events, .data = c, .out_max = SERVER_OUT_MAX
	};

	if (!c)
		return; /* libuv holds it and takes no other: without memory we are deaf anyway */
	if (conn_accept(s->room, listener, &conf, &c->conn) < 0) {
		c->open = 1;
		c->closing = true;
		uv_close((uv_handle_t *)&c->timer, on_timer_closed);
		return;
	}
	if (s->peers)
		count_peer(c);
	/* who is one too many is told so, unless too many wait to be told */
	if (s->n_conns > 2 * s->conf->max_conns ||
	    (s->peers && peer_conns(c->peer) > peer_end(s))) {
		client_close(c);
		return;
	}
	if (s->n_conns > s->conf->max_conns)
		one_too_many(c, CAY_E_UNAVAILABLE, s->conf->max_conns, "");
	else if (s->peers && peer_conns(c->peer) > s->conf->max_peer)
		one_too_many(c, CAY_E_RATE, s->conf->max_peer, " from there");
	if (c->closing)
		return;
	conn_read(c->conn, true);
	if (!c->lingering)
		client_arm(c, s->conf->head_timeout_ms); /* who comes, says why */
}

static void on_handle_closed(uv_handle_t *h)
{
	struct server *s = h->data;

	s->open--;
	server_free_when_done(s);
}

/* Every connection inherits what is set here. */
static int listen_on(struct server *s, uv_loop_t *loop, int fd)
{
	struct sockaddr_storage name = {};
	socklen_t len = sizeof(name);
	int on = 1, idle_s = KEEPIDLE_S, r;

	if (getsockname(fd, (struct sockaddr *)&name, &len) < 0)
		name.ss_family = AF_UNIX; /* and uv_pipe_open() says what is wrong */
	if (name.ss_family == AF_UNIX) {
		(void)uv_pipe_init(loop, &s->listener.pipe, 0);
		msg_refuse_fds(fd);
		r = uv_pipe_open(&s->listener.pipe, fd);
	} else {
		(void)uv_tcp_init(loop, &s->listener.tcp);
		/* without them replies wait for acknowledgements, and the dead stay */
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
		(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
		r = uv_tcp_open(&s->listener.tcp, fd);
	}
	s->listener.handle.data = s;
	s->open++;
	if (r < 0)
		(void)close(fd);
	return r < 0 ? r : uv_listen(&s->listener.stream, BACKLOG, on_connection);
}

int server_start(uv_loop_t *loop, int fd, const struct server_conf *conf, struct server **ret,
		 struct cay_err *err)
{
	struct server *s = calloc(1, sizeof(*s));
	int r;

	if (s)
		s->room = conn_room_new(loop);
	if (!s || !s->room) {
		free(s);
		(void)close(fd);
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory for a server");
	}
	s->conf = conf;
	s->peers = conf->max_peer ? peers_new() : NULL; /* without memory for it, as if unset */
	if (getrandom(&s->id_first, sizeof(s->id_first), GRND_NONBLOCK) < 0)
		s->id_first = 0; /* ids are for people who read logs, not for security */
	(void)uv_prepare_init(loop, &s->let_go);
	s->let_go.data = s;
	s->open++;
	r = listen_on(s, loop, fd);
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
		uv_close(&s->listener.handle, on_handle_closed);
	if (!uv_is_closing((uv_handle_t *)&s->let_go))
		uv_close((uv_handle_t *)&s->let_go, on_handle_closed);
	for (struct client *c = s->clients; c; c = c->next)
		client_close(c);
	for (struct taken *t = s->taken; t; t = t->next)
		conn_cut(t->conn);
}

void server_drain(struct server *s)
{
	s->draining = true;
	if (!uv_is_closing(&s->listener.handle))
		uv_close(&s->listener.handle, on_handle_closed);
	for (struct client *c = s->clients; c; c = c->next)
		if (c->live)
			c->last = true; /* closing behind a reply that has begun is right, too */
		else if (http_idle(&c->http)) /* what it asks now may be on its way */
			client_arm(c, LAST_MS);
}

bool server_draining(const struct server *s)
{
	return s->draining;
}

unsigned server_connections(const struct server *s)
{
	return s->n_conns;
}

uint64_t server_refusing_ns(const struct server *s)
{
	return s->refusing_ns;
}

void client_refused(struct client *c, uint64_t begun_ns)
{
	c->server->refusing_ns += uv_hrtime() - begun_ns;
}

struct conn_room *request_room(struct request *rq)
{
	return client_of(rq)->server->room;
}
