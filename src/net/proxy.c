/* SPDX-License-Identifier: Apache-2.0 */
#include "net/proxy.h"

#include <sys/socket.h>

#include "net/dial.h"
#include "wire/hello.h"

#define HEAD_MAX (HTTP_HEAD_MAX + KIB(4))

struct proxy {
	struct carry carry; /* first; ready: PID 1 has let us through */
	struct clean clean;
	struct slice target; /* into the request */
};

/* Through to the port: the request, as we write it. */

static int write_request(struct proxy *p, struct buf *b)
{
	const struct http_head *h = p->carry.rq->head;
	int r = buf_reserve(b, KIB(1));

	if (r >= 0)
		r = buf_add(b, h->method.p, h->method.n);
	if (r >= 0)
		r = buf_putc(b, ' ');
	if (r >= 0)
		r = buf_add(b, p->target.p, p->target.n);
	if (r >= 0)
		r = buf_puts(b, " HTTP/1.1\r\n");
	if (r >= 0)
		r = clean_request(&p->clean, h, b);
	if (r >= 0)
		r = buf_puts(b, p->clean.upgrade ? "Connection: upgrade\r\nUpgrade: websocket\r\n"
						 : "Connection: close\r\n");
	p->carry.chunked = h->framing == HTTP_CHUNKED;
	if (r >= 0 && p->carry.chunked)
		r = buf_puts(b, "Transfer-Encoding: chunked\r\n");
	else if (r >= 0 && h->has_length)
		r = buf_printf(b, "Content-Length: %llu\r\n", (unsigned long long)h->length);
	return r < 0 ? r : buf_puts(b, "\r\n");
}

static void talk(struct proxy *p)
{
	struct carry *c = &p->carry;
	auto_buf head = BUF_INIT(HEAD_MAX);

	http_fini(&c->http);
	http_init(&c->http, HTTP_KIND_RESPONSE);
	http_of_a_server(&c->http, slice_eq(c->rq->head->method, SLICE("HEAD")));
	if (p->clean.upgrade)
		http_allow_upgrade(&c->http);
	(void)uv_timer_stop(&c->timer);
	if (write_request(p, &head) < 0) {
		carry_fail(c, CAY_E_HEADERS, "the headers are too long to pass on");
		return;
	}
	carry_write(c, &head);
	if (!c->closing)
		carry_ready(c);
}

/* What PID 1 said.  Behind a 101 its bytes are the server's, who has heard nothing yet. */
static void on_door(struct proxy *p, struct slice *in)
{
	const struct http_head *h = &p->carry.http.head;

	if (h->status == 101 && http_eq(h->upgrade, HELLO_PORT_PROTOCOL) && !in->n)
		talk(p);
	else if (h->status == 101)
		carry_fail(&p->carry, CAY_E_MISBEHAVED,
			   "the server on port %u speaks before it is asked", p->clean.port);
	else if (h->status == 502)
		carry_fail(&p->carry, CAY_E_PORT, "nobody listens on port %u", p->clean.port);
	else
		carry_fail(&p->carry, h->status == 429 ? CAY_E_LIMIT : CAY_E_MISBEHAVED,
			   "the sandbox does not connect port %u", p->clean.port);
}

/* The answer. */

static int pass_headers(struct proxy *p)
{
	auto_buf lines = BUF_INIT(HEAD_MAX);
	struct slice rest;

	if (clean_reply(&p->clean, &p->carry.http.head, &lines) < 0)
		return -ENOBUFS;
	rest = (struct slice){ lines.data, lines.len };
	while (rest.n) {
		struct slice value = slice_cut(&rest, '\n'), name = slice_cut(&value, ':');

		value = slice_trim((struct slice){ value.p, value.n - 1 });
		if (request_header_of(p->carry.rq, name, value) < 0)
			return -ENOBUFS;
	}
	return 0;
}

static uint64_t length_of(const struct http_head *h)
{
	if (h->framing == HTTP_CHUNKED || h->framing == HTTP_UNTIL_END)
		return REQUEST_LENGTH_UNKNOWN;
	return h->has_length ? h->length : 0;
}

static void answer_head(struct proxy *p)
{
	const struct http_head *h = &p->carry.http.head;

	if (pass_headers(p) < 0)
		carry_fail(&p->carry, CAY_E_MISBEHAVED, "the headers of the server are too long");
	else
		carry_answer(&p->carry, (int)h->status, NULL, length_of(h));
}

static void go_on(struct proxy *p, struct slice from_there)
{
	if (!http_eq(p->carry.http.head.upgrade, "websocket"))
		carry_fail(&p->carry, CAY_E_MISBEHAVED,
			   "the server goes on in a protocol nobody asked for");
	else if (pass_headers(p) < 0)
		carry_fail(&p->carry, CAY_E_NO_MEMORY, "no memory for a tunnel");
	else
		carry_tunnel(&p->carry, from_there);
}

static void on_head(struct carry *c, struct slice *in)
{
	struct proxy *p = (struct proxy *)c;

	if (!c->ready)
		on_door(p, in);
	else if (c->http.head.status == 101)
		go_on(p, *in);
	else
		answer_head(p);
}

static void on_whole(struct carry *c, size_t)
{
	carry_finish(c);
}

static void on_broken(struct carry *c, const char *why)
{
	carry_fail(c, CAY_E_MISBEHAVED, "the answer of port %u: %s",
		   ((struct proxy *)c)->clean.port, why);
}

static void on_late(struct carry *c)
{
	carry_fail(c, CAY_E_TIMEOUT, "the server on port %u did not answer",
		   ((struct proxy *)c)->clean.port);
}

static void on_closed(struct carry *c, const struct cay_err *err)
{
	if (!err && c->answered && c->http.head.framing == HTTP_UNTIL_END)
		carry_finish(c);
	else if (c->ready)
		carry_fail(c, CAY_E_MISBEHAVED, "the server on port %u closed in the middle",
			   ((struct proxy *)c)->clean.port);
	else
		carry_fail(c, CAY_E_MISBEHAVED,
			   "the sandbox closed the connection without an answer");
}

static void on_freed(struct carry *c)
{
	free(c);
}

static void on_door_late(uv_timer_t *t)
{
	on_late(t->data);
}

static void knock(struct proxy *p, const struct proxy_conf *conf)
{
	struct carry *c = &p->carry;
	struct conn_conf at = CARRY_CONN(c);
	auto_buf head = BUF_INIT(512);
	struct conn *conn;
	int r = dial_now(conf->path);

	if (r >= 0)
		r = conn_take(request_room(c->rq), r, AF_UNIX, &at, &conn);
	if (r < 0) {
		carry_fail(c, CAY_E_UNAVAILABLE, "the sandbox does not listen: %s", uv_strerror(r));
		return;
	}
	carry_on(c, conn);
	if (buf_printf(&head,
		       "GET /v1/sandboxes/%s/tunnel/%u HTTP/1.1\r\nHost: sandbox\r\n"
		       "Connection: upgrade\r\nUpgrade: " HELLO_PORT_PROTOCOL "\r\n\r\n",
		       conf->sandbox, p->clean.port) < 0) {
		carry_fail(c, CAY_E_NO_MEMORY, "no memory to pass a request on");
		return;
	}
	(void)uv_timer_start(&c->timer, on_door_late, PROXY_DIAL_MS, 0);
	carry_write(c, &head);
}

void proxy_start(struct request *rq, const struct proxy_conf *conf)
{
	static const struct carry_kind kind = { .head = on_head,
						.whole = on_whole,
						.broken = on_broken,
						.closed = on_closed,
						.late = on_late,
						.freed = on_freed };
	struct proxy *p = malloc(sizeof(*p));

	if (!p) {
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory to pass a request on");
		if (conf->done)
			conf->done(conf->arg);
		return;
	}
	carry_init(&p->carry, rq, &kind, conf->hold, conf->done, conf->arg);
	p->carry.head_timeout_ms = PROXY_HEAD_MS;
	p->clean = conf->clean;
	p->clean.upgrade = http_eq(rq->head->upgrade, "websocket");
	p->target = conf->target;
	http_allow_upgrade(&p->carry.http);
	carry_hold_body(&p->carry);
	knock(p, conf);
}
