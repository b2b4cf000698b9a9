/* SPDX-License-Identifier: Apache-2.0 */
#include "net/forward.h"

#include <assert.h>

#include "net/dial.h"
#include "net/tunnel.h"

#define CHUNK_HEAD_MAX 20

static void forward_unref(struct forward *c)
{
	if (--c->open)
		return;
	http_parser_fini(&c->http);
	buf_fini(&c->in);
	if (c->handle)
		c->handle->forward = NULL;
	if (c->done)
		c->done(c->arg);
	c->callbacks->freed(c);
}

static void on_forward_timer_closed(uv_handle_t *h)
{
	forward_unref(h->data);
}

static void on_forward_conn_closed(struct conn *conn)
{
	struct forward *c = conn_data(conn);

	c->conn = NULL;
	forward_unref(c);
}

void forward_close(struct forward *c)
{
	if (c->closing)
		return;
	c->closing = true;
	if (c->conn)
		conn_close(c->conn);
	uv_close((uv_handle_t *)&c->timer, on_forward_timer_closed);
}

void forward_fail_with_error(struct forward *c, const struct cay_err *err)
{
	struct request *rq = cay_take(c->rq);

	forward_close(c);
	if (rq && c->answered)
		request_abort(rq);
	else if (rq)
		request_fail(rq, err);
}

void forward_fail(struct forward *c, enum cay_code code, const char *fmt, ...)
{
	struct cay_err err = {};
	va_list ap;

	va_start(ap, fmt);
	(void)cay_vfail(&err, code, fmt, ap);
	va_end(ap);
	forward_fail_with_error(c, &err);
}

void forward_cancel(struct forward_handle *h, const struct cay_err *why)
{
	if (h->tunnel)
		tunnel_close(h->tunnel);
	else if (h->forward)
		forward_fail_with_error(h->forward, why);
}

static void on_forward_timeout(uv_timer_t *t)
{
	struct forward *c = t->data;

	c->callbacks->timed_out(c);
}

static void forward_start_head_timer(struct forward *c)
{
	if (c->ready && c->sent && !conn_queued_bytes(c->conn) && !c->answered &&
	    c->head_timeout_ms)
		(void)uv_timer_start(&c->timer, on_forward_timeout, c->head_timeout_ms, 0);
}

static void forward_resume_body(struct forward *c)
{
	if (!c->body_paused || !c->ready || !c->rq)
		return;
	c->body_paused = false;
	request_resume_body(c->rq);
}

static void on_forward_conn_sent(struct conn *conn)
{
	struct forward *c = conn_data(conn);

	forward_start_head_timer(c);
	if (conn_queued_bytes(conn) <= FORWARD_MARK / 2)
		forward_resume_body(c);
}

/* It reads no more of the body: drain the rest, the reply still counts. */
static void on_forward_conn_stuck(struct conn *conn)
{
	forward_resume_body(conn_data(conn));
}

/* A program may reply and close without reading the whole body; its reply counts. */
static void forward_write_pieces(struct forward *c, const uv_buf_t *v, unsigned n)
{
	int r = conn_write(c->conn, v, n);

	if (r == -ENOMEM || r == -ENOBUFS)
		forward_fail(c, CAY_E_NO_MEMORY, "out of memory");
}

void forward_write(struct forward *c, const struct buf *bytes)
{
	uv_buf_t v = uv_buf_init(bytes->data, (unsigned)bytes->len);

	forward_write_pieces(c, &v, 1);
}

void forward_pause_body(struct forward *c)
{
	if (c->sent)
		return;
	c->body_paused = true;
	request_pause_body(c->rq);
}

void forward_start_body(struct forward *c)
{
	c->ready = true;
	forward_start_head_timer(c);
	forward_resume_body(c);
}

static void on_forward_request_body(struct request *rq, struct slice bytes)
{
	struct forward *c = rq->data;
	char head[CHUNK_HEAD_MAX], tail[] = "\r\n";
	uv_buf_t v[3] = { {}, uv_buf_init((char *)(uintptr_t)bytes.p, (unsigned)bytes.n), {} };

	assert(c->ready); /* the body is paused until then */
	if (c->chunked) {
		int n = snprintf(head, sizeof(head), "%zx\r\n", bytes.n);

		assert(n > 0 && (size_t)n < sizeof(head));
		v[0] = uv_buf_init(head, (unsigned)n);
		v[2] = uv_buf_init(tail, 2);
		forward_write_pieces(c, v, 3);
	} else {
		forward_write_pieces(c, v + 1, 1);
	}
	if (c->rq && conn_queued_bytes(c->conn) > FORWARD_MARK)
		forward_pause_body(c);
}

static void on_forward_request_body_end(struct request *rq)
{
	struct forward *c = rq->data;
	char last[] = "0\r\n\r\n";
	uv_buf_t v = uv_buf_init(last, sizeof(last) - 1);

	c->sent = true;
	if (c->chunked)
		forward_write_pieces(c, &v, 1);
	if (!c->closing)
		forward_start_head_timer(c);
}

static void on_forward_client_gone(struct request *rq)
{
	struct forward *c = rq->data;

	c->rq = NULL;
	forward_close(c);
}

void forward_start_reply(struct forward *c, int status, const char *type, uint64_t length)
{
	(void)uv_timer_stop(&c->timer);
	c->answered = true;
	request_start_stream(c->rq, status, type, length);
}

void forward_finish(struct forward *c)
{
	struct request *rq = cay_take(c->rq);

	forward_close(c);
	request_end_stream(rq);
}

struct conn *forward_release_conn(struct forward *c)
{
	c->open--;
	return cay_take(c->conn);
}

struct request *forward_release_request(struct forward *c)
{
	c->done = NULL;
	if (c->handle)
		*c->handle = (struct forward_handle){};
	c->handle = NULL; /* the new owner may free it before we are closed */
	return cay_take(c->rq);
}

/* The tunnel takes over our done callback. */
void forward_become_tunnel(struct forward *c, struct slice from_there)
{
	auto_buf early = BUF_INIT(FORWARD_IN_MAX);
	struct forward_handle *hold = c->handle;
	struct conn *client;
	struct tunnel *t;

	(void)uv_timer_stop(&c->timer);
	t = tunnel_new(c->timer.loop, c->done, c->arg);
	if (!t) {
		forward_fail(c, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	client = request_upgrade(cay_take(c->rq), &early);
	if (!client) {
		tunnel_free(t);
		forward_close(c);
		return;
	}
	(void)forward_release_request(c);
	if (hold)
		hold->tunnel = t;
	tunnel_start(t, client, (struct slice){ early.data, early.len }, forward_release_conn(c),
		     from_there);
	forward_close(c);
}

/* Returns false when nothing more can be done now. */
static bool forward_parse_reply_event(struct forward *c, struct slice *in)
{
	struct cay_err err = {};
	struct slice body;
	int e = http_parser_next(&c->http, in, &body, &err);

	if (e < 0) {
		c->callbacks->malformed(c, err.msg);
		return false;
	}
	switch ((enum http_event)e) {
	case HTTP_MORE:
		return false;
	case HTTP_HEAD_DONE:
		c->callbacks->head(c, in);
		return true;
	case HTTP_BODY:
		if (request_write_stream(c->rq, body.p, body.n)) {
			conn_set_reading(c->conn, false);
			return false;
		}
		return true;
	case HTTP_END:
		c->callbacks->complete(c, in->n);
		return false;
	}
	return false;
}

/* Fresh bytes are passed on without a copy; only a remainder is kept. */
static void forward_parse_reply(struct forward *c, struct slice fresh)
{
	bool copied = c->in.len;
	struct slice in = fresh;
	int r = 0;

	if (copied) {
		r = buf_append(&c->in, fresh.p, fresh.n);
		in = (struct slice){ c->in.data, c->in.len };
	}
	while (r >= 0 && !c->closing && forward_parse_reply_event(c, &in))
		;
	if (c->closing)
		return;
	if (r >= 0 && !copied)
		r = buf_append(&c->in, in.p, in.n);
	else if (r >= 0)
		buf_consume(&c->in, c->in.len - in.n);
	if (r < 0) {
		forward_fail(c, CAY_E_NO_MEMORY, "out of memory");
	} else if (!c->in.len) {
		buf_fini(&c->in);
		c->in.max = FORWARD_IN_MAX;
	}
}

static void on_forward_client_drain(struct request *rq)
{
	struct forward *c = rq->data;

	conn_set_reading(c->conn, true);
	forward_parse_reply(c, (struct slice){});
}

static void on_forward_conn_read(struct conn *conn, struct slice bytes)
{
	struct forward *c = conn_data(conn);

	c->got_bytes = true;
	forward_parse_reply(c, bytes);
}

static void on_forward_conn_end(struct conn *conn, const struct cay_err *err)
{
	struct forward *c = conn_data(conn);

	c->callbacks->closed(c, err);
}

const struct conn_events forward_conn_events = { .read = on_forward_conn_read,
						 .end = on_forward_conn_end,
						 .sent = on_forward_conn_sent,
						 .stuck = on_forward_conn_stuck,
						 .closed = on_forward_conn_closed };

void forward_set_conn(struct forward *c, struct conn *conn)
{
	c->conn = conn;
	c->open++;
	conn_set_reading(conn, true);
}

int forward_dial(struct forward *c, const char *path)
{
	struct conn_conf conf = FORWARD_CONN_CONF(c);
	struct conn *conn;
	int r = dial_unix_connect(path);

	if (r >= 0)
		r = conn_open_fd(request_conn_shared(c->rq), r, AF_UNIX, &conf, &conn);
	if (r >= 0)
		forward_set_conn(c, conn);
	return r;
}

void *forward_new(size_t size, struct request *rq, const struct forward_callbacks *kind,
		  struct forward_handle *hold, void (*done)(void *arg), void *arg)
{
	static const struct request_events events = { .body = on_forward_request_body,
						      .body_end = on_forward_request_body_end,
						      .drain = on_forward_client_drain,
						      .gone = on_forward_client_gone };

	struct forward *c = malloc(size);

	if (!c) {
		request_no_memory(rq);
		if (done)
			done(arg);
		return NULL;
	}
	memset(c, 0, offsetof(struct forward, http));
	c->rq = rq;
	c->callbacks = kind;
	c->open = 1;
	c->handle = hold;
	if (hold)
		hold->forward = c;
	c->done = done;
	c->arg = arg;
	c->in.max = FORWARD_IN_MAX;
	c->sent = rq->head->framing == HTTP_EMPTY;
	http_parser_init(&c->http, HTTP_KIND_RESPONSE);
	(void)uv_timer_init(request_loop(rq), &c->timer);
	c->timer.data = c;
	rq->data = c;
	rq->events = &events;
	return c;
}
