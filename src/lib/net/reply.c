/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "net/server-internal.h"

#define EXTRA_MAX (HTTP_HEAD_MAX + KIB(2)) /* headers of a proxied server */
#define HEAD_ROOM 512
#define CHUNK_HEAD_MAX 20
#define HELD_MAX KIB(4)
#define PIECES_MAX 3
#define REST_MAX KIB(64)
#define EVENT_MAX KIB(128)

static void reply_hold_bytes(struct server_conn *c, const uv_buf_t *v, unsigned n)
{
	int r = 0;

	for (unsigned i = 0; i < n && r >= 0; i++)
		r = buf_append(&c->held, v[i].base, v[i].len);
	if (r < 0)
		server_conn_close(c);
}

/* Held bytes go first, in the same system call. */
static void reply_send_now(struct server_conn *c, const uv_buf_t *v, unsigned n)
{
	uv_buf_t all[1 + PIECES_MAX];
	unsigned k = 0;

	if (c->closing)
		return;
	if (c->reply_held) {
		reply_hold_bytes(c, v, n);
		return;
	}
	if (c->held.len)
		all[k++] = uv_buf_init(c->held.data, (unsigned)c->held.len);
	for (unsigned i = 0; i < n && i < PIECES_MAX; i++)
		if (v[i].len)
			all[k++] = v[i];
	if (k && conn_write(c->conn, all, k) < 0)
		server_conn_close(c);
	buf_fini(&c->held);
	c->held.max = server_reply_max(c->conf);
	server_conn_count_unread(c);
}

void server_conn_flush(struct server_conn *c)
{
	reply_send_now(c, NULL, 0);
}

/* Small pieces wait for more, until the loop has nothing else to do. */
static void reply_send_soon(struct server_conn *c, const uv_buf_t *v, unsigned n)
{
	size_t sum = c->held.len;

	for (unsigned i = 0; i < n; i++)
		sum += v[i].len;
	if (sum > HELD_MAX) {
		reply_send_now(c, v, n);
		return;
	}
	reply_hold_bytes(c, v, n);
	if (!c->closing)
		server_conn_hold_output(c);
}

void on_server_conn_sent(struct conn *conn)
{
	struct server_conn *c = conn_data(conn);

	server_conn_count_unread(c);
	if (c->want_drain && c->live && !c->reply_finished && !c->closing &&
	    request_queued_bytes(&c->rq) <= SERVER_OUT_MARK / 2) {
		c->want_drain = false;
		if (c->rq.events && c->rq.events->drain)
			c->rq.events->drain(&c->rq);
	}
	server_conn_continue(c);
}

size_t request_queued_bytes(const struct request *rq)
{
	const struct server_conn *c = server_conn_of_request((struct request *)(uintptr_t)rq);

	return c->held.len + (c->conn ? conn_queued_bytes(c->conn) : 0);
}

int request_add_reply_header(struct request *rq, const char *name, const char *value)
{
	struct server_conn *c = server_conn_of_request(rq);

	c->extra_headers.max = EXTRA_MAX;
	return buf_printf(&c->extra_headers, "%s: %s\r\n", name, value);
}

int request_add_reply_header_slice(struct request *rq, struct slice name, struct slice value)
{
	struct server_conn *c = server_conn_of_request(rq);

	c->extra_headers.max = EXTRA_MAX;
	return buf_printf(&c->extra_headers, "%.*s: %.*s\r\n", (int)name.n, name.p, (int)value.n,
			  value.p);
}

static int reply_append_text(struct buf *b, int r, const char *text)
{
	return r < 0 ? r : buf_puts(b, text);
}

/* A request refused at its head as retryable: read the short rest and keep the connection.  A new
 * one would cost more than the reply did. */
static bool reply_request_rest_is_short(const struct server_conn *c)
{
	const struct http_head *h = c->rq.head;
	const struct op *op = c->rq.match.op;

	return c->code && cay_error_row(c->code)->retryable && op && op->body != BODY_NONE &&
	       !c->in_handler && h && h->framing == HTTP_LENGTH && h->length <= REST_MAX &&
	       !h->expect;
}

static int reply_write_head(struct server_conn *c, int status, const char *media, uint64_t length)
{
	const char *reason = status < 300 ? "OK" : status < 500 ? "Refused" : "Failed";
	struct buf *out = &c->held;
	int r = buf_reserve(out, HEAD_ROOM);

	if (r >= 0)
		r = buf_printf(out, "HTTP/1.1 %d ", status);
	r = reply_append_text(out, r, reason);
	r = reply_append_text(out, r, "\r\nCay-Request: ");
	r = reply_append_text(out, r, c->rq.id);
	r = reply_append_text(out, r, "\r\n");
	if (c->extra_headers.len)
		r = reply_append_text(out, r, buf_str(&c->extra_headers));
	c->chunked = length == REQUEST_LENGTH_UNKNOWN && c->rq.head && c->rq.head->minor == 1;
	/* without chunks only closing the connection marks the end */
	if ((length == REQUEST_LENGTH_UNKNOWN && !c->chunked) ||
	    (!c->complete && !reply_request_rest_is_short(c)))
		c->last_request = true;
	if (media) {
		r = reply_append_text(out, r, "Content-Type: ");
		r = reply_append_text(out, r, media);
		r = reply_append_text(out, r, "\r\n");
	}
	if (c->chunked)
		r = reply_append_text(out, r, "Transfer-Encoding: chunked\r\n");
	else if (r >= 0 && length != REQUEST_LENGTH_UNKNOWN && status != 204 && status != 304)
		r = buf_printf(out, "Content-Length: %llu\r\n", (unsigned long long)length);
	if (c->last_request)
		r = reply_append_text(out, r, "Connection: close\r\n");
	return reply_append_text(out, r, "\r\n");
}

static void reply_finish(struct server_conn *c)
{
	c->reply_finished = true;
	server_conn_continue(c);
}

void request_reply(struct request *rq, int status, const char *media, struct buf *body)
{
	struct server_conn *c = server_conn_of_request(rq);
	auto_buf content = {};
	size_t n = 0;

	assert(c->live && !c->reply_begun && !c->reply_finished);
	(void)request_count_held(rq, 0); /* it is in the body now */
	if (body && !server_conn_can_buffer(c, body->len)) {
		buf_fini(body);
		(void)request_add_reply_header(rq, "Retry-After", "1");
		request_failf(rq, CAY_E_RATE, "the tenant's clients have not read their replies");
		return;
	}
	if (body) {
		content = *body;
		*body = (struct buf){};
		n = content.len;
	}
	c->reply_begun = true;
	if (server_conn_report_answer(c, status, true)) {
		c->reply_held = true;
		c->open++;
	}
	if (reply_write_head(c, status, media, n) < 0) {
		server_conn_close(c);
	} else {
		uv_buf_t v = uv_buf_init(content.data, (unsigned)n);

		reply_send_now(c, &v, n && !c->bodiless ? 1 : 0);
	}
	reply_finish(c);
}

void request_reply_json(struct request *rq, const struct field_table *t, const void *value)
{
	auto_buf body = BUF_INIT(server_reply_max(server_conn_of_request(rq)->conf) - KIB(4));
	struct jw w = jw_to(&body);
	int r;

	field_encode(t, NULL, value, &w);
	r = jw_finish(&w);
	if (r >= 0)
		r = buf_putc(&body, '\n');
	if (r < 0) {
		request_failf(rq, r == -ENOMEM ? CAY_E_NO_MEMORY : CAY_E_INTERNAL,
			      "cannot write the reply");
		return;
	}
	request_reply(rq, rq->match.op ? rq->match.op->status : 200, "application/json", &body);
}

void request_failf(struct request *rq, enum cay_code code, const char *fmt, ...)
{
	struct cay_err err = {};
	va_list ap;

	va_start(ap, fmt);
	(void)cay_vfail(&err, code, fmt, ap);
	va_end(ap);
	request_fail(rq, &err);
}

void request_refuse(struct request *rq, enum cay_code code, const char *what)
{
	request_failf(rq, code, "%s", what);
}

void request_refuse_hinted(struct request *rq, enum cay_code code, const char *what,
			   const char *hint)
{
	struct cay_err err = {};

	(void)cay_fail(&err, code, "%s", what);
	cay_err_hint(&err, "%s", hint);
	request_fail(rq, &err);
}

void request_no_memory(struct request *rq)
{
	request_failf(rq, CAY_E_NO_MEMORY, "out of memory");
}

void request_fail(struct request *rq, const struct cay_err *err)
{
	server_conn_reply_error(server_conn_of_request(rq), err, 0);
}

/* allow: a bit for each method the path supports. */
void server_conn_reply_error(struct server_conn *c, const struct cay_err *err, unsigned allow)
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
	c->rq.blame = err->code == CAY_OK ? BLAME_INFRA : cay_err_blame(err);
	if (code == CAY_E_INTERNAL && c->conf->broken)
		c->conf->broken(&c->rq, err, c->conf->arg);
	if (methods.len)
		(void)request_add_reply_header(&c->rq, "Allow", buf_str(&methods));
	if (c->rq.write_error)
		c->rq.write_error(err, &w);
	else
		error_body_write(err, c->rq.id, NULL, &w);
	if (jw_finish(&w) < 0 || buf_putc(&body, '\n') < 0) {
		c->reply_finished = true;
		server_conn_close(c);
		return;
	}
	request_reply(&c->rq, cay_error_row(code)->http, "application/json", &body);
}

void request_start_stream(struct request *rq, int status, const char *media, uint64_t length)
{
	struct server_conn *c = server_conn_of_request(rq);

	assert(c->live && !c->reply_begun && !c->reply_finished);
	c->reply_begun = true;
	c->left = length;
	(void)server_conn_report_answer(c, status, false);
	if (reply_write_head(c, status, media, length) < 0)
		server_conn_close(c);
	else
		server_conn_hold_output(c);
}

bool request_write_stream(struct request *rq, const void *p, size_t n)
{
	struct server_conn *c = server_conn_of_request(rq);
	char head[CHUNK_HEAD_MAX];
	char tail[] = "\r\n";
	uv_buf_t v[3] = { {}, uv_buf_init((char *)(uintptr_t)p, (unsigned)n), {} };
	int len;

	assert(c->live && c->reply_begun && !c->reply_finished);
	if (c->closing || !n)
		return c->closing;
	if (c->chunked) {
		len = snprintf(head, sizeof(head), "%zx\r\n", n);
		assert(len > 0 && (size_t)len < sizeof(head));
		v[0] = uv_buf_init(head, (unsigned)len);
		v[2] = uv_buf_init(tail, 2);
		reply_send_soon(c, v, 3);
	} else {
		if (c->left != REQUEST_LENGTH_UNKNOWN) {
			assert(n <= c->left);
			c->left -= n;
		}
		reply_send_soon(c, v + 1, 1);
	}
	/* who was told to wait gets a drain, though it writes more meanwhile */
	c->want_drain |= request_queued_bytes(rq) > SERVER_OUT_MARK;
	/* an anonymous client must keep reading */
	if (c->want_drain && rq->actor.scope == SCOPE_PUBLIC)
		server_conn_set_timeout(c, c->conf->idle_timeout_ms);
	return c->want_drain || c->closing;
}

int request_write_event(struct request *rq, const struct field_table *t, const void *value,
			bool *ret_full)
{
	auto_buf event = BUF_INIT(EVENT_MAX);
	struct jw w = jw_to(&event);
	int r = buf_puts(&event, "data: ");

	if (r >= 0) {
		field_encode(t, NULL, value, &w);
		r = jw_finish(&w);
	}
	if (r >= 0)
		r = buf_puts(&event, "\n\n");
	if (r >= 0)
		*ret_full = request_write_stream(rq, event.data, event.len);
	return r;
}

void request_end_stream(struct request *rq)
{
	struct server_conn *c = server_conn_of_request(rq);
	char end[] = "0\r\n\r\n";
	uv_buf_t v = uv_buf_init(end, sizeof(end) - 1);

	assert(c->live && c->reply_begun && !c->reply_finished);
	reply_send_now(c, &v, c->chunked && !c->bodiless ? 1 : 0);
	if (!c->chunked && !c->bodiless && c->left != REQUEST_LENGTH_UNKNOWN && c->left)
		server_conn_close(c); /* Content-Length promised more */
	reply_finish(c);
}

void request_abort(struct request *rq)
{
	struct server_conn *c = server_conn_of_request(rq);

	c->reply_finished = true;
	server_conn_close(c);
}

struct conn *request_upgrade(struct request *rq, struct buf *early)
{
	struct server_conn *c = server_conn_of_request(rq);
	const struct slice *to = &rq->head->upgrade;
	struct slice rest = c->pumping ? c->unparsed : (struct slice){ c->in.data, c->in.len };

	assert(c->live && !c->reply_begun && !c->reply_finished && to->n);
	c->reply_begun = true;
	(void)server_conn_report_answer(c, 101, false);
	if (buf_printf(&c->held,
		       "HTTP/1.1 101 Upgraded\r\nCay-Request: %s\r\n%sConnection: upgrade\r\n"
		       "Upgrade: %.*s\r\n\r\n",
		       rq->id, buf_str(&c->extra_headers), (int)to->n, to->p) < 0 ||
	    buf_append(early, rest.p, rest.n) < 0)
		server_conn_close(c);
	reply_send_now(c, NULL, 0);
	c->reply_finished = true;
	if (c->closing)
		return NULL;
	conn_set_reading(c->conn, false);
	return server_conn_release_conn(c);
}

int request_get_wire(struct request *rq, struct request_wire *ret)
{
	struct server_conn *c = server_conn_of_request(rq);

	assert(c->live && !c->reply_begun && !c->reply_finished);
	if (conn_is_filtered(c->conn))
		return -ENOTSUP;
	if (c->closing || c->held.len || conn_queued_bytes(c->conn))
		return -EBUSY;
	*ret = (struct request_wire){
		.fd = conn_fd(c->conn),
		.http = &c->http,
		.rest = c->pumping ? c->unparsed : (struct slice){ c->in.data, c->in.len },
		.body_max = c->body_max,
	};
	return ret->fd < 0 ? ret->fd : 0;
}

/* Another process holds the socket as well, so closing ours ends nothing. */
void request_detach(struct request *rq)
{
	request_abort(rq);
}

void request_pause_body(struct request *rq)
{
	server_conn_of_request(rq)->paused = true;
}

void request_resume_body(struct request *rq)
{
	struct server_conn *c = server_conn_of_request(rq);

	c->paused = false;
	server_conn_continue(c);
}

void request_release_held_reply(struct request *rq)
{
	struct server_conn *c = server_conn_of_request(rq);

	assert(c->reply_held);
	c->reply_held = false;
	server_conn_flush(c);
	server_conn_continue(c);
	server_conn_unref(c);
}

static int request_fd(struct request *rq)
{
	const struct server_conn *c = server_conn_of_request(rq);

	return c->closing ? -EBADF : conn_fd(c->conn);
}

int request_peer_credentials(struct request *rq, struct ucred *ret)
{
	socklen_t n = sizeof(*ret);
	int fd = request_fd(rq);

	if (fd < 0)
		return -EBADF;
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &n) < 0 ? -errno : 0;
}

int request_peer_address(struct request *rq, struct sockaddr_storage *ret)
{
	socklen_t n = sizeof(*ret);
	int fd = request_fd(rq);

	if (fd < 0)
		return -EBADF;
	if (server_conn_proxied_address(server_conn_of_request(rq), ret))
		return 0;
	return getpeername(fd, (struct sockaddr *)ret, &n) < 0 ? -errno : 0;
}

uv_loop_t *request_loop(struct request *rq)
{
	return server_conn_of_request(rq)->timer.loop;
}
