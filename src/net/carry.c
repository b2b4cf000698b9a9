/* SPDX-License-Identifier: Apache-2.0 */
#include "net/carry.h"

#include <assert.h>
#include <stdio.h>

#include "net/tunnel.h"

#define CHUNK_HEAD_MAX 20

static void unref(struct carry *c)
{
	if (--c->open)
		return;
	http_fini(&c->http);
	buf_fini(&c->in);
	if (c->hold)
		c->hold->carry = NULL;
	if (c->done)
		c->done(c->arg);
	c->kind->freed(c);
}

static void on_timer_closed(uv_handle_t *h)
{
	unref(h->data);
}

static void on_conn_closed(struct conn *conn)
{
	struct carry *c = conn_data(conn);

	c->conn = NULL;
	unref(c);
}

void carry_shut(struct carry *c)
{
	if (c->closing)
		return;
	c->closing = true;
	if (c->conn)
		conn_close(c->conn);
	uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}

void carry_end(struct carry *c, const struct cay_err *err)
{
	struct request *rq = cay_take(c->rq);

	carry_shut(c);
	if (rq && c->answered)
		request_abort(rq);
	else if (rq)
		request_fail(rq, err);
}

void carry_fail(struct carry *c, enum cay_code code, const char *fmt, ...)
{
	struct cay_err err = { .code = code };
	va_list ap;

	va_start(ap, fmt);
	if (vsnprintf(err.msg, sizeof(err.msg), fmt, ap) < 0)
		err.msg[0] = 0;
	va_end(ap);
	carry_end(c, &err);
}

void carry_cut(struct carry_hold *h, const struct cay_err *why)
{
	if (h->tunnel)
		tunnel_cut(h->tunnel);
	else if (h->carry)
		carry_end(h->carry, why);
}

/* The request's body, towards the other program. */

static void on_timeout(uv_timer_t *t)
{
	struct carry *c = t->data;

	c->kind->late(c);
}

static void wait_for_head(struct carry *c)
{
	if (c->ready && c->sent && !conn_queued(c->conn) && !c->answered && c->head_timeout_ms)
		(void)uv_timer_start(&c->timer, on_timeout, c->head_timeout_ms, 0);
}

static void resume(struct carry *c)
{
	if (!c->body_paused || !c->ready || !c->rq)
		return;
	c->body_paused = false;
	request_resume(c->rq);
}

static void on_sent(struct conn *conn)
{
	struct carry *c = conn_data(conn);

	wait_for_head(c);
	if (conn_queued(conn) <= CARRY_MARK / 2)
		resume(c);
}

/* It takes no more of the body; the rest is read away, and its answer is what counts. */
static void on_stuck(struct conn *conn)
{
	resume(conn_data(conn));
}

/* Who answers without reading all of it closes; its answer is what counts. */
static void pass_in(struct carry *c, const uv_buf_t *v, unsigned n)
{
	int r = conn_write(c->conn, v, n);

	if (r == -ENOMEM || r == -ENOBUFS)
		carry_fail(c, CAY_E_NO_MEMORY, "no memory to pass a request on");
}

void carry_write(struct carry *c, const struct buf *bytes)
{
	uv_buf_t v = uv_buf_init(bytes->data, (unsigned)bytes->len);

	pass_in(c, &v, 1);
}

void carry_hold_body(struct carry *c)
{
	if (c->sent)
		return;
	c->body_paused = true;
	request_pause(c->rq);
}

void carry_ready(struct carry *c)
{
	c->ready = true;
	wait_for_head(c);
	resume(c);
}

static void on_body(struct request *rq, struct slice bytes)
{
	struct carry *c = rq->data;
	char head[CHUNK_HEAD_MAX], tail[] = "\r\n";
	uv_buf_t v[3] = { {}, uv_buf_init((char *)(uintptr_t)bytes.p, (unsigned)bytes.n), {} };

	assert(c->ready); /* it is paused until then */
	if (c->chunked) {
		int n = snprintf(head, sizeof(head), "%zx\r\n", bytes.n);

		assert(n > 0 && (size_t)n < sizeof(head));
		v[0] = uv_buf_init(head, (unsigned)n);
		v[2] = uv_buf_init(tail, 2);
		pass_in(c, v, 3);
	} else {
		pass_in(c, v + 1, 1);
	}
	if (c->rq && conn_queued(c->conn) > CARRY_MARK) {
		c->body_paused = true;
		request_pause(rq);
	}
}

static void on_body_end(struct request *rq)
{
	struct carry *c = rq->data;
	char last[] = "0\r\n\r\n";
	uv_buf_t v = uv_buf_init(last, sizeof(last) - 1);

	c->sent = true;
	if (c->chunked)
		pass_in(c, &v, 1);
	if (!c->closing)
		wait_for_head(c);
}

static void on_gone(struct request *rq)
{
	struct carry *c = rq->data;

	c->rq = NULL;
	carry_shut(c);
}

/* The answer, towards the client. */

void carry_answer(struct carry *c, int status, const char *type, uint64_t length)
{
	(void)uv_timer_stop(&c->timer);
	c->answered = true;
	request_stream(c->rq, status, type, length);
}

void carry_finish(struct carry *c)
{
	struct request *rq = cay_take(c->rq);

	carry_shut(c);
	request_end(rq);
}

struct conn *carry_take_conn(struct carry *c)
{
	c->open--;
	return cay_take(c->conn);
}

struct request *carry_take_request(struct carry *c)
{
	c->done = NULL;
	if (c->hold)
		*c->hold = (struct carry_hold){};
	c->hold = NULL; /* the taker may free it before we are closed */
	return cay_take(c->rq);
}

/* Our part ends here; who waits for our end waits for the tunnel's. */
void carry_tunnel(struct carry *c, struct slice from_there)
{
	auto_buf early = BUF_INIT(CARRY_IN_MAX);
	struct carry_hold *hold = c->hold;
	struct conn *client;
	struct tunnel *t;

	(void)uv_timer_stop(&c->timer);
	t = tunnel_new(c->timer.loop, c->done, c->arg);
	if (!t) {
		carry_fail(c, CAY_E_NO_MEMORY, "no memory for a tunnel");
		return;
	}
	client = request_upgrade(cay_take(c->rq), &early);
	if (!client) {
		tunnel_free(t);
		carry_shut(c);
		return;
	}
	(void)carry_take_request(c);
	if (hold)
		hold->tunnel = t;
	tunnel_start(t, client, (struct slice){ early.data, early.len }, carry_take_conn(c),
		     from_there);
	carry_shut(c);
}

/* One event of the answer; false when there is no more to do now. */
static bool step(struct carry *c, struct slice *in)
{
	struct cay_err err = {};
	struct slice body;
	int e = http_next(&c->http, in, &body, &err);

	if (e < 0) {
		c->kind->broken(c, err.msg);
		return false;
	}
	switch ((enum http_event)e) {
	case HTTP_MORE:
		return false;
	case HTTP_HEAD_DONE:
		c->kind->head(c, in);
		return true;
	case HTTP_BODY:
		if (request_write(c->rq, body.p, body.n)) {
			conn_read(c->conn, false);
			return false;
		}
		return true;
	case HTTP_END:
		c->kind->whole(c, in->n);
		return false;
	}
	return false;
}

/* Passed on from where it lies; only what must wait is copied. */
static void pass_on(struct carry *c, struct slice fresh)
{
	bool copied = c->in.len;
	struct slice in = fresh;
	int r = 0;

	if (copied) {
		r = buf_add(&c->in, fresh.p, fresh.n);
		in = (struct slice){ c->in.data, c->in.len };
	}
	while (r >= 0 && !c->closing && step(c, &in))
		;
	if (c->closing)
		return;
	if (r >= 0 && !copied)
		r = buf_add(&c->in, in.p, in.n);
	else if (r >= 0)
		buf_consume(&c->in, c->in.len - in.n);
	if (r < 0) {
		carry_fail(c, CAY_E_NO_MEMORY, "no memory to pass an answer on");
	} else if (!c->in.len) {
		buf_fini(&c->in);
		c->in.max = CARRY_IN_MAX;
	}
}

static void on_drain(struct request *rq)
{
	struct carry *c = rq->data;

	conn_read(c->conn, true);
	pass_on(c, (struct slice){});
}

static void on_read(struct conn *conn, struct slice bytes)
{
	struct carry *c = conn_data(conn);

	c->heard = true;
	pass_on(c, bytes);
}

static void on_end(struct conn *conn, const struct cay_err *err)
{
	struct carry *c = conn_data(conn);

	c->kind->closed(c, err);
}

const struct conn_events carry_events = {
	.read = on_read, .end = on_end, .sent = on_sent, .stuck = on_stuck, .closed = on_conn_closed
};

void carry_on(struct carry *c, struct conn *conn)
{
	c->conn = conn;
	c->open++;
	conn_read(conn, true);
}

void carry_init(struct carry *c, struct request *rq, const struct carry_kind *kind,
		struct carry_hold *hold, void (*done)(void *arg), void *arg)
{
	static const struct request_events events = {
		.body = on_body, .body_end = on_body_end, .drain = on_drain, .gone = on_gone
	};

	memset(c, 0, offsetof(struct carry, http));
	c->rq = rq;
	c->kind = kind;
	c->open = 1;
	c->hold = hold;
	if (hold)
		hold->carry = c;
	c->done = done;
	c->arg = arg;
	c->in.max = CARRY_IN_MAX;
	c->sent = rq->head->framing == HTTP_EMPTY;
	http_init(&c->http, HTTP_KIND_RESPONSE);
	(void)uv_timer_init(request_loop(rq), &c->timer);
	c->timer.data = c;
	rq->data = c;
	rq->events = &events;
}
