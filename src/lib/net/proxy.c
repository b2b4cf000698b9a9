/* SPDX-License-Identifier: Apache-2.0 */
#include "net/proxy.h"

#include "wire/hello.h"

#define HEAD_MAX (HTTP_HEAD_MAX + KIB(4))

struct proxy {
	struct forward forward; /* first; ready: PID 1 has connected the port */
	struct proxy_headers headers;
	struct slice target; /* into the request */
};

static int proxy_write_request_head(struct proxy *p, struct buf *b)
{
	const struct http_head *h = p->forward.rq->head;
	int r = buf_reserve(b, KIB(1));

	if (r >= 0)
		r = buf_printf(b, "%.*s %.*s HTTP/1.1\r\n", (int)h->method.n, h->method.p,
			       (int)p->target.n, p->target.p);
	if (r >= 0)
		r = proxy_headers_write_request(&p->headers, h, b);
	if (r >= 0)
		r = buf_puts(b, p->headers.upgrade ? "Connection: upgrade\r\nUpgrade: websocket\r\n"
						   : "Connection: close\r\n");
	p->forward.chunked = h->framing == HTTP_CHUNKED;
	if (r >= 0 && p->forward.chunked)
		r = buf_puts(b, "Transfer-Encoding: chunked\r\n");
	else if (r >= 0 && h->has_length)
		r = buf_printf(b, "Content-Length: %llu\r\n", (unsigned long long)h->length);
	return r < 0 ? r : buf_puts(b, "\r\n");
}

static void proxy_send_request(struct proxy *p)
{
	struct forward *c = &p->forward;
	auto_buf head = BUF_INIT(HEAD_MAX);

	http_parser_fini(&c->http);
	http_parser_init(&c->http, HTTP_KIND_RESPONSE);
	http_parser_set_web_server(&c->http, slice_eq(c->rq->head->method, SLICE("HEAD")));
	if (p->headers.upgrade)
		http_parser_allow_upgrade(&c->http);
	(void)uv_timer_stop(&c->timer);
	if (proxy_write_request_head(p, &head) < 0) {
		forward_fail(c, CAY_E_HEADERS, "the headers are too long to pass on");
		return;
	}
	forward_write(c, &head);
	if (!c->closing)
		forward_start_body(c);
}

/* The reply of PID 1.  Bytes after a 101 come from the server, which has received nothing yet. */
static void on_proxy_tunnel_reply(struct proxy *p, struct slice *in)
{
	const struct http_head *h = &p->forward.http.head;

	if (h->status == 101 && http_equals_nocase(h->upgrade, HELLO_PORT_PROTOCOL) && !in->n)
		proxy_send_request(p);
	else if (h->status == 101)
		forward_fail(&p->forward, CAY_E_MISBEHAVED,
			     "the server on port %u sent data before the request", p->headers.port);
	else if (h->status == 502)
		forward_fail(&p->forward, CAY_E_PORT, "nothing listens on port %u",
			     p->headers.port);
	else
		forward_fail(&p->forward, h->status == 429 ? CAY_E_LIMIT : CAY_E_MISBEHAVED,
			     "the sandbox refused to connect port %u", p->headers.port);
}

static int proxy_pass_reply_headers(struct proxy *p)
{
	auto_buf lines = BUF_INIT(HEAD_MAX);
	struct slice rest;

	if (proxy_headers_write_reply(&p->headers, &p->forward.http.head, &lines) < 0)
		return -ENOBUFS;
	rest = (struct slice){ lines.data, lines.len };
	while (rest.n) {
		struct slice value = slice_cut(&rest, '\n'), name = slice_cut(&value, ':');

		value = slice_trim((struct slice){ value.p, value.n - 1 });
		if (request_add_reply_header_slice(p->forward.rq, name, value) < 0)
			return -ENOBUFS;
	}
	return 0;
}

static uint64_t proxy_reply_length(const struct http_head *h)
{
	if (h->framing == HTTP_CHUNKED || h->framing == HTTP_UNTIL_END)
		return REQUEST_LENGTH_UNKNOWN;
	return h->has_length ? h->length : 0;
}

static void proxy_start_reply(struct proxy *p)
{
	const struct http_head *h = &p->forward.http.head;

	if (proxy_pass_reply_headers(p) < 0)
		forward_fail(&p->forward, CAY_E_MISBEHAVED, "the server's headers are too long");
	else
		forward_start_reply(&p->forward, (int)h->status, NULL, proxy_reply_length(h));
}

static void proxy_become_tunnel(struct proxy *p, struct slice from_there)
{
	if (!http_equals_nocase(p->forward.http.head.upgrade, "websocket"))
		forward_fail(&p->forward, CAY_E_MISBEHAVED,
			     "the server switched to a protocol that was not requested");
	else if (proxy_pass_reply_headers(p) < 0)
		forward_fail(&p->forward, CAY_E_NO_MEMORY, "out of memory");
	else
		forward_become_tunnel(&p->forward, from_there);
}

static void on_proxy_reply_head(struct forward *c, struct slice *in)
{
	struct proxy *p = (struct proxy *)c;

	if (!c->ready)
		on_proxy_tunnel_reply(p, in);
	else if (c->http.head.status == 101)
		proxy_become_tunnel(p, *in);
	else
		proxy_start_reply(p);
}

static void on_proxy_reply_complete(struct forward *c, size_t)
{
	forward_finish(c);
}

static void on_proxy_reply_malformed(struct forward *c, const char *why)
{
	forward_fail(c, CAY_E_MISBEHAVED, "reply from port %u: %s",
		     ((struct proxy *)c)->headers.port, why);
}

static void on_proxy_reply_timeout(struct forward *c)
{
	forward_fail(c, CAY_E_TIMEOUT, "the server on port %u did not reply",
		     ((struct proxy *)c)->headers.port);
}

static void on_proxy_conn_closed(struct forward *c, const struct cay_err *err)
{
	if (!err && c->answered && c->http.head.framing == HTTP_UNTIL_END)
		forward_finish(c);
	else if (c->ready)
		forward_fail(c, CAY_E_MISBEHAVED,
			     "the server on port %u closed the connection early",
			     ((struct proxy *)c)->headers.port);
	else
		forward_fail(c, CAY_E_MISBEHAVED,
			     "the sandbox closed the connection without a reply");
}

static void on_proxy_freed(struct forward *c)
{
	free(c);
}

static void on_proxy_tunnel_timer(uv_timer_t *t)
{
	on_proxy_reply_timeout(t->data);
}

static void proxy_request_tunnel(struct proxy *p, const struct proxy_conf *conf)
{
	struct forward *c = &p->forward;
	auto_buf head = BUF_INIT(512);
	int r = forward_dial(c, conf->path);

	if (r < 0) {
		forward_fail(c, CAY_E_UNAVAILABLE, "cannot connect to the sandbox: %s",
			     uv_strerror(r));
		return;
	}
	if (buf_printf(&head,
		       "GET /v1/sandboxes/%s/tunnel/%u HTTP/1.1\r\nHost: sandbox\r\n"
		       "Connection: upgrade\r\nUpgrade: " HELLO_PORT_PROTOCOL "\r\n\r\n",
		       conf->sandbox, p->headers.port) < 0) {
		forward_fail(c, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	(void)uv_timer_start(&c->timer, on_proxy_tunnel_timer, PROXY_DIAL_MS, 0);
	forward_write(c, &head);
}

void proxy_start(struct request *rq, const struct proxy_conf *conf)
{
	static const struct forward_callbacks kind = { .head = on_proxy_reply_head,
						       .complete = on_proxy_reply_complete,
						       .malformed = on_proxy_reply_malformed,
						       .closed = on_proxy_conn_closed,
						       .timed_out = on_proxy_reply_timeout,
						       .freed = on_proxy_freed };
	struct proxy *p = forward_new(sizeof(*p), rq, &kind, conf->handle, conf->done, conf->arg);

	if (!p)
		return;
	p->forward.head_timeout_ms = PROXY_HEAD_MS;
	p->headers = conf->headers;
	p->headers.upgrade = http_equals_nocase(rq->head->upgrade, "websocket");
	p->target = conf->target;
	http_parser_allow_upgrade(&p->forward.http);
	forward_pause_body(&p->forward);
	proxy_request_tunnel(p, conf);
}
