/* SPDX-License-Identifier: Apache-2.0 */
#include "net/client-call.h"

#include <stdio.h>

#define IN_MAX (2 * CONN_READ)
#define MORE_MARK KIB(64)

struct client_call {
	struct conn *conn; /* NULL once it is returned to the pool or closed */
	struct upstream_pool *upstream;
	struct conn_shared *shared;
	uv_timer_t timer;
	unsigned open; /* handles not closed yet: the connection and the timer */
	bool closing, got_bytes;
	struct buf retry_request; /* the request, while it may be retried */
	struct buf in, body;
	bool stopped; /* by a piece */
	bool sending; /* the last chunk of the request is to come */
	bool (*piece)(void *arg, const struct http_head *head, struct slice bytes);
	bool (*received)(void *arg, size_t held);
	void (*drain)(void *arg);
	void (*done)(void *arg, const struct http_head *head, struct slice body,
		     const struct cay_err *err);
	void *arg;
	struct http_parser http; /* last, and not zeroed: it is most of the struct */
};

static void client_call_unref(struct client_call *c)
{
	if (--c->open)
		return;
	http_parser_fini(&c->http);
	buf_fini(&c->retry_request);
	buf_fini(&c->in);
	buf_fini(&c->body);
	upstream_pool_unref(c->upstream);
	free(c);
}

static void on_client_call_timer_closed(uv_handle_t *h)
{
	client_call_unref(h->data);
}

static void on_client_call_conn_closed(struct conn *conn)
{
	struct client_call *c = conn_data(conn);

	c->conn = NULL;
	client_call_unref(c);
}

void client_call_cancel(struct client_call *c)
{
	if (c->closing)
		return;
	c->closing = true;
	if (c->conn)
		conn_close(c->conn);
	uv_close((uv_handle_t *)&c->timer, on_client_call_timer_closed);
}

/* The callers may touch nothing but `closing` afterwards. */
static void client_call_finish(struct client_call *c, const struct http_head *head,
			       const struct cay_err *err)
{
	if (c->closing)
		return;
	client_call_cancel(c);
	c->done(c->arg, head, (struct slice){ buf_str(&c->body), c->body.len }, err);
}

static void client_call_fail(struct client_call *c, enum cay_code code, const char *what)
{
	struct cay_err err = {};

	(void)cay_fail(&err, code, "%s", what);
	client_call_finish(c, NULL, &err);
}

static void on_client_call_timeout(uv_timer_t *t)
{
	client_call_fail(t->data, CAY_E_TIMEOUT, "no reply in time");
}

/* The reply is complete; a connection with bytes after it is not reused. */
static void client_call_complete(struct client_call *c, size_t excess)
{
	if (c->http.head.keep_alive && !excess && !c->sending && !conn_queued_bytes(c->conn)) {
		upstream_pool_return(c->upstream, cay_take(c->conn));
		c->open--;
	}
	client_call_finish(c, &c->http.head, NULL);
}

static bool client_call_pass_piece(struct client_call *c, struct slice bytes)
{
	c->stopped = c->piece(c->arg, &c->http.head, bytes);
	if (c->stopped && !c->closing)
		conn_set_reading(c->conn, false);
	return !c->closing && !c->stopped;
}

/* Returns false when nothing more can be done now. */
static bool client_call_parse_next(struct client_call *c, struct slice *in)
{
	struct cay_err err = {};
	struct slice body;
	int e = http_parser_next(&c->http, in, &body, &err);

	if (e < 0) {
		client_call_fail(c, CAY_E_UNAVAILABLE, "the reply is not HTTP");
		return false;
	}
	switch ((enum http_event)e) {
	case HTTP_MORE:
		return false;
	case HTTP_HEAD_DONE:
		return !c->piece || c->http.head.status >= 400 ||
		       client_call_pass_piece(c, (struct slice){});
	case HTTP_BODY:
		if (c->piece && c->http.head.status < 400)
			return client_call_pass_piece(c, body);
		if (buf_append(&c->body, body.p, body.n) < 0)
			client_call_fail(c, CAY_E_TOO_LARGE, "the reply is too large");
		else if (c->received && !c->received(c->arg, c->body.len))
			client_call_fail(c, CAY_E_RATE,
					 "the replies of this tenant take too much memory");
		return !c->closing;
	case HTTP_END:
		client_call_complete(c, in->n);
		return false;
	}
	return false;
}

static void client_call_parse(struct client_call *c)
{
	struct slice in = { c->in.data, c->in.len };

	while (!c->closing && client_call_parse_next(c, &in))
		;
	if (!c->closing)
		buf_consume(&c->in, c->in.len - in.n);
}

static void on_client_call_read(struct conn *conn, struct slice bytes)
{
	struct client_call *c = conn_data(conn);

	c->got_bytes = true;
	if (buf_append(&c->in, bytes.p, bytes.n) < 0) {
		client_call_fail(c, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	client_call_parse(c);
}

void client_call_resume(struct client_call *c)
{
	if (!c->stopped || c->closing)
		return;
	c->stopped = false;
	conn_set_reading(c->conn, true);
	client_call_parse(c);
}

bool client_call_write(struct client_call *c, struct slice bytes)
{
	char head[32], tail[] = "\r\n";
	int n = snprintf(head, sizeof(head), "%zx\r\n", bytes.n);
	uv_buf_t v[3] = { uv_buf_init(head, n > 0 ? (unsigned)n : 0),
			  uv_buf_init((char *)(uintptr_t)bytes.p, (unsigned)bytes.n),
			  uv_buf_init(tail, 2) };

	c->sending = bytes.n;
	/* a program may reply without reading the whole body; its reply counts */
	(void)conn_write(c->conn, v, 3);
	return conn_queued_bytes(c->conn) > MORE_MARK;
}

static void on_client_call_sent(struct conn *conn)
{
	struct client_call *c = conn_data(conn);

	if (c->drain && !c->closing && conn_queued_bytes(conn) <= MORE_MARK / 2)
		c->drain(c->arg);
}

static int client_call_connect_and_send(struct client_call *c, bool fresh, struct slice head,
					struct slice body);

static void on_client_call_conn_end(struct conn *conn, const struct cay_err *)
{
	struct client_call *c = conn_data(conn);

	/* a pooled connection was closed before it read the request, so a retry is safe */
	if (c->retry_request.len && !c->got_bytes) {
		auto_buf head = c->retry_request;

		c->retry_request = (struct buf){};
		conn_discard(cay_take(c->conn));
		c->open--;
		if (client_call_connect_and_send(c, true, (struct slice){ head.data, head.len },
						 (struct slice){}) >= 0)
			return;
	}
	client_call_fail(c, CAY_E_UNAVAILABLE, "the connection was closed without a reply");
}

static int client_call_connect_and_send(struct client_call *c, bool fresh, struct slice head,
					struct slice body)
{
	static const struct conn_events events = { .read = on_client_call_read,
						   .end = on_client_call_conn_end,
						   .sent = on_client_call_sent,
						   .stuck = on_client_call_sent,
						   .closed = on_client_call_conn_closed };
	struct conn_conf conf = { .events = &events,
				  .data = c,
				  .out_max = head.n + body.n + MORE_MARK + 2 * CONN_READ };
	uv_buf_t v[2] = { uv_buf_init((char *)(uintptr_t)head.p, (unsigned)head.n),
			  uv_buf_init((char *)(uintptr_t)body.p, (unsigned)body.n) };
	bool kept = false;
	int r = upstream_pool_acquire(c->upstream, c->shared, fresh, &conf, &c->conn, &kept);

	if (r < 0)
		return r;
	c->open++;
	if (!kept)
		buf_fini(&c->retry_request);
	conn_set_reading(c->conn, true);
	/* a peer that closes is reported by `end`, from the loop */
	r = conn_write(c->conn, v, body.n ? 2 : 1);
	return r == -ENOMEM || r == -ENOBUFS ? r : 0;
}

int client_call_start(const struct client_call_conf *conf, struct client_call **ret,
		      struct cay_err *err)
{
	struct client_call *c = malloc(sizeof(*c));
	int r = 0;

	if (!c)
		return cay_no_memory(err);
	memset(c, 0, offsetof(struct client_call, http));
	c->upstream = conf->upstream;
	c->shared = conf->shared;
	c->open = 1;
	c->in = BUF_INIT(IN_MAX);
	c->received = conf->received;
	c->piece = conf->piece;
	c->sending = conf->more;
	c->drain = conf->drain;
	c->body = BUF_INIT(conf->answer_max);
	c->done = conf->done;
	c->arg = conf->arg;
	upstream_pool_ref(c->upstream);
	http_parser_init(&c->http, HTTP_KIND_RESPONSE);
	(void)uv_timer_init(upstream_pool_loop(c->upstream), &c->timer);
	c->timer.data = c;
	if (conf->can_retry) {
		c->retry_request.max = conf->head.n;
		r = buf_append(&c->retry_request, conf->head.p, conf->head.n);
	}
	if (r >= 0)
		r = client_call_connect_and_send(c, false, conf->head, conf->body);
	if (r < 0) {
		client_call_cancel(c);
		return cay_fail_sys(err, CAY_E_UNAVAILABLE, -r, "connect");
	}
	if (conf->timeout_ms)
		(void)uv_timer_start(&c->timer, on_client_call_timeout, conf->timeout_ms, 0);
	*ret = c;
	return 0;
}
