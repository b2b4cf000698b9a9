/* SPDX-License-Identifier: Apache-2.0 */
#include "net/relay.h"

#include <sys/socket.h>

#include "net/dial.h"
#include "net/tunnel.h"

#define HEAD_MAX (HTTP_HEAD_MAX + KIB(2))
#define REPLY_VALUE_MAX 128

struct relay {
	struct carry carry;        /* first */
	struct upstream *upstream; /* NULL: a sandbox */
	const char *name;          /* of who is there; lives as long */
	struct buf again;          /* the request, when it may be sent once more */
	bool upgrade;              /* it may become a tunnel */
	const char *protocol;      /* or something else, in this protocol; lives as long */
	void (*upgraded)(struct request *rq, struct conn *there, struct slice bytes, void *arg);
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
	{ "prefer", "Prefer", false },
	{ "range", "Range", false },
	{ "sec-websocket-key", "Sec-WebSocket-Key", true },
	{ "sec-websocket-version", "Sec-WebSocket-Version", true },
	{ "sec-websocket-protocol", "Sec-WebSocket-Protocol", true },
	{ "sec-websocket-extensions", "Sec-WebSocket-Extensions", true },
};

static const struct passed reply_headers[] = {
	{ "cay-exec", "Cay-Exec", false },
	{ "cay-offset", "Cay-Offset", false },
	{ "allow", "Allow", false },
	{ "content-range", "Content-Range", false },
	{ "mcp-session-id", "Mcp-Session-Id", false },
	{ "retry-after", "Retry-After", false },
	{ "sec-websocket-accept", "Sec-WebSocket-Accept", true },
	{ "sec-websocket-protocol", "Sec-WebSocket-Protocol", true },
	{ "sec-websocket-extensions", "Sec-WebSocket-Extensions", true },
};

static const char *name(const struct relay *r)
{
	return r->name ? r->name : r->upstream ? "control" : "the sandbox";
}

/* A sandbox that breaks the rules is a stranger, control that does is one of ours
 * that is just ending. */
static enum cay_code fault_code(const struct relay *r)
{
	return r->upstream ? CAY_E_UNAVAILABLE : CAY_E_MISBEHAVED;
}

/* The headers in the table, where they are short enough to be what they should be. */
static int pass_headers(struct relay *r, bool upgrade)
{
	const struct http_head *h = &r->carry.http.head;
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
		if (request_header(r->carry.rq, reply_headers[i].written, text) < 0)
			return -ENOBUFS;
	}
	return 0;
}

static void answer_head(struct relay *r)
{
	const struct http_head *h = &r->carry.http.head;
	struct slice media = http_header(h, "content-type");
	char text[REPLY_VALUE_MAX + 1], *type = NULL;

	(void)pass_headers(r, false);
	if (media.n && media.n <= REPLY_VALUE_MAX) {
		memcpy(text, media.p, media.n);
		text[media.n] = 0;
		type = text;
	}
	carry_answer(&r->carry, (int)h->status, type,
		     h->framing == HTTP_CHUNKED  ? REQUEST_LENGTH_UNKNOWN
		     : h->framing == HTTP_LENGTH ? h->length
						 : 0);
}

static void hand_over(struct relay *r, struct slice from_there)
{
	struct request *rq = carry_take_request(&r->carry);

	rq->events = NULL;
	r->upgraded(rq, carry_take_conn(&r->carry), from_there, r->carry.arg);
	carry_shut(&r->carry);
}

static void go_on(struct relay *r, struct slice from_there)
{
	struct slice asked = r->protocol ? slice_of(r->protocol) : r->carry.rq->head->upgrade;
	struct slice got = r->carry.http.head.upgrade;

	if (asked.n != got.n || strncasecmp(asked.p, got.p, got.n) != 0)
		carry_fail(&r->carry, fault_code(r), "%s goes on in a protocol nobody asked for",
			   name(r));
	else if (r->upgraded)
		hand_over(r, from_there);
	else if (pass_headers(r, true) < 0)
		carry_fail(&r->carry, CAY_E_NO_MEMORY, "no memory for a tunnel");
	else
		carry_tunnel(&r->carry, from_there);
}

static void on_head(struct carry *c, struct slice *in)
{
	struct relay *r = (struct relay *)c;

	if (c->http.head.status == 101)
		go_on(r, *in);
	else
		answer_head(r);
}

/* All of the answer is there; whatever is said behind it, nobody asked. */
static void on_whole(struct carry *c, size_t behind)
{
	struct relay *r = (struct relay *)c;

	if (r->upstream && c->http.head.keep_alive && c->sent && !behind && !conn_queued(c->conn))
		upstream_give(r->upstream, carry_take_conn(c));
	carry_finish(c);
}

static void on_broken(struct carry *c, const char *why)
{
	const struct relay *r = (struct relay *)c;

	carry_fail(c, fault_code(r), "the answer of %s: %s", name(r), why);
}

static void on_late(struct carry *c)
{
	carry_fail(c, CAY_E_TIMEOUT, "%s did not answer within %llu ms", name((struct relay *)c),
		   (unsigned long long)c->head_timeout_ms);
}

static void on_freed(struct carry *c)
{
	struct relay *r = (struct relay *)c;

	buf_fini(&r->again);
	if (r->upstream)
		upstream_unref(r->upstream);
	free(r);
}

static void connect_and_send(struct relay *r, const char *path, const struct buf *head);

static void on_closed(struct carry *c, const struct cay_err *)
{
	static const struct conn_events nobody = {};
	struct relay *r = (struct relay *)c;

	/* it was closed while our request was on its way: nobody has read it */
	if (r->again.len && !c->heard && c->rq) {
		auto_buf head = r->again;
		struct conn *conn = carry_take_conn(c);

		r->again = (struct buf){};
		conn_give(conn, &nobody, NULL, 0);
		conn_close(conn);
		connect_and_send(r, NULL, &head);
		return;
	}
	carry_fail(c, fault_code(r), "%s closed the connection without an answer", name(r));
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
	const struct http_head *h = r->carry.rq->head;
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
	r->carry.chunked = h->framing == HTTP_CHUNKED;
	if (e >= 0 && r->carry.chunked)
		e = buf_puts(b, "Transfer-Encoding: chunked\r\n");
	else if (e >= 0 && h->framing == HTTP_LENGTH)
		e = buf_printf(b, "Content-Length: %llu\r\n", (unsigned long long)h->length);
	return e < 0 ? e : buf_puts(b, "\r\n");
}

static void connect_and_send(struct relay *r, const char *path, const struct buf *head)
{
	struct carry *c = &r->carry;
	struct conn_conf conf = CARRY_CONN(c);
	bool kept = false;
	struct conn *conn;
	int e;

	if (r->upstream) {
		e = upstream_take(r->upstream, request_room(c->rq), !path, &conf, &conn, &kept);
	} else {
		e = dial_now(path);
		if (e >= 0)
			e = conn_take(request_room(c->rq), e, AF_UNIX, &conf, &conn);
	}
	if (e < 0) {
		carry_fail(c, CAY_E_UNAVAILABLE, "%s does not listen: %s", name(r), uv_strerror(e));
		return;
	}
	if (kept && slice_eq(c->rq->head->method, SLICE("GET")) &&
	    c->rq->head->framing == HTTP_EMPTY) {
		r->again.max = HEAD_MAX;
		if (buf_add(&r->again, head->data, head->len) < 0)
			buf_fini(&r->again); /* then it is not sent again */
	}
	carry_on(c, conn);
	carry_write(c, head);
	if (!c->closing)
		carry_ready(c);
}

void relay_start(struct request *rq, const struct relay_conf *conf)
{
	static const struct carry_kind kind = { .head = on_head,
						.whole = on_whole,
						.broken = on_broken,
						.closed = on_closed,
						.late = on_late,
						.freed = on_freed };
	struct relay *r = malloc(sizeof(*r));
	auto_buf head = BUF_INIT(HEAD_MAX);

	if (!r) {
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory to pass a request on");
		if (conf->done)
			conf->done(conf->arg);
		return;
	}
	carry_init(&r->carry, rq, &kind, conf->hold, conf->done, conf->arg);
	r->carry.head_timeout_ms = conf->head_timeout_ms;
	r->again = (struct buf){};
	r->upgrade = conf->upgrade && rq->head->upgrade.n;
	r->protocol = conf->protocol;
	r->upgraded = conf->upgraded;
	r->upstream = conf->upstream;
	r->name = conf->name;
	if (r->upstream)
		upstream_ref(r->upstream);
	if (r->upgrade)
		http_allow_upgrade(&r->carry.http);
	if (write_head(r, conf, &head) < 0)
		carry_fail(&r->carry, CAY_E_HEADERS, "the headers are too long to pass on");
	else
		connect_and_send(r, conf->path ? conf->path : "", &head);
}
