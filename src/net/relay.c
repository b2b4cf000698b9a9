/* SPDX-License-Identifier: Apache-2.0 */
#include "net/relay.h"

#include <assert.h>
#include <stdio.h>
#include <sys/socket.h>

#include "net/dial.h"
#include "net/tunnel.h"

#define OUT_MAX (RELAY_MARK + KIB(128)) /* one piece of a body on top of the mark */
#define IN_MAX (2 * CONN_READ)

#define HEAD_MAX (HTTP_HEAD_MAX + KIB(2))
#define REPLY_VALUE_MAX 128
#define CHUNK_HEAD_MAX 20

struct relay {
	struct request *rq;        /* NULL once it is answered or gone */
	struct conn *conn;         /* NULL before it is there and after it is closed */
	struct upstream *upstream; /* NULL: a sandbox */
	struct buf again;          /* the request, when it may be sent once more */
	uv_timer_t timer;
	unsigned open; /* the connection and the timer, while they are not closed */
	bool closing, answered, body_paused, sent;
	bool heard;           /* something came back */
	bool chunked;         /* the request's body goes on in chunks */
	bool upgrade;         /* and it may become a tunnel */
	const char *protocol; /* or something else, in this protocol; lives as long */
	void (*upgraded)(struct request *rq, struct conn *there, struct slice bytes, void *arg);
	uint64_t head_timeout_ms;
	struct buf in; /* of the answer, read and not passed on */
	struct relay_hold *hold;
	void (*done)(void *arg);
	void *arg;
	struct http_parser http; /* last, and not zeroed: it is most of it */
};

/* What the other program is told, and what is believed of its answer. */
struct passed {
	const char *name, *written;
	bool upgrade; /* only with one */
};

static const struct passed request_headers[] = {
	{ "accept", "Accept", false },
	{ "content-type", "Content-Type", false },
	{ "idempotency-key", "Idempotency-Key", false },
	{ "last-event-id", "Last-Event-ID", false },
	{ "sec-websocket-key", "Sec-WebSocket-Key", true },
	{ "sec-websocket-version", "Sec-WebSocket-Version", true },
	{ "sec-websocket-protocol", "Sec-WebSocket-Protocol", true },
	{ "sec-websocket-extensions", "Sec-WebSocket-Extensions", true },
};

static const struct passed reply_headers[] = {
	{ "cay-exec", "Cay-Exec", false },
	{ "cay-offset", "Cay-Offset", false },
	{ "allow", "Allow", false },
	{ "retry-after", "Retry-After", false },
	{ "sec-websocket-accept", "Sec-WebSocket-Accept", true },
	{ "sec-websocket-protocol", "Sec-WebSocket-Protocol", true },
	{ "sec-websocket-extensions", "Sec-WebSocket-Extensions", true },
};

static const char *name(const struct relay *r)
{
	return r->upstream ? "control" : "the sandbox";
}

/* A sandbox that breaks the rules is a stranger, control that does is one of ours
 * that is just ending. */
static enum cay_code fault_code(const struct relay *r)
{
	return r->upstream ? CAY_E_UNAVAILABLE : CAY_E_MISBEHAVED;
}

static void unref(struct relay *r)
{
	if (--r->open)
		return;
	http_fini(&r->http);
	buf_fini(&r->in);
	buf_fini(&r->again);
	if (r->upstream)
		upstream_unref(r->upstream);
	if (r->hold)
		r->hold->relay = NULL;
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
static void end(struct relay *r, const struct cay_err *err)
{
	struct request *rq = cay_take(r->rq);

	shut(r);
	if (rq && r->answered)
		request_abort(rq);
	else if (rq)
		request_fail(rq, err);
}

__attribute__((format(printf, 3, 4))) static void fail(struct relay *r, enum cay_code code,
						       const char *fmt, ...)
{
	struct cay_err err = { .code = code };
	va_list ap;

	va_start(ap, fmt);
	if (vsnprintf(err.msg, sizeof(err.msg), fmt, ap) < 0)
		err.msg[0] = 0;
	va_end(ap);
	end(r, &err);
}

static void on_timeout(uv_timer_t *t)
{
	struct relay *r = t->data;

	fail(r, CAY_E_TIMEOUT, "%s did not answer within %llu ms", name(r),
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

/* The headers in the table, where they are short enough to be what they should be. */
static int pass_headers(struct relay *r, bool upgrade)
{
	const struct http_head *h = &r->http.head;
	char text[REPLY_VALUE_MAX + 1];

	for (size_t i = 0; i < ARRAY_SIZE(reply_headers); i++) {
		struct slice v;

		if (reply_headers[i].upgrade && !upgrade)
			continue;
		v = http_header(h, reply_headers[i].name);
		if (!v.p || !v.n || v.n > REPLY_VALUE_MAX)
			continue;
		memcpy(text, v.p, v.n);
		text[v.n] = 0;
		if (request_header(r->rq, reply_headers[i].written, text) < 0)
			return -ENOBUFS;
	}
	return 0;
}

static void answer_head(struct relay *r)
{
	const struct http_head *h = &r->http.head;
	struct slice media = http_header(h, "content-type");
	char text[REPLY_VALUE_MAX + 1], *type = NULL;

	(void)uv_timer_stop(&r->timer);
	(void)pass_headers(r, false);
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

/* Our part ends here; who waits for our end waits for the tunnel's. */
static void become_tunnel(struct relay *r, struct slice from_there)
{
	auto_buf early = BUF_INIT(IN_MAX);
	struct conn *client, *there;
	struct tunnel *t;

	t = pass_headers(r, true) < 0 ? NULL : tunnel_new(r->timer.loop, r->done, r->arg);
	if (!t) {
		fail(r, CAY_E_NO_MEMORY, "no memory for a tunnel");
		return;
	}
	client = request_upgrade(cay_take(r->rq), &early);
	if (!client) {
		tunnel_free(t);
		shut(r);
		return;
	}
	r->done = NULL;
	if (r->hold)
		*r->hold = (struct relay_hold){ .tunnel = t };
	r->hold = NULL;
	there = cay_take(r->conn);
	r->open--;
	tunnel_start(t, client, (struct slice){ early.data, early.len }, there, from_there);
	shut(r);
}

static void hand_over(struct relay *r, struct slice from_there)
{
	struct request *rq = cay_take(r->rq);

	rq->events = NULL;
	r->done = NULL;
	if (r->hold)
		*r->hold = (struct relay_hold){};
	r->hold = NULL; /* the taker may free it before we are closed */
	r->open--;
	r->upgraded(rq, cay_take(r->conn), from_there, r->arg);
	shut(r);
}

static void go_on(struct relay *r, struct slice from_there)
{
	struct slice asked = r->protocol ? slice_of(r->protocol) : r->rq->head->upgrade;
	struct slice got = r->http.head.upgrade;

	if (asked.n != got.n || strncasecmp(asked.p, got.p, got.n) != 0)
		fail(r, fault_code(r), "%s goes on in a protocol nobody asked for", name(r));
	else if (r->upgraded)
		hand_over(r, from_there);
	else
		become_tunnel(r, from_there);
}

/* All of the answer is there; whatever is said behind it, nobody asked. */
static void answered(struct relay *r, size_t behind)
{
	struct request *rq = cay_take(r->rq);

	if (r->upstream && r->http.head.keep_alive && r->sent && !behind && !conn_queued(r->conn)) {
		upstream_give(r->upstream, cay_take(r->conn));
		r->open--;
	}
	shut(r);
	request_end(rq);
}

/* One event of the answer; false when there is no more to do now. */
static bool step(struct relay *r, struct slice *in)
{
	struct cay_err err = {};
	struct slice body;
	int e = http_next(&r->http, in, &body, &err);

	if (e < 0) {
		fail(r, fault_code(r), "the answer of %s: %s", name(r), err.msg);
		return false;
	}
	switch ((enum http_event)e) {
	case HTTP_MORE:
		return false;
	case HTTP_HEAD_DONE:
		if (r->http.head.status == 101)
			go_on(r, *in);
		else
			answer_head(r);
		return true;
	case HTTP_BODY:
		if (request_write(r->rq, body.p, body.n)) {
			conn_read(r->conn, false);
			return false;
		}
		return true;
	case HTTP_END:
		answered(r, in->n);
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
	struct relay *r = conn_data(conn);

	r->heard = true;
	pass_on(r, bytes);
}

static void connect_and_send(struct relay *r, const char *path, const struct buf *head);

static void on_end(struct conn *conn, const struct cay_err *)
{
	static const struct conn_events nobody = {};
	struct relay *r = conn_data(conn);

	/* it was closed while our request was on its way: nobody has read it */
	if (r->again.len && !r->heard && r->rq) {
		auto_buf head = r->again;

		r->again = (struct buf){};
		conn_give(cay_take(r->conn), &nobody, NULL, 0);
		conn_close(conn);
		r->open--;
		connect_and_send(r, NULL, &head);
		return;
	}
	fail(r, fault_code(r), "%s closed the connection without an answer", name(r));
}

static bool printable(const char *s)
{
	for (; *s; s++)
		if (*s < ' ' || *s > '~')
			return false;
	return true;
}

static int add(struct buf *b, const char *key, struct slice v)
{
	int e = buf_puts(b, key);

	if (e >= 0)
		e = buf_puts(b, ": ");
	if (e >= 0)
		e = buf_add(b, v.p, v.n);
	return e < 0 ? e : buf_puts(b, "\r\n");
}

static int write_headers(const struct relay *r, const struct http_head *h, struct buf *b)
{
	int e = 0;

	for (size_t i = 0; i < h->n_headers && e >= 0; i++)
		for (size_t k = 0; k < ARRAY_SIZE(request_headers) && e >= 0; k++) {
			const struct passed *p = &request_headers[k];

			if ((!p->upgrade || (r->upgrade && !r->protocol)) &&
			    http_eq(h->headers[i].name, p->name))
				e = add(b, p->written, h->headers[i].value);
		}
	if (e >= 0 && r->upgrade)
		e = add(b, "Upgrade", r->protocol ? slice_of(r->protocol) : h->upgrade);
	return e;
}

static int write_head(struct relay *r, const struct relay_conf *conf, struct buf *b)
{
	const struct http_head *h = r->rq->head;
	int e = buf_reserve(b, 512);

	if (e >= 0)
		e = buf_add(b, h->method.p, h->method.n);
	if (e >= 0)
		e = buf_putc(b, ' ');
	if (e >= 0)
		e = buf_add(b, h->target.p, h->target.n);
	if (e >= 0)
		e = buf_puts(b, r->upstream ? " HTTP/1.1\r\nHost: control\r\n"
					    : " HTTP/1.1\r\nHost: sandbox\r\n");
	if (e >= 0 && r->upgrade)
		e = buf_puts(b, "Connection: upgrade\r\n");
	else if (e >= 0 && !r->upstream)
		e = buf_puts(b, "Connection: close\r\n");
	if (e >= 0)
		e = write_headers(r, h, b);
	for (size_t i = 0; i < conf->n_headers && e >= 0; i++)
		e = printable(conf->headers[i].value)
			    ? add(b, conf->headers[i].name, slice_of(conf->headers[i].value))
			    : -EINVAL;
	r->chunked = h->framing == HTTP_CHUNKED;
	if (e >= 0 && r->chunked)
		e = buf_puts(b, "Transfer-Encoding: chunked\r\n");
	else if (e >= 0 && h->framing == HTTP_LENGTH)
		e = buf_printf(b, "Content-Length: %llu\r\n", (unsigned long long)h->length);
	return e < 0 ? e : buf_puts(b, "\r\n");
}

/* It takes no more of the body; the rest is read away, and its answer is what counts. */
static void on_stuck(struct conn *conn)
{
	struct relay *r = conn_data(conn);

	if (r->body_paused && r->rq) {
		r->body_paused = false;
		request_resume(r->rq);
	}
}

static void connect_and_send(struct relay *r, const char *path, const struct buf *head)
{
	static const struct conn_events events = { .read = on_read,
						   .end = on_end,
						   .sent = on_sent,
						   .stuck = on_stuck,
						   .closed = on_conn_closed };
	struct conn_conf conf = { .events = &events, .data = r, .out_max = OUT_MAX };
	uv_buf_t b = uv_buf_init(head->data, (unsigned)head->len);
	bool kept = false;
	int e;

	if (r->upstream) {
		e = upstream_take(r->upstream, request_room(r->rq), !path, &conf, &r->conn, &kept);
	} else {
		e = dial_now(path);
		if (e >= 0)
			e = conn_take(request_room(r->rq), e, AF_UNIX, &conf, &r->conn);
	}
	if (e < 0) {
		fail(r, CAY_E_UNAVAILABLE, "%s does not listen: %s", name(r), uv_strerror(e));
		return;
	}
	r->open++;
	if (kept && slice_eq(r->rq->head->method, SLICE("GET")) &&
	    r->rq->head->framing == HTTP_EMPTY) {
		r->again.max = HEAD_MAX;
		if (buf_add(&r->again, head->data, head->len) < 0)
			buf_fini(&r->again); /* then it is not sent again */
	}
	conn_read(r->conn, true);
	pass_in(r, &b, 1);
	if (!r->closing)
		wait_for_head(r);
}

void relay_start(struct request *rq, const struct relay_conf *conf)
{
	static const struct request_events events = {
		.body = on_body, .body_end = on_body_end, .drain = on_drain, .gone = on_gone
	};
	struct relay *r = malloc(sizeof(*r));
	auto_buf head = BUF_INIT(HEAD_MAX);
	struct cay_err err = {};

	if (!r) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory to pass a request on");
		request_fail(rq, &err);
		if (conf->done)
			conf->done(conf->arg);
		return;
	}
	memset(r, 0, offsetof(struct relay, http));
	r->rq = rq;
	r->open = 1;
	r->head_timeout_ms = conf->head_timeout_ms;
	r->hold = conf->hold;
	if (r->hold)
		r->hold->relay = r;
	r->done = conf->done;
	r->arg = conf->arg;
	r->in.max = IN_MAX;
	r->sent = rq->head->framing == HTTP_EMPTY;
	r->upgrade = conf->upgrade && rq->head->upgrade.n;
	r->protocol = conf->protocol;
	r->upgraded = conf->upgraded;
	r->upstream = conf->upstream;
	if (r->upstream)
		upstream_ref(r->upstream);
	http_init(&r->http, HTTP_KIND_RESPONSE);
	if (r->upgrade)
		http_allow_upgrade(&r->http);
	(void)uv_timer_init(request_loop(rq), &r->timer);
	r->timer.data = r;
	rq->data = r;
	rq->events = &events;
	if (write_head(r, conf, &head) < 0)
		fail(r, CAY_E_HEADERS, "the headers are too long to pass on");
	else
		connect_and_send(r, conf->path ? conf->path : "", &head);
}

void relay_cut(struct relay_hold *h, const struct cay_err *why)
{
	if (h->tunnel)
		tunnel_cut(h->tunnel);
	else if (h->relay)
		end(h->relay, why);
}
