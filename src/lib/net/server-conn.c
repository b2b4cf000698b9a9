/* SPDX-License-Identifier: Apache-2.0 */
/* server-conn - one connection of a server: its input, its timer, its requests */
#include <poll.h>
#include <sys/random.h>

#include "net/peer-limit.h"
#include "net/server-internal.h"

#define IN_MAX (CONN_READ + HTTP_HEAD_MAX)
#define LINGER_MS 2000
#define LINGER_BYTES MIB(4)
#define PAUSED_MS 1000

/* Free what the request held; the connection may serve another. */
static void server_conn_reset_request(struct server_conn *c)
{
	c->live = c->in_handler = c->raw = c->is_special = c->reply_begun = false;
	c->paused = c->want_drain = c->bodiless = c->answer_reported = c->reply_finished = false;
	c->code = CAY_OK;
	c->route = NULL;
	c->refusal = NULL;
	server_conn_leave_share(c);
	arena_fini(&c->rq.arena);
	server_conn_free_body(c);
	buf_fini(&c->extra_headers);
	c->rq = (struct request){};
}

bool server_conn_report_answer(struct server_conn *c, int status, bool whole)
{
	const struct server_conf *conf = c->server->conf;

	if (c->answer_reported || !conf->answered)
		return false;
	c->answer_reported = true;
	return conf->answered(&c->rq, status, c->code, whole, conf->arg);
}

void server_conn_unref(struct server_conn *c)
{
	struct server *s = c->server;

	if (--c->open)
		return;
	if (c->in_handler && !c->reply_finished && c->rq.events && c->rq.events->gone)
		c->rq.events->gone(&c->rq);
	if (c->live)
		(void)server_conn_report_answer(c, 0, false);
	server_conn_reset_request(c);
	http_parser_fini(&c->http);
	buf_fini(&c->in);
	buf_fini(&c->held);
	*(c->prev ? &c->prev->next : &s->conns) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	s->n_conns--;
	peer_limit_remove_conn(s->peers, c->peer);
	free(c->proxied);
	free(c);
	server_free_when_done(s);
}

static void on_server_conn_timer_closed(uv_handle_t *h)
{
	server_conn_unref(h->data);
}

static void on_server_conn_closed(struct conn *conn)
{
	struct server_conn *c = conn_data(conn);

	c->conn = NULL;
	server_conn_unref(c);
}

static void server_conn_unhold_output(struct server_conn *c)
{
	if (!c->on_held)
		return;
	*(c->held_prev ? &c->held_prev->held_next : &c->server->held) = c->held_next;
	if (c->held_next)
		c->held_next->held_prev = c->held_prev;
	c->held_prev = c->held_next = NULL;
	c->on_held = false;
}

void server_conn_close(struct server_conn *c)
{
	if (c->closing)
		return;
	/* output of a finished reply is still sent */
	if (c->on_held) {
		server_conn_unhold_output(c);
		server_conn_flush(c);
		if (c->closing)
			return;
	}
	c->closing = true;
	conn_close(c->conn);
	uv_close((uv_handle_t *)&c->timer, on_server_conn_timer_closed);
}

static void on_upgraded_conn_free(void *arg)
{
	struct upgraded_conn *t = arg;
	struct server *s = t->server;

	*(t->prev ? &t->prev->next : &s->upgraded) = t->next;
	if (t->next)
		t->next->prev = t->prev;
	peer_limit_remove_conn(s->peers, t->peer);
	free(t);
	s->n_conns--;
	server_free_when_done(s);
}

struct conn *server_conn_release_conn(struct server_conn *c)
{
	struct server *s = c->server;
	struct upgraded_conn *t = calloc(1, sizeof(*t));

	if (!t) {
		server_conn_close(c);
		return NULL;
	}
	*t = (struct upgraded_conn){ .server = s,
				     .conn = cay_take(c->conn),
				     .peer = cay_take(c->peer),
				     .next = s->upgraded };
	if (s->upgraded)
		s->upgraded->prev = t;
	s->upgraded = t;
	s->n_conns++; /* besides the server_conn, which is freed */
	conn_set_free_callback(t->conn, on_upgraded_conn_free, t);
	c->closing = true;
	c->open--;
	server_conn_unhold_output(c);
	uv_close((uv_handle_t *)&c->timer, on_server_conn_timer_closed);
	return t->conn;
}

static void on_server_flush_held(uv_prepare_t *h)
{
	struct server *s = h->data;

	while (s->held) {
		struct server_conn *c = s->held;

		server_conn_unhold_output(c);
		server_conn_flush(c);
	}
	(void)uv_prepare_stop(h);
}

void server_conn_hold_output(struct server_conn *c)
{
	struct server *s = c->server;

	if (c->on_held || c->closing)
		return;
	if (!s->held)
		(void)uv_prepare_start(&s->flush_held, on_server_flush_held);
	c->on_held = true;
	c->held_next = s->held;
	if (s->held)
		s->held->held_prev = c;
	s->held = c;
}

static void on_server_conn_timeout(uv_timer_t *t)
{
	server_conn_close(t->data);
}

bool request_peer_has_left(struct request *rq)
{
	const struct conn *c = server_conn_of_request(rq)->conn;
	struct pollfd p = { .fd = c ? conn_fd(c) : -EBADF, .events = POLLRDHUP };

	return !c || (p.fd >= 0 && poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR));
}

/* While its input is paused a peer that leaves goes unnoticed, so poll. */
static void on_server_conn_paused_timer(uv_timer_t *t)
{
	struct server_conn *c = t->data;

	if (request_peer_has_left(&c->rq))
		server_conn_close(c);
}

void server_conn_set_timeout(struct server_conn *c, uint64_t ms)
{
	if (ms)
		(void)uv_timer_start(&c->timer, on_server_conn_timeout, ms, 0);
	else
		(void)uv_timer_stop(&c->timer);
}

/* We are done but the peer may still be sending.  Closing now would discard the part of our reply
 * it has not read, so give it a moment to finish. */
static void server_conn_linger(struct server_conn *c)
{
	c->lingering = true;
	c->paused = false;
	conn_shutdown(c->conn);
	server_conn_set_timeout(c, LINGER_MS);
}

/* A counter would tell every client how many requests others send. */
static uint64_t server_draw_request_id(struct server *s)
{
	if (!s->n_ids &&
	    getrandom(s->ids, sizeof(s->ids), GRND_NONBLOCK) == (ssize_t)sizeof(s->ids))
		s->n_ids = REQUEST_IDS_DRAWN;
	/* early at boot there may be none: the time tells nothing of others either */
	return s->n_ids ? s->ids[--s->n_ids] : uv_hrtime();
}

void server_conn_set_request_id(struct server_conn *c)
{
	uint64_t id = server_draw_request_id(c->server);

	for (unsigned i = 0; i < REQUEST_ID_LEN; i++)
		c->rq.id[i] = "0123456789abcdef"[id >> 4 * (REQUEST_ID_LEN - 1 - i) & 15];
	c->rq.id[REQUEST_ID_LEN] = 0;
}

/* Close a connection whose peer reads none of its reply for a whole interval. */
static void on_server_conn_unread_timer(uv_timer_t *t)
{
	struct server_conn *c = t->data;
	size_t left = conn_queued_bytes(c->conn) + conn_unsent_bytes(c->conn);

	if (left == c->unsent)
		server_conn_close(c);
	c->unsent = left;
}

static void server_conn_watch_unread(struct server_conn *c)
{
	uint64_t ms = c->conf->idle_timeout_ms;

	if (!c->reply_finished || !c->complete || c->reply_held || !conn_queued_bytes(c->conn) ||
	    uv_is_active((uv_handle_t *)&c->timer))
		return;
	c->unsent = conn_queued_bytes(c->conn) + conn_unsent_bytes(c->conn);
	(void)uv_timer_start(&c->timer, on_server_conn_unread_timer, ms, ms);
}

/* Continue after a reply.  False when there is nothing more to do here. */
static bool server_conn_next_request(struct server_conn *c, bool more)
{
	server_conn_watch_unread(c);
	if (!c->reply_finished || c->held.len || conn_queued_bytes(c->conn))
		return false;
	if (c->last_request) {
		if (c->complete && !more) {
			conn_shutdown(c->conn);
			server_conn_close(c);
		} else {
			server_conn_linger(c);
		}
		return false;
	}
	server_conn_reset_request(c);
	http_parser_reset(&c->http);
	server_conn_set_timeout(c, c->conf->idle_timeout_ms);
	return true;
}

/* Returns false when nothing more can be done now. */
static bool server_conn_parse_next(struct server_conn *c, struct slice *in)
{
	bool idle = http_parser_is_idle(&c->http);
	struct cay_err err = {};
	struct slice body;
	int r;

	/* answered before all of it was read: reply_write_head() made it the last */
	if (http_parser_has_ended(&c->http) || (c->reply_finished && c->last_request))
		return server_conn_next_request(c, in->n);
	if (c->paused)
		return false;
	r = http_parser_next(&c->http, in, &body, &err);
	if (r < 0) {
		server_conn_fail_last(c, &err);
		return true;
	}
	switch ((enum http_event)r) {
	case HTTP_MORE:
		if (idle && !http_parser_is_idle(&c->http))
			server_conn_set_timeout(c, c->conf->head_timeout_ms);
		return false;
	case HTTP_HEAD_DONE:
		server_conn_set_timeout(c, c->conf->idle_timeout_ms);
		server_conn_begin_request(c);
		return true;
	case HTTP_BODY:
		server_conn_add_body(c, body);
		return true;
	case HTTP_END:
		server_conn_finish_body(c);
		return true;
	}
	return false;
}

/* While paused the peer waits for us, but may leave. */
static void server_conn_update_timer(struct server_conn *c)
{
	bool was = c->watched;

	c->watched = c->paused;
	if (c->paused && !was)
		(void)uv_timer_start(&c->timer, on_server_conn_paused_timer, PAUSED_MS, PAUSED_MS);
	else if (!c->paused && was) {
		if (c->live) /* or it is between requests, with a timer of its own */
			server_conn_set_timeout(c, c->complete ? 0 : c->conf->idle_timeout_ms);
	} else if (c->live && !c->complete && !uv_is_active((uv_handle_t *)&c->timer))
		server_conn_set_timeout(c, c->conf->idle_timeout_ms);
}

/* Fresh bytes are parsed without a copy; only a remainder is kept. */
static void server_conn_parse_input(struct server_conn *c, struct slice fresh)
{
	bool copied = c->in.len;
	size_t n;

	if (copied && buf_append(&c->in, fresh.p, fresh.n) < 0) {
		server_conn_close(c);
		return;
	}
	if (c->pumping || c->closing || c->lingering)
		return;
	c->pumping = true;
	c->unparsed = copied ? (struct slice){ c->in.data, c->in.len } : fresh;
	n = c->unparsed.n;
	while (!c->closing && !c->lingering && server_conn_parse_next(c, &c->unparsed))
		;
	c->pumping = false;
	if (c->closing)
		return;
	if (copied)
		buf_consume(&c->in, n - c->unparsed.n);
	else if (c->unparsed.n && buf_append(&c->in, c->unparsed.p, c->unparsed.n) < 0) {
		server_conn_close(c);
		return;
	}
	c->unparsed = (struct slice){};
	if (!c->in.len) {
		buf_fini(&c->in);
		c->in.max = IN_MAX;
	}
	/* until a reply is sent, read nothing but the end of its request */
	conn_set_reading(c->conn, c->complete || c->lingering ||
					  !(c->paused || (c->reply_finished && c->last_request)));
	if (!c->lingering)
		server_conn_update_timer(c);
}

void server_conn_continue(struct server_conn *c)
{
	server_conn_parse_input(c, (struct slice){});
}

static void on_server_conn_read(struct conn *conn, struct slice bytes)
{
	struct server_conn *c = conn_data(conn);

	if (c->lingering) {
		c->discarded += bytes.n;
		if (c->discarded > LINGER_BYTES)
			server_conn_close(c);
		return;
	}
	/* a raw body may take long; any other has one timeout from its head */
	if (c->live && !c->complete && !c->reply_finished &&
	    (c->is_special || (c->rq.match.op && c->rq.match.op->body == BODY_RAW)))
		server_conn_set_timeout(c, c->conf->idle_timeout_ms);
	/* a client has no reason to send more than a head before our reply */
	if (c->live && c->complete && c->in.len + bytes.n > HTTP_HEAD_MAX)
		server_conn_close(c);
	else
		server_conn_parse_input(c, bytes);
}

static void on_server_conn_end(struct conn *conn, const struct cay_err *err)
{
	if (!err)
		conn_shutdown(conn);
	server_conn_close(conn_data(conn));
}

static void on_server_conn_stuck(struct conn *conn)
{
	server_conn_close(conn_data(conn));
}

static struct server_conn *server_conn_new(struct server *s)
{
	struct server_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	*c = (struct server_conn){ .server = s, .conf = s->conf, .open = 2, .next = s->conns };
	http_parser_init(&c->http, HTTP_KIND_REQUEST);
	c->in.max = IN_MAX;
	c->held.max = server_reply_max(s->conf);
	(void)uv_timer_init(s->listener.handle.loop, &c->timer);
	c->timer.data = c;
	if (s->conns)
		s->conns->prev = c;
	s->conns = c;
	s->n_conns++;
	return c;
}

struct server_conn *server_conn_accept(struct server *s)
{
	static const struct conn_events events = { .read = on_server_conn_read,
						   .end = on_server_conn_end,
						   .sent = on_server_conn_sent,
						   .stuck = on_server_conn_stuck,
						   .closed = on_server_conn_closed };
	struct server_conn *c = server_conn_new(s);
	struct conn_conf conf = { .layer = s->conf->layer,
				  .events = &events,
				  .data = c,
				  .out_max = server_reply_max(s->conf) };

	if (!c)
		return NULL; /* libuv keeps it and accepts no other */
	if (conn_accept(s->shared, &s->listener.stream, &conf, &c->conn) >= 0)
		return c;
	c->open = 1;
	c->closing = true;
	uv_close((uv_handle_t *)&c->timer, on_server_conn_timer_closed);
	return NULL;
}
