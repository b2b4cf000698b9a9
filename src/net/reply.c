/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>

#include "net/server-internal.h"

#define EXTRA_MAX 1024
#define CHUNK_HEAD_MAX 20

static void on_written(uv_write_t *w, int status);

static void flush(struct conn *c)
{
	uv_buf_t b;
	struct buf swap;

	if (c->writing || c->closing || !c->out.len)
		return;
	swap = c->sending;
	c->sending = c->out;
	c->out = swap;
	b = uv_buf_init(c->sending.data, (unsigned)c->sending.len);
	if (uv_write(&c->write, (uv_stream_t *)&c->pipe, &b, 1, on_written) < 0)
		conn_close(c);
	else
		c->writing = true;
}

static void on_written(uv_write_t *w, int status)
{
	struct conn *c = w->data;

	c->writing = false;
	buf_fini(&c->sending);
	c->sending.max = SERVER_OUT_MAX;
	if (status < 0) {
		conn_close(c);
		return;
	}
	flush(c);
	if (c->want_drain && c->live && !c->finished && !c->closing &&
	    request_queued(&c->rq) <= SERVER_OUT_MARK / 2) {
		c->want_drain = false;
		if (c->rq.events && c->rq.events->drain)
			c->rq.events->drain(&c->rq);
	}
	conn_pump(c);
}

/* What the socket takes at once needs no memory of ours; the rest is queued. */
static void send_all(struct conn *c, uv_buf_t *v, unsigned n)
{
	int done = 0;

	if (c->closing)
		return;
	if (!c->writing && !c->out.len) {
		done = uv_try_write((uv_stream_t *)&c->pipe, v, n);
		if (done == UV_EAGAIN)
			done = 0;
		if (done < 0) {
			conn_close(c);
			return;
		}
	}
	for (unsigned i = 0; i < n; i++) {
		size_t skip = (size_t)done < v[i].len ? (size_t)done : v[i].len;

		done -= (int)skip;
		if (buf_add(&c->out, v[i].base + skip, v[i].len - skip) < 0) {
			conn_close(c);
			return;
		}
	}
	flush(c);
}

size_t request_queued(const struct request *rq)
{
	const struct conn *c =
		(const struct conn *)(const void *)((const char *)rq - offsetof(struct conn, rq));

	return c->out.len + (c->writing ? c->sending.len : 0);
}

int request_header(struct request *rq, const char *name, const char *value)
{
	struct conn *c = conn_of(rq);

	c->extra.max = EXTRA_MAX;
	return buf_printf(&c->extra, "%s: %s\r\n", name, value);
}

static const char *reason(int status)
{
	return status < 300 ? "OK" : status < 500 ? "Refused" : "Failed";
}

static int write_head(struct conn *c, int status, const char *media, uint64_t length,
		      struct buf *out)
{
	int r = buf_printf(out, "HTTP/1.1 %d %s\r\nCay-Request: %s\r\n%s", status, reason(status),
			   c->rq.id, buf_str(&c->extra));

	c->chunked = length == REQUEST_LENGTH_UNKNOWN && c->rq.head && c->rq.head->minor == 1;
	/* without chunks only the end of the connection can say where it ends */
	if ((length == REQUEST_LENGTH_UNKNOWN && !c->chunked) || !c->complete)
		c->last = true;
	if (r >= 0 && media)
		r = buf_printf(out, "Content-Type: %s\r\n", media);
	if (r >= 0 && c->chunked)
		r = buf_puts(out, "Transfer-Encoding: chunked\r\n");
	else if (r >= 0 && length != REQUEST_LENGTH_UNKNOWN && status != 204)
		r = buf_printf(out, "Content-Length: %llu\r\n", (unsigned long long)length);
	if (r >= 0 && c->last)
		r = buf_puts(out, "Connection: close\r\n");
	return r < 0 ? r : buf_puts(out, "\r\n");
}

static void finish(struct conn *c)
{
	c->finished = true;
	conn_pump(c);
}

void request_reply(struct request *rq, int status, const char *media, struct buf *body)
{
	struct conn *c = conn_of(rq);
	auto_buf head = BUF_INIT(KIB(4));
	auto_buf content = {};
	size_t n = 0;

	assert(c->live && !c->begun && !c->finished);
	if (body) {
		content = *body;
		*body = (struct buf){};
		n = content.len;
	}
	c->begun = true;
	if (write_head(c, status, media, n, &head) < 0) {
		conn_close(c);
	} else {
		uv_buf_t v[] = { uv_buf_init(head.data, (unsigned)head.len),
				 uv_buf_init(content.data, (unsigned)n) };

		send_all(c, v, n && !c->bodiless ? 2 : 1);
	}
	finish(c);
}

void request_reply_json(struct request *rq, const struct field_table *t, const void *value)
{
	auto_buf body = BUF_INIT(SERVER_OUT_MAX - KIB(4));
	struct jw w = jw_to(&body);
	struct cay_err err = {};
	int r;

	field_encode(t, NULL, value, &w);
	r = jw_done(&w);
	if (r >= 0)
		r = buf_putc(&body, '\n');
	if (r < 0) {
		(void)cay_fail(&err, r == -ENOMEM ? CAY_E_NO_MEMORY : CAY_E_INTERNAL,
			       "the reply could not be written");
		request_fail(rq, &err);
		return;
	}
	request_reply(rq, rq->match.op ? rq->match.op->status : 200, "application/json", &body);
}

void request_fail(struct request *rq, const struct cay_err *err)
{
	conn_fail(conn_of(rq), err, 0);
}

/* allow: bits of the methods that would do. */
void conn_fail(struct conn *c, const struct cay_err *err, unsigned allow)
{
	auto_buf body = BUF_INIT(KIB(8));
	auto_buf methods = BUF_INIT(64);
	struct jw w = jw_to(&body);
	enum cay_code code = err->code == CAY_OK ? CAY_E_INTERNAL : err->code;

	for (unsigned m = 1; m < METHOD_NUM; m++)
		if (allow & 1u << m)
			(void)buf_printf(&methods, "%s%s", methods.len ? ", " : "",
					 op_method_name((enum op_method)m));
	if (methods.len)
		(void)request_header(&c->rq, "Allow", buf_str(&methods));
	op_write_error(err, c->rq.id, NULL, &w);
	if (jw_done(&w) < 0 || buf_putc(&body, '\n') < 0) {
		c->finished = true;
		conn_close(c);
		return;
	}
	request_reply(&c->rq, cay_error_row(code)->http, "application/json", &body);
}

void request_stream(struct request *rq, int status, const char *media, uint64_t length)
{
	struct conn *c = conn_of(rq);
	auto_buf head = BUF_INIT(KIB(4));

	assert(c->live && !c->begun && !c->finished);
	c->begun = true;
	c->left = length;
	if (write_head(c, status, media, length, &head) < 0) {
		conn_close(c);
	} else {
		uv_buf_t v = uv_buf_init(head.data, (unsigned)head.len);

		send_all(c, &v, 1);
	}
}

bool request_write(struct request *rq, const void *p, size_t n)
{
	struct conn *c = conn_of(rq);
	char head[CHUNK_HEAD_MAX];
	char tail[] = "\r\n";
	uv_buf_t v[3] = { {}, uv_buf_init((char *)(uintptr_t)p, (unsigned)n), {} };
	int len;

	assert(c->live && c->begun && !c->finished);
	if (c->closing || !n)
		return c->closing;
	if (c->chunked) {
		len = snprintf(head, sizeof(head), "%zx\r\n", n);
		assert(len > 0 && (size_t)len < sizeof(head));
		v[0] = uv_buf_init(head, (unsigned)len);
		v[2] = uv_buf_init(tail, 2);
		send_all(c, v, 3);
	} else {
		if (c->left != REQUEST_LENGTH_UNKNOWN) {
			assert(n <= c->left);
			c->left -= n;
		}
		send_all(c, v + 1, 1);
	}
	c->want_drain = request_queued(rq) > SERVER_OUT_MARK;
	return c->want_drain || c->closing;
}

void request_end(struct request *rq)
{
	struct conn *c = conn_of(rq);
	char end[] = "0\r\n\r\n";
	uv_buf_t v = uv_buf_init(end, sizeof(end) - 1);

	assert(c->live && c->begun && !c->finished);
	if (c->chunked)
		send_all(c, &v, 1);
	else if (c->left != REQUEST_LENGTH_UNKNOWN && c->left)
		conn_close(c); /* promised more than there is */
	finish(c);
}

void request_abort(struct request *rq)
{
	struct conn *c = conn_of(rq);

	c->finished = true;
	conn_close(c);
}

void request_pause(struct request *rq)
{
	conn_of(rq)->paused = true;
}

void request_resume(struct request *rq)
{
	struct conn *c = conn_of(rq);

	c->paused = false;
	conn_pump(c);
}

uv_loop_t *request_loop(struct request *rq)
{
	return conn_of(rq)->pipe.loop;
}
