/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <sys/socket.h>

#include "net/server-internal.h"

#define EXTRA_MAX (HTTP_HEAD_MAX + KIB(2)) /* those of a server that is proxied */
#define HEAD_ROOM 512
#define CHUNK_HEAD_MAX 20
#define HELD_MAX KIB(4)
#define PIECES_MAX 3
#define REST_MAX KIB(64)

static void gather(struct client *c, const uv_buf_t *v, unsigned n)
{
	int r = 0;

	for (unsigned i = 0; i < n && r >= 0; i++)
		r = buf_add(&c->held, v[i].base, v[i].len);
	if (r < 0)
		client_close(c);
}

/* What is held goes first, in the same system call. */
static void send_all(struct client *c, const uv_buf_t *v, unsigned n)
{
	uv_buf_t all[1 + PIECES_MAX];
	unsigned k = 0;

	if (c->closing)
		return;
	if (c->waits) {
		gather(c, v, n);
		return;
	}
	if (c->held.len)
		all[k++] = uv_buf_init(c->held.data, (unsigned)c->held.len);
	for (unsigned i = 0; i < n && i < PIECES_MAX; i++)
		if (v[i].len)
			all[k++] = v[i];
	if (k && conn_write(c->conn, all, k) < 0)
		client_close(c);
	buf_fini(&c->held);
	c->held.max = SERVER_OUT_MAX;
}

void client_flush(struct client *c)
{
	send_all(c, NULL, 0);
}

/* Soon; small pieces wait for the next one as long as the loop has something to do. */
static void send_soon(struct client *c, const uv_buf_t *v, unsigned n)
{
	size_t sum = c->held.len;

	for (unsigned i = 0; i < n; i++)
		sum += v[i].len;
	if (sum > HELD_MAX) {
		send_all(c, v, n);
		return;
	}
	gather(c, v, n);
	if (!c->closing)
		client_hold(c);
}

void client_sent(struct client *c)
{
	if (c->want_drain && c->live && !c->finished && !c->closing &&
	    request_queued(&c->rq) <= SERVER_OUT_MARK / 2) {
		c->want_drain = false;
		if (c->rq.events && c->rq.events->drain)
			c->rq.events->drain(&c->rq);
	}
	client_pump(c);
}

size_t request_queued(const struct request *rq)
{
	const struct client *c = (const struct client *)(const void *)((const char *)rq -
								       offsetof(struct client, rq));

	return c->held.len + (c->conn ? conn_queued(c->conn) : 0);
}

int request_header(struct request *rq, const char *name, const char *value)
{
	struct client *c = client_of(rq);

	c->extra.max = EXTRA_MAX;
	return buf_printf(&c->extra, "%s: %s\r\n", name, value);
}

int request_header_of(struct request *rq, struct slice name, struct slice value)
{
	struct client *c = client_of(rq);

	c->extra.max = EXTRA_MAX;
	return buf_printf(&c->extra, "%.*s: %.*s\r\n", (int)name.n, name.p, (int)value.n, value.p);
}

static const char *reason(int status)
{
	return status < 300 ? "OK" : status < 500 ? "Refused" : "Failed";
}

static int more(struct buf *b, int r, const char *text)
{
	return r < 0 ? r : buf_puts(b, text);
}

/* Told at its head to come again: the rest of it is soon read away, and the connection is
 * kept.  A new one would cost more than the answer did. */
static bool short_rest(const struct client *c)
{
	const struct http_head *h = c->rq.head;
	const struct op *op = c->rq.match.op;

	return c->code && cay_error_row(c->code)->retryable && op && op->body != BODY_NONE &&
	       !c->handed && h && h->framing == HTTP_LENGTH && h->length <= REST_MAX && !h->expect;
}

/* Into what is held. */
static int write_head(struct client *c, int status, const char *media, uint64_t length)
{
	struct buf *out = &c->held;
	int r = buf_reserve(out, HEAD_ROOM);

	if (r >= 0)
		r = buf_printf(out, "HTTP/1.1 %d ", status);
	r = more(out, r, reason(status));
	r = more(out, r, "\r\nCay-Request: ");
	r = more(out, r, c->rq.id);
	r = more(out, r, "\r\n");
	if (c->extra.len)
		r = more(out, r, buf_str(&c->extra));
	c->chunked = length == REQUEST_LENGTH_UNKNOWN && c->rq.head && c->rq.head->minor == 1;
	/* without chunks only the end of the connection can say where it ends */
	if ((length == REQUEST_LENGTH_UNKNOWN && !c->chunked) || (!c->complete && !short_rest(c)))
		c->last = true;
	if (media) {
		r = more(out, r, "Content-Type: ");
		r = more(out, r, media);
		r = more(out, r, "\r\n");
	}
	if (c->chunked)
		r = more(out, r, "Transfer-Encoding: chunked\r\n");
	else if (r >= 0 && length != REQUEST_LENGTH_UNKNOWN && status != 204 && status != 304)
		r = buf_printf(out, "Content-Length: %llu\r\n", (unsigned long long)length);
	if (c->last)
		r = more(out, r, "Connection: close\r\n");
	return more(out, r, "\r\n");
}

static void finish(struct client *c)
{
	c->finished = true;
	client_pump(c);
}

void request_reply(struct request *rq, int status, const char *media, struct buf *body)
{
	struct client *c = client_of(rq);
	auto_buf content = {};
	size_t n = 0;

	assert(c->live && !c->begun && !c->finished);
	if (body) {
		content = *body;
		*body = (struct buf){};
		n = content.len;
	}
	c->begun = true;
	if (client_answered(c, status, true)) {
		c->waits = true;
		c->open++;
	}
	if (write_head(c, status, media, n) < 0) {
		client_close(c);
	} else {
		uv_buf_t v = uv_buf_init(content.data, (unsigned)n);

		send_all(c, &v, n && !c->bodiless ? 1 : 0);
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

void request_refuse(struct request *rq, enum cay_code code, const char *what)
{
	struct cay_err err = {};

	(void)cay_fail(&err, code, "%s", what);
	request_fail(rq, &err);
}

void request_fail(struct request *rq, const struct cay_err *err)
{
	client_fail(client_of(rq), err, 0);
}

/* allow: bits of the methods that would do. */
void client_fail(struct client *c, const struct cay_err *err, unsigned allow)
{
	auto_buf body = BUF_INIT(KIB(8));
	auto_buf methods = BUF_INIT(64);
	struct jw w = jw_to(&body);
	enum cay_code code = err->code == CAY_OK ? CAY_E_INTERNAL : err->code;

	for (unsigned m = 1; m < METHOD_NUM; m++)
		if (allow & 1u << m)
			(void)buf_printf(&methods, "%s%s", methods.len ? ", " : "",
					 op_method_name((enum op_method)m));
	c->code = code;
	if (code == CAY_E_INTERNAL && c->conf->broken)
		c->conf->broken(&c->rq, err, c->conf->arg);
	if (methods.len)
		(void)request_header(&c->rq, "Allow", buf_str(&methods));
	op_write_error(err, c->rq.id, NULL, &w);
	if (jw_done(&w) < 0 || buf_putc(&body, '\n') < 0) {
		c->finished = true;
		client_close(c);
		return;
	}
	request_reply(&c->rq, cay_error_row(code)->http, "application/json", &body);
}

void request_stream(struct request *rq, int status, const char *media, uint64_t length)
{
	struct client *c = client_of(rq);

	assert(c->live && !c->begun && !c->finished);
	c->begun = true;
	c->left = length;
	(void)client_answered(c, status, false);
	if (write_head(c, status, media, length) < 0)
		client_close(c);
	else
		client_hold(c);
}

bool request_write(struct request *rq, const void *p, size_t n)
{
	struct client *c = client_of(rq);
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
		send_soon(c, v, 3);
	} else {
		if (c->left != REQUEST_LENGTH_UNKNOWN) {
			assert(n <= c->left);
			c->left -= n;
		}
		send_soon(c, v + 1, 1);
	}
	c->want_drain = request_queued(rq) > SERVER_OUT_MARK;
	if (c->want_drain && rq->actor.scope == SCOPE_PUBLIC) /* a stranger reads, or leaves */
		client_arm(c, c->conf->idle_timeout_ms);
	return c->want_drain || c->closing;
}

void request_end(struct request *rq)
{
	struct client *c = client_of(rq);
	char end[] = "0\r\n\r\n";
	uv_buf_t v = uv_buf_init(end, sizeof(end) - 1);

	assert(c->live && c->begun && !c->finished);
	send_all(c, &v, c->chunked && !c->bodiless ? 1 : 0);
	if (!c->chunked && !c->bodiless && c->left != REQUEST_LENGTH_UNKNOWN && c->left)
		client_close(c); /* promised more than there is */
	finish(c);
}

void request_abort(struct request *rq)
{
	struct client *c = client_of(rq);

	c->finished = true;
	client_close(c);
}

struct conn *request_upgrade(struct request *rq, struct buf *early)
{
	struct client *c = client_of(rq);
	const struct slice *to = &rq->head->upgrade;
	struct slice rest = c->pumping ? c->rest : (struct slice){ c->in.data, c->in.len };

	assert(c->live && !c->begun && !c->finished && to->n);
	c->begun = true;
	(void)client_answered(c, 101, false);
	if (buf_printf(&c->held,
		       "HTTP/1.1 101 Upgraded\r\nCay-Request: %s\r\n%sConnection: upgrade\r\n"
		       "Upgrade: %.*s\r\n\r\n",
		       rq->id, buf_str(&c->extra), (int)to->n, to->p) < 0 ||
	    buf_add(early, rest.p, rest.n) < 0)
		client_close(c);
	send_all(c, NULL, 0);
	c->finished = true;
	if (c->closing)
		return NULL;
	conn_read(c->conn, false);
	return client_part(c);
}

int request_wire(struct request *rq, struct request_wire *ret)
{
	struct client *c = client_of(rq);

	assert(c->live && !c->begun && !c->finished);
	if (conn_filtered(c->conn))
		return -ENOTSUP;
	if (c->closing || c->held.len || conn_queued(c->conn))
		return -EBUSY;
	*ret = (struct request_wire){
		.fd = conn_fd(c->conn),
		.http = &c->http,
		.rest = c->pumping ? c->rest : (struct slice){ c->in.data, c->in.len },
		.body_max = c->body_max,
	};
	return ret->fd < 0 ? ret->fd : 0;
}

/* Another process has the socket too, so that closing ours ends nothing. */
void request_detach(struct request *rq)
{
	request_abort(rq);
}

void request_pause(struct request *rq)
{
	client_of(rq)->paused = true;
}

void request_resume(struct request *rq)
{
	struct client *c = client_of(rq);

	c->paused = false;
	client_pump(c);
}

void request_release(struct request *rq)
{
	struct client *c = client_of(rq);

	assert(c->waits);
	c->waits = false;
	client_flush(c);
	client_pump(c);
	client_unref(c);
}

int request_peer(struct request *rq, struct ucred *ret)
{
	socklen_t n = sizeof(*ret);
	int fd;

	fd = client_of(rq)->closing ? -EBADF : conn_fd(client_of(rq)->conn);
	if (fd < 0)
		return -EBADF;
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &n) < 0 ? -errno : 0;
}

int request_address(struct request *rq, struct sockaddr_storage *ret)
{
	socklen_t n = sizeof(*ret);
	int fd = client_of(rq)->closing ? -EBADF : conn_fd(client_of(rq)->conn);

	if (fd < 0)
		return -EBADF;
	return getpeername(fd, (struct sockaddr *)ret, &n) < 0 ? -errno : 0;
}

uv_loop_t *request_loop(struct request *rq)
{
	return client_of(rq)->timer.loop;
}
