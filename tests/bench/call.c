/* SPDX-License-Identifier: Apache-2.0 */
#include "call.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/path.h"
#include "text/json.h"

/* A daemon that does not answer must not hang the bench. */
#define PATIENCE_S 60
#define REPLY_MAX MIB(4)

static int dial(const char *path, struct cay_err *err)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = PATIENCE_S };
	int n = snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);

	if (fd < 0 || n < 0 || n >= (int)sizeof(at.sun_path))
		return cay_fail(err, CAY_E_INVALID, "not a socket's path: %s", path);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "connect to %s", path);
	return cay_take_fd(&fd);
}

int call_dial_port(unsigned port, struct cay_err *err)
{
	auto_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct timeval patience = { .tv_sec = PATIENCE_S };

	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "connect to port %u", port);
	return cay_take_fd(&fd);
}

int call_send(struct call *c, const struct call_request *q, struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(64));
	int r;

	c->rest = (struct slice){};
	http_parser_init(&c->parser, HTTP_KIND_RESPONSE);
	c->kept = !q->socket;
	c->fd = c->kept ? q->kept : dial(q->socket, err);
	if (c->fd < 0)
		return c->fd;
	r = buf_printf(&out, "%s %s HTTP/1.1\r\nHost: localhost\r\n", q->method, q->target);
	if (r >= 0 && q->bearer)
		r = buf_printf(&out, "Authorization: Bearer %s\r\n", q->bearer);
	if (r >= 0 && q->accept)
		r = buf_printf(&out, "Accept: %s\r\n", q->accept);
	if (r >= 0 && q->body)
		r = buf_printf(&out, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
			       strlen(q->body));
	if (r >= 0)
		r = buf_printf(&out, "\r\n%s", q->body ? q->body : "");
	if (r >= 0)
		r = fd_write_all(c->fd, out.data, out.len);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "%s %s", q->method, q->target) : 0;
}

ssize_t call_raw(struct call *c, void *p, size_t n, struct cay_err *err)
{
	ssize_t got;

	do
		got = read(c->fd, p, n);
	while (got < 0 && errno == EINTR);
	return got < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, errno, "read a reply") : got;
}

static int next(struct call *c, struct slice *ret, struct cay_err *err)
{
	for (;;) {
		int r = http_parser_next(&c->parser, &c->rest, ret, err);
		ssize_t n;

		if (r != HTTP_MORE)
			return r;
		n = call_raw(c, c->in, sizeof(c->in), err);
		if (n <= 0)
			return n < 0 ? (int)n : cay_fail(err, CAY_E_INTERNAL, "half a reply");
		c->rest = (struct slice){ c->in, (size_t)n };
	}
}

/* What the other side had to say about it is the best message there is. */
static int refused(struct call *c, struct cay_err *err)
{
	unsigned status = c->parser.head.status;
	struct slice why = {};

	if (next(c, &why, err) < 0)
		return -EPROTO;
	return cay_fail(err, CAY_E_INTERNAL, "%u %.*s", status, (int)(why.n < 160 ? why.n : 160),
			why.p ? why.p : "");
}

int call_head(struct call *c, unsigned want, struct cay_err *err)
{
	struct slice none;
	int r = next(c, &none, err);

	if (r < 0)
		return r;
	return c->parser.head.status == want ? 0 : refused(c, err);
}

int call_start(struct call *c, const struct call_request *q, struct cay_err *err)
{
	int r = call_send(c, q, err);

	if (r >= 0)
		r = call_head(c, q->want, err);
	return r < 0 ? cay_err_wrap(err, r, "%s %s", q->method, q->target) : 0;
}

int call_more(struct call *c, struct slice *ret, struct cay_err *err)
{
	int r = next(c, ret, err);

	return r < 0 ? r : r == HTTP_BODY;
}

void call_fini(struct call *c)
{
	if (!c->kept)
		cay_closep(&c->fd);
	http_parser_fini(&c->parser);
}

int call_json(const struct call_request *q, json_t **ret, struct cay_err *err)
{
	static const struct json_limits limits = { REPLY_MAX, 32, 100000 };
	auto_call c = { .fd = -EBADF };
	auto_buf body = BUF_INIT(REPLY_MAX);
	struct slice piece;
	int r = call_start(&c, q, err);

	*ret = NULL;
	if (r < 0)
		return r;
	while ((r = call_more(&c, &piece, err)) > 0)
		if (buf_append(&body, piece.p, piece.n) < 0)
			return cay_fail(err, CAY_E_TOO_LARGE, "a reply is too long");
	if (r < 0 || !body.len)
		return r;
	return json_parse((struct slice){ body.data, body.len }, &limits, ret, err);
}
