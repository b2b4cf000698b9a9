/* SPDX-License-Identifier: Apache-2.0 */
#include "net/call.h"

#define IN_MAX (2 * CONN_READ)

struct call {
	struct conn *conn; /* NULL once it was given back or is closed */
	struct upstream *upstream;
	struct conn_room *room;
	uv_timer_t timer;
	unsigned open; /* the connection and the timer */
	bool closing, heard;
	struct buf again; /* the request, while it may be sent once more */
	struct buf in, body;
	uint64_t timeout_ms;
	void (*done)(void *arg, const struct http_head *head, struct slice body,
		     const struct cay_err *err);
	void *arg;
	struct http_parser http; /* last, and not zeroed: it is most of it */
};

static void unref(struct call *c)
{
	if (--c->open)
		return;
	http_fini(&c->http);
	buf_fini(&c->again);
	buf_fini(&c->in);
	buf_fini(&c->body);
	upstream_unref(c->upstream);
	free(c);
}

static void on_timer_closed(uv_handle_t *h)
{
	unref(h->data);
}

static void on_conn_closed(struct conn *conn)
{
	struct call *c = conn_data(conn);

	c->conn = NULL;
	unref(c);
}

static void shut(struct call *c)
{
	if (c->closing)
		return;
	c->closing = true;
	if (c->conn)
		conn_close(c->conn);
	uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}

/* Over; the callers of this touch nothing of it afterwards but closing. */
static void tell(struct call *c, const struct http_head *head, const struct cay_err *err)
{
	if (c->closing)
		return;
	shut(c);
	c->done(c->arg, head, (struct slice){ buf_str(&c->body), c->body.len }, err);
}

static void fail(struct call *c, enum cay_code code, const char *what)
{
	struct cay_err err = {};

	(void)cay_fail(&err, code, "%s", what);
	tell(c, NULL, &err);
}

static void on_timeout(uv_timer_t *t)
{
	fail(t->data, CAY_E_TIMEOUT, "no answer came in time");
}

/* All of the answer is there; what stands behind it nobody asked for. */
static void whole(struct call *c, size_t behind)
{
	if (c->http.head.keep_alive && !behind && !conn_queued(c->conn)) {
		upstream_give(c->upstream, cay_take(c->conn));
		c->open--;
	}
	tell(c, &c->http.head, NULL);
}

/* One event; false when there is no more to do now. */
static bool step(struct call *c, struct slice *in)
{
	struct cay_err err = {};
	struct slice body;
	int e = http_next(&c->http, in, &body, &err);

	if (e < 0) {
		fail(c, CAY_E_UNAVAILABLE, "the answer is not HTTP");
		return false;
	}
	switch ((enum http_event)e) {
	case HTTP_MORE:
		return false;
	case HTTP_HEAD_DONE:
		return true;
	case HTTP_BODY:
		if (buf_add(&c->body, body.p, body.n) < 0)
			fail(c, CAY_E_TOO_LARGE, "the answer is longer than what is taken");
		return !c->closing;
	case HTTP_END:
		whole(c, in->n);
		return false;
	}
	return false;
}

static void on_read(struct conn *conn, struct slice bytes)
{
	struct call *c = conn_data(conn);
	struct slice in;

	c->heard = true;
	if (buf_add(&c->in, bytes.p, bytes.n) < 0) {
		fail(c, CAY_E_NO_MEMORY, "no memory for an answer");
		return;
	}
	in = (struct slice){ c->in.data, c->in.len };
	while (!c->closing && step(c, &in))
		;
	if (!c->closing)
		buf_consume(&c->in, c->in.len - in.n);
}

static int connect_and_send(struct call *c, bool fresh, struct slice head, struct slice body);

static void on_end(struct conn *conn, const struct cay_err *)
{
	static const struct conn_events nobody = {};
	struct call *c = conn_data(conn);

	/* a kept one was closed while our request was on its way: nobody has read it */
	if (c->again.len && !c->heard) {
		auto_buf head = c->again;

		c->again = (struct buf){};
		conn_give(cay_take(c->conn), &nobody, NULL, 0);
		conn_close(conn);
		c->open--;
		if (connect_and_send(c, true, (struct slice){ head.data, head.len },
				     (struct slice){}) >= 0)
			return;
	}
	fail(c, CAY_E_UNAVAILABLE, "the connection was closed without an answer");
}

static int connect_and_send(struct call *c, bool fresh, struct slice head, struct slice body)
{
	static const struct conn_events events = { .read = on_read,
						   .end = on_end,
						   .closed = on_conn_closed };
	struct conn_conf conf = { .events = &events,
				  .data = c,
				  .out_max = head.n + body.n + CONN_READ };
	uv_buf_t v[2] = { uv_buf_init((char *)(uintptr_t)head.p, (unsigned)head.n),
			  uv_buf_init((char *)(uintptr_t)body.p, (unsigned)body.n) };
	bool kept = false;
	int r = upstream_take(c->upstream, c->room, fresh, &conf, &c->conn, &kept);

	if (r < 0)
		return r;
	c->open++;
	if (!kept)
		buf_fini(&c->again);
	conn_read(c->conn, true);
	/* who closes says so by its end, which comes from the loop */
	r = conn_write(c->conn, v, body.n ? 2 : 1);
	return r == -ENOMEM || r == -ENOBUFS ? r : 0;
}

int call_start(const struct call_conf *conf, struct call **ret, struct cay_err *err)
{
	struct call *c = malloc(sizeof(*c));
	int r = 0;

	if (!c)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory for a call");
	memset(c, 0, offsetof(struct call, http));
	c->upstream = conf->upstream;
	c->room = conf->room;
	c->open = 1;
	c->in = BUF_INIT(IN_MAX);
	c->body = BUF_INIT(conf->answer_max);
	c->done = conf->done;
	c->arg = conf->arg;
	upstream_ref(c->upstream);
	http_init(&c->http, HTTP_KIND_RESPONSE);
	(void)uv_timer_init(upstream_loop(c->upstream), &c->timer);
	c->timer.data = c;
	if (conf->again) {
		c->again.max = conf->head.n;
		r = buf_add(&c->again, conf->head.p, conf->head.n);
	}
	if (r >= 0)
		r = connect_and_send(c, false, conf->head, conf->body);
	if (r < 0) {
		shut(c);
		return cay_fail_sys(err, CAY_E_UNAVAILABLE, -r, "nobody listens");
	}
	if (conf->timeout_ms)
		(void)uv_timer_start(&c->timer, on_timeout, conf->timeout_ms, 0);
	*ret = c;
	return 0;
}

void call_cancel(struct call *c)
{
	shut(c);
}
