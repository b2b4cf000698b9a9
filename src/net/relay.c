/* SPDX-License-Identifier: Apache-2.0 */
#include "net/relay.h"

#include <assert.h>
#include <stdio.h>

#include "net/dial.h"

#define SCRATCH KIB(64)
#define OUT_MAX (RELAY_MARK + KIB(128)) /* one piece of a body on top of the mark */

struct relay {
	struct request *rq; /* NULL once it is answered or gone */
	uv_pipe_t pipe;
	uv_timer_t timer;
	uv_connect_t connect;
	uv_write_t write;
	unsigned open;
	bool connected, closing, writing, reading, answered, body_paused, sent;
	bool chunked; /* the request's body goes on in chunks */
	uint64_t head_timeout_ms;
	struct buf out, sending;
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

static void on_closed(uv_handle_t *h)
{
	struct relay *r = h->data;

	if (--r->open)
		return;
	http_fini(&r->http);
	buf_fini(&r->out);
	buf_fini(&r->sending);
	buf_fini(&r->in);
	if (r->done)
		r->done(r->arg);
	free(r);
}

static void shut(struct relay *r)
{
	if (r->closing)
		return;
	r->closing = true;
	uv_close((uv_handle_t *)&r->pipe, on_closed);
	uv_close((uv_handle_t *)&r->timer, on_closed);
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

static void on_written(uv_write_t *w, int status);

static void flush(struct relay *r)
{
	struct buf swap;
	uv_buf_t b;

	if (!r->connected || r->writing || r->closing || !r->out.len)
		return;
	swap = r->sending;
	r->sending = r->out;
	r->out = swap;
	b = uv_buf_init(r->sending.data, (unsigned)r->sending.len);
	r->writing = true;
	if (uv_write(&r->write, (uv_stream_t *)&r->pipe, &b, 1, on_written) < 0)
		fail(r, CAY_E_UNAVAILABLE, "the sandbox does not listen");
}

static size_t queued(const struct relay *r)
{
	return r->out.len + (r->writing ? r->sending.len : 0);
}

static void on_written(uv_write_t *w, int status)
{
	struct relay *r = w->data;

	r->writing = false;
	buf_clear(&r->sending);
	/* who answers without reading all of it closes; its answer is what counts */
	if (status < 0 || r->closing)
		return;
	flush(r);
	if (r->sent && !queued(r) && !r->answered && r->head_timeout_ms)
		(void)uv_timer_start(&r->timer, on_timeout, r->head_timeout_ms, 0);
	if (r->body_paused && r->rq && queued(r) <= RELAY_MARK / 2) {
		r->body_paused = false;
		request_resume(r->rq);
	}
}

/* The request's body, towards the sandbox. */

static void on_body(struct request *rq, struct slice bytes)
{
	struct relay *r = rq->data;
	int e = 0;

	if (r->chunked)
		e = buf_printf(&r->out, "%zx\r\n", bytes.n);
	if (e >= 0)
		e = buf_add(&r->out, bytes.p, bytes.n);
	if (e >= 0 && r->chunked)
		e = buf_puts(&r->out, "\r\n");
	if (e < 0) {
		fail(r, CAY_E_NO_MEMORY, "no memory to pass a request on");
		return;
	}
	flush(r);
	if (r->rq && queued(r) > RELAY_MARK) {
		r->body_paused = true;
		request_pause(rq);
	}
}

static void on_body_end(struct request *rq)
{
	struct relay *r = rq->data;

	if (r->chunked && buf_puts(&r->out, "0\r\n\r\n") < 0) {
		fail(r, CAY_E_NO_MEMORY, "no memory to pass a request on");
		return;
	}
	r->sent = true;
	flush(r);
	if (!queued(r) && !r->answered && r->head_timeout_ms)
		(void)uv_timer_start(&r->timer, on_timeout, r->head_timeout_ms, 0);
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

static void set_reading(struct relay *r, bool on);

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
			set_reading(r, false);
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

static void pass_on(struct relay *r)
{
	struct slice in = { r->in.data, r->in.len };

	while (!r->closing && step(r, &in))
		;
	buf_consume(&r->in, r->in.len - in.n);
}

static void on_drain(struct request *rq)
{
	struct relay *r = rq->data;

	set_reading(r, true);
	pass_on(r);
}

static void on_alloc(uv_handle_t *h, size_t, uv_buf_t *ret)
{
	struct relay *r = h->data;

	*ret = buf_reserve(&r->in, SCRATCH) < 0 ? uv_buf_init(NULL, 0)
						: uv_buf_init(r->in.data + r->in.len, SCRATCH);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *)
{
	struct relay *r = stream->data;

	if (n == 0)
		return;
	if (n == UV_ENOBUFS) {
		fail(r, CAY_E_NO_MEMORY, "no memory to pass an answer on");
	} else if (n < 0) {
		fail(r, CAY_E_MISBEHAVED, "the sandbox closed the connection without an answer");
	} else {
		r->in.len += (size_t)n;
		r->in.data[r->in.len] = 0;
		pass_on(r);
	}
}

static void set_reading(struct relay *r, bool on)
{
	if (r->closing || on == r->reading)
		return;
	r->reading = on;
	if (!on)
		(void)uv_read_stop((uv_stream_t *)&r->pipe);
	else if (uv_read_start((uv_stream_t *)&r->pipe, on_alloc, on_read) < 0)
		fail(r, CAY_E_MISBEHAVED, "the sandbox's connection cannot be read");
}

static void on_connect(uv_connect_t *c, int status)
{
	struct relay *r = c->data;

	if (r->closing)
		return;
	if (status < 0) {
		fail(r, CAY_E_UNAVAILABLE, "the sandbox does not listen: %s", uv_strerror(status));
		return;
	}
	r->connected = true;
	set_reading(r, true);
	flush(r);
}

static int write_head(struct relay *r, const struct http_head *h)
{
	struct buf *b = &r->out;
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

void relay_start(struct request *rq, const struct relay_conf *conf)
{
	static const struct request_events events = {
		.body = on_body, .body_end = on_body_end, .drain = on_drain, .gone = on_gone
	};
	struct relay *r = calloc(1, sizeof(*r));
	struct cay_err err = {};
	int e;

	if (!r) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory to pass a request on");
		request_fail(rq, &err);
		if (conf->done)
			conf->done(conf->arg);
		return;
	}
	*r = (struct relay){ .rq = rq,
			     .open = 2,
			     .head_timeout_ms = conf->head_timeout_ms,
			     .done = conf->done,
			     .arg = conf->arg };
	r->out.max = r->sending.max = OUT_MAX;
	r->in.max = 2 * SCRATCH;
	http_init(&r->http, HTTP_KIND_RESPONSE);
	(void)uv_pipe_init(request_loop(rq), &r->pipe, 0);
	(void)uv_timer_init(request_loop(rq), &r->timer);
	r->pipe.data = r->timer.data = r->connect.data = r->write.data = r;
	rq->data = r;
	rq->events = &events;
	if (write_head(r, rq->head) < 0) {
		fail(r, CAY_E_HEADERS, "the headers are too long to pass on");
		return;
	}
	e = dial(&r->pipe, conf->path, &r->connect, on_connect);
	if (e < 0)
		fail(r, CAY_E_UNAVAILABLE, "the sandbox does not listen: %s", uv_strerror(e));
}
