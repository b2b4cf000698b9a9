/* SPDX-License-Identifier: Apache-2.0 */
/* client - one connection of a server: its input, its timer, request after request */
#include <poll.h>

#include "net/peer.h"
#include "net/server-internal.h"

#define IN_MAX (CONN_READ + HTTP_HEAD_MAX)
#define LINGER_MS 2000
#define LINGER_BYTES MIB(4)
#define PAUSED_MS 1000

/* Over: what a request held is given back; the connection may live on. */
static void forget_request(struct client *c)
{
	c->live = c->handed = c->raw = c->stray = c->begun = c->finished = false;
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
	if (c->live && !c->complete && !c->finished &&
	    (c->stray || (c->rq.match.op && c->rq.match.op->body == BODY_RAW)))
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

struct client *client_accept(struct server *s)
{
	static const struct conn_events events = { .read = on_read,
						   .end = on_end,
						   .sent = on_sent,
						   .stuck = on_stuck,
						   .closed = on_conn_closed };
	struct client *c = new_client(s);
	struct conn_conf conf = {
		.layer = s->conf->layer, .events = &events, .data = c, .out_max = SERVER_OUT_MAX
	};

	if (!c)
		return NULL; /* libuv holds it and takes no other: without memory we are deaf anyway
			      */
	if (conn_accept(s->room, &s->listener.stream, &conf, &c->conn) >= 0)
		return c;
	c->open = 1;
	c->closing = true;
	uv_close((uv_handle_t *)&c->timer, on_timer_closed);
	return NULL;
}

void client_refused(struct client *c, uint64_t begun_ns)
{
	c->server->refusing_ns += uv_hrtime() - begun_ns;
}
