/* SPDX-License-Identifier: Apache-2.0 */
#include "net/relay.h"

#include <assert.h>
#include <stdio.h>

#include "net/dial.h"

#define OUT_MAX (RELAY_MARK + KIB(128)) /* one piece of a body on top of the mark */
#define IN_MAX (2 * CONN_READ)

struct relay {
	struct request *rq; /* NULL once it is answered or gone */
	struct conn *conn;  /* NULL before it is there and after it is closed */
	uv_timer_t timer;
	unsigned open; /* the connection and the timer, while they are not closed */
	bool closing, answered, body_paused, sent;
	bool chunked; /* the request's body goes on in chunks */
	uint64_t head_timeout_ms;
	struct buf in; /* of the answer, read and not passed on */
	struct http_parser http;
	void (*done)(void *arg);
	void *arg;
};

/* What the program inside is told, and what is believed of its answer. */
static const char *const request_headers[] = { "Accept", "Content-Type" };
static const char *const reply_headers[] = { "cay-exec", "cay-offset", "allow", "retry-after" };
static const char *const reply_names[] = { "Cay-Exec", "Cay-Offset", "Allow", "Retry-After" };
static_assert(ARRAY_SIZE(reply_headers) == ARRAY_SIZE(reply_names));
#define REPLY_VALUE_MAX 128
#define CHUNK_HEAD_MAX 20

static void unref(struct relay *r)
{
	if (--r->open)
		return;
	http_fini(&r->http);
	buf_fini(&r->in);
	if (r->done)
		r->done(r->arg);
	free(r);
}

static void on_timer_closed(uv_handle_t *h)
{
	unref(h->data);
}

static void on_conn_closed(struct conn *conn)
{
	struct relay *r = conn_data(conn);

	r->conn = NULL;
	unref(r);
}

static void shut(struct relay *r)
{
	if (r->closing)
		return;
	r->closing = true;
	if (r->conn)
		conn_close(r->conn);
	uv_close((uv_handle_t *)&r->timer, on_timer_closed);
}

/* Over, and the client must hear of it. */
__attribute__((format(printf, 3, 4))) static void fail(struct relay *r, enum cay_code code,
						       const char *fmt, ...)
{
	struct request *rq = cay_take(r->rq);
	struct cay_err err = { .code = code };
	va_list ap;

	va_start(ap, fmt);
	if (vsnprintf(err.msg, sizeof(err.msg), fmt, ap) < 0)
		err.msg[0] = 0;
	va_end(ap);
	shut(r);
	if (!rq)
		return;
	if (r->answered)
		request_abort(rq);
	else
		request_fail(rq, &err);
}

static void on_timeout(uv_timer_t *t)
{
	struct relay *r = t->data;

	fail(r, CAY_E_TIMEOUT, "the sandbox did not answer within %llu ms",
	     (unsigned long long)r->head_timeout_ms);
}

static void wait_for_head(struct relay *r)
{
	if (r->sent && !conn_queued(r->conn) && !r->answered && r->head_timeout_ms)
		(void)uv_timer_start(&r->timer, on_timeout, r->head_timeout_ms, 0);
}

static void on_sent(struct conn *conn)
{
	struct relay *r = conn_data(conn);

	wait_for_head(r);
	if (r->body_paused && r->rq && conn_queued(conn) <= RELAY_MARK / 2) {
		r->body_paused = false;
		request_resume(r->rq);
	}
}

/* The request's body, towards the sandbox. */

/* Who answers without reading all of it closes; its answer is what counts. */
static void pass_in(struct relay *r, const uv_buf_t *v, unsigned n)
{
	int e = conn_write(r->conn, v, n);

	if (e == -ENOMEM || e == -ENOBUFS)
		fail(r, CAY_E_NO_MEMORY, "no memory to pass a request on");
}

static void on_body(struct request *rq, struct slice bytes)
{
	struct relay *r = rq->data;
	char head[CHUNK_HEAD_MAX], tail[] = "\r\n";
	uv_buf_t v[3] = { {}, uv_buf_init((char *)(uintptr_t)bytes.p, (unsigned)bytes.n), {} };

	if (r->chunked) {
		int n = snprintf(head, sizeof(head), "%zx\r\n", bytes.n);

		assert(n > 0 && (size_t)n < sizeof(head));
		v[0] = uv_buf_init(head, (unsigned)n);
		v[2] = uv_buf_init(tail, 2);
		pass_in(r, v, 3);
	} else {
		pass_in(r, v + 1, 1);
	}
	if (r->rq && conn_queued(r->conn) > RELAY_MARK) {
		r->body_paused = true;
		request_pause(rq);
	}
}

static void on_body_end(struct request *rq)
{
	struct relay *r = rq->data;
	char end[] = "0\r\n\r\n";
	uv_buf_t v = uv_buf_init(end, sizeof(end) - 1);

	r->sent = true;
	if (r->chunked)
		pass_in(r, &v, 1);
	if (!r->closing)
		wait_for_head(r);
}

static void on_gone(struct request *rq)
{
	struct relay *r = rq->data;

	r->rq = NULL;
	shut(r);
}

/* The answer, towards the client. */

static void answer_head(struct relay *r)
{
	const struct http_head *h = &r->http.head;
	struct slice media = http_header(h, "content-type");
	char text[REPLY_VALUE_MAX + 1], *type = NULL;

	(void)uv_timer_stop(&r->timer);
	for (size_t i = 0; i < ARRAY_SIZE(reply_headers); i++) {
		struct slice v = http_header(h, reply_headers[i]);

		if (!v.p || !v.n || v.n > REPLY_VALUE_MAX)
			continue;
		memcpy(text, v.p, v.n);
		text[v.n] = 0;
		if (request_header(r->rq, reply_names[i], text) < 0)
			break;
	}
	if (media.n && media.n <= REPLY_VALUE_MAX) {
		memcpy(text, media.p, media.n);
		text[media.n] = 0;
		type = text;
	}
	r->answered = true;
	request_stream(r->rq, (int)h->status, type,
		       h->framing == HTTP_CHUNKED  ? REQUEST_LENGTH_UNKNOWN
		       : h->framing == HTTP_LENGTH ? h->length
						   : 0);
}

/* One event of the answer; false when there is no more to do now. */
static bool step(struct relay *r, struct slice *in)
{
	struct cay_err err = {};
	struct slice body;
	int e = http_next(&r->http, in, &body, &err);

	if (e < 0) {
		fail(r, CAY_E_MISBEHAVED, "the sandbox's answer: %s", err.msg);
		return false;
	}
	switch ((enum http_event)e) {
	case HTTP_MORE:
		return false;
	case HTTP_HEAD_DONE:
		answer_head(r);
		return true;
	case HTTP_BODY:
		if (request_write(r->rq, body.p, body.n)) {
			conn_read(r->conn, false);
			return false;
		}
		return true;
	case HTTP_END:
		/* whatever it says behind its answer, nobody asked */
		shut(r);
		request_end(cay_take(r->rq));
		return false;
	}
	return false;
}

/* Passed on from where it lies; only what must wait is copied. */
static void pass_on(struct relay *r, struct slice fresh)
{
	bool copied = r->in.len;
	struct slice in = fresh;
	int e = 0;

	if (copied) {
		e = buf_add(&r->in, fresh.p, fresh.n);
		in = (struct slice){ r->in.data, r->in.len };
	}
	while (e >= 0 && !r->closing && step(r, &in))
		;
	if (r->closing)
		return;
	if (e >= 0 && !copied)
		e = buf_add(&r->in, in.p, in.n);
	else if (e >= 0)
		buf_consume(&r->in, r->in.len - in.n);
	if (e < 0) {
		fail(r, CAY_E_NO_MEMORY, "no memory to pass an answer on");
	} else if (!r->in.len) {
		buf_fini(&r->in);
		r->in.max = IN_MAX;
	}
}

static void on_drain(struct request *rq)
{
	struct relay *r = rq->data;

	conn_read(r->conn, true);
	pass_on(r, (struct slice){});
}

static void on_read(struct conn *conn, struct slice bytes)
{
	pass_on(conn_data(conn), bytes);
}

static void on_end(struct conn *conn, const struct cay_err *)
{
	fail(conn_data(conn), CAY_E_MISBEHAVED,
	     "the sandbox closed the connection without an answer");
}

static int write_head(struct relay *r, const struct http_head *h, struct buf *b)
{
	int e = buf_printf(b, "%.*s %.*s HTTP/1.1\r\nHost: sandbox\r\nConnection: close\r\n",
			   (int)h->method.n, h->method.p, (int)h->target.n, h->target.p);

	for (size_t i = 0; i < h->n_headers && e >= 0; i++)
		for (size_t k = 0; k < ARRAY_SIZE(request_headers) && e >= 0; k++) {
			struct slice v = h->headers[i].value;

			if (strlen(request_headers[k]) == h->headers[i].name.n &&
			    strncasecmp(request_headers[k], h->headers[i].name.p,
					h->headers[i].name.n) == 0)
				e = buf_printf(b, "%s: %.*s\r\n", request_headers[k], (int)v.n,
					       v.p);
		}
	r->chunked = h->framing == HTTP_CHUNKED;
	if (e >= 0 && r->chunked)
		e = buf_puts(b, "Transfer-Encoding: chunked\r\n");
	else if (e >= 0 && h->framing == HTTP_LENGTH)
		e = buf_printf(b, "Content-Length: %llu\r\n", (unsigned long long)h->length);
	return e < 0 ? e : buf_puts(b, "\r\n");
}

static void start(struct relay *r, const char *path)
{
	static const struct conn_events events = {
		.read = on_read, .end = on_end, .sent = on_sent, .closed = on_conn_closed
	};
	struct conn_conf conf = { .events = &events, .data = r, .out_max = OUT_MAX };
	auto_buf head = BUF_INIT(HTTP_HEAD_MAX + KIB(1));
	uv_buf_t b;
	int e;

	if (write_head(r, r->rq->head, &head) < 0) {
		fail(r, CAY_E_HEADERS, "the headers are too long to pass on");
		return;
	}
	e = dial_now(path);
	if (e >= 0)
		e = conn_take(request_room(r->rq), e, &conf, &r->conn);
	if (e < 0) {
		fail(r, CAY_E_UNAVAILABLE, "the sandbox does not listen: %s", uv_strerror(e));
		return;
	}
	r->open++;
	conn_read(r->conn, true);
	b = uv_buf_init(head.data, (unsigned)head.len);
	pass_in(r, &b, 1);
}

void relay_start(struct request *rq, const struct relay_conf *conf)
{
	static const struct request_events events = {
		.body = on_body, .body_end = on_body_end, .drain = on_drain, .gone = on_gone
	};
	struct relay *r = calloc(1, sizeof(*r));
	struct cay_err err = {};

	if (!r) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory to pass a request on");
		request_fail(rq, &err);
		if (conf->done)
			conf->done(conf->arg);
		return;
	}
	r->rq = rq;
	r->open = 1;
	r->head_timeout_ms = conf->head_timeout_ms;
	r->done = conf->done;
	r->arg = conf->arg;
	r->in.max = IN_MAX;
	http_init(&r->http, HTTP_KIND_RESPONSE);
	(void)uv_timer_init(request_loop(rq), &r->timer);
	r->timer.data = r;
	rq->data = r;
	rq->events = &events;
	start(r, conf->path);
}
