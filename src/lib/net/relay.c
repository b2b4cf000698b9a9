/* SPDX-License-Identifier: Apache-2.0 */
#include "net/relay.h"

#define HEAD_MAX (HTTP_HEAD_MAX + KIB(2))
#define REPLY_VALUE_MAX 128

struct relay {
	struct forward forward;         /* first */
	struct upstream_pool *upstream; /* NULL: a sandbox */
	const char *name;               /* of the other program; must outlive the relay */
	struct buf retry_request;       /* the request, when it may be retried */
	bool upgrade;                   /* may become a tunnel */
	const char *protocol; /* requested instead of the client's; must outlive the relay */
	void (*upgraded)(struct request *rq, struct conn *there, struct slice bytes, void *arg);
};

/* Headers that are forwarded, in each direction. */
struct relay_header_rule {
	const char *name, *written;
	bool upgrade; /* only with an upgrade */
};

static const struct relay_header_rule relay_request_headers[] = {
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

static const struct relay_header_rule relay_reply_headers[] = {
	{ "cay-exec", "Cay-Exec", false },
	{ "cay-offset", "Cay-Offset", false },
	{ "cay-pid", "Cay-Pid", false },
	{ "execd-commands-tail-cursor", "EXECD-COMMANDS-TAIL-CURSOR", false },
	{ "allow", "Allow", false },
	{ "content-range", "Content-Range", false },
	{ "mcp-session-id", "Mcp-Session-Id", false },
	{ "x-next-token", "X-Next-Token", false },
	{ "retry-after", "Retry-After", false },
	{ "sec-websocket-accept", "Sec-WebSocket-Accept", true },
	{ "sec-websocket-protocol", "Sec-WebSocket-Protocol", true },
	{ "sec-websocket-extensions", "Sec-WebSocket-Extensions", true },
};

static const char *relay_peer_name(const struct relay *r)
{
	return r->name ? r->name : r->upstream ? "control" : "the sandbox";
}

/* A sandbox that breaks the protocol misbehaves; control that does is shutting down. */
static enum cay_code relay_fault_code(const struct relay *r)
{
	return r->upstream ? CAY_E_UNAVAILABLE : CAY_E_MISBEHAVED;
}

/* Pass the headers in the table, unless they are too long to be valid. */
static int relay_pass_reply_headers(struct relay *r, bool upgrade)
{
	const struct http_head *h = &r->forward.http.head;

	for (size_t i = 0; i < ARRAY_SIZE(relay_reply_headers); i++) {
		const struct relay_header_rule *rule = &relay_reply_headers[i];
		struct slice name = slice_of(rule->written), v = http_header_find(h, rule->name);

		if ((rule->upgrade && !upgrade) || !v.n || v.n > REPLY_VALUE_MAX)
			continue;
		if (request_add_reply_header_slice(r->forward.rq, name, v) < 0)
			return -ENOBUFS;
	}
	return 0;
}

static void relay_start_reply(struct relay *r)
{
	const struct http_head *h = &r->forward.http.head;
	struct slice media = http_header_find(h, "content-type");
	char text[REPLY_VALUE_MAX + 1], *type = NULL;

	(void)relay_pass_reply_headers(r, false);
	if (media.n && media.n <= REPLY_VALUE_MAX) {
		memcpy(text, media.p, media.n);
		text[media.n] = 0;
		type = text;
	}
	forward_start_reply(&r->forward, (int)h->status, type,
			    h->framing == HTTP_CHUNKED  ? REQUEST_LENGTH_UNKNOWN
			    : h->framing == HTTP_LENGTH ? h->length
							: 0);
}

static void relay_hand_over_upgraded(struct relay *r, struct slice from_there)
{
	struct request *rq = forward_release_request(&r->forward);

	rq->events = NULL;
	r->upgraded(rq, forward_release_conn(&r->forward), from_there, r->forward.arg);
	forward_close(&r->forward);
}

static void relay_follow_upgrade(struct relay *r, struct slice from_there)
{
	struct slice asked = r->protocol ? slice_of(r->protocol) : r->forward.rq->head->upgrade;
	struct slice got = r->forward.http.head.upgrade;

	if (asked.n != got.n || strncasecmp(asked.p, got.p, got.n) != 0)
		forward_fail(&r->forward, relay_fault_code(r),
			     "%s switched to a protocol that was not requested",
			     relay_peer_name(r));
	else if (r->upgraded)
		relay_hand_over_upgraded(r, from_there);
	else if (relay_pass_reply_headers(r, true) < 0)
		forward_fail(&r->forward, CAY_E_NO_MEMORY, "out of memory");
	else
		forward_become_tunnel(&r->forward, from_there);
}

static void on_relay_reply_head(struct forward *c, struct slice *in)
{
	struct relay *r = (struct relay *)c;

	if (c->http.head.status == 101)
		relay_follow_upgrade(r, *in);
	else
		relay_start_reply(r);
}

/* The reply is complete; a connection with bytes after it is not reused. */
static void on_relay_reply_complete(struct forward *c, size_t excess)
{
	struct relay *r = (struct relay *)c;

	if (r->upstream && c->http.head.keep_alive && c->sent && !excess &&
	    !conn_queued_bytes(c->conn))
		upstream_pool_return(r->upstream, forward_release_conn(c));
	forward_finish(c);
}

static void on_relay_reply_malformed(struct forward *c, const char *why)
{
	const struct relay *r = (struct relay *)c;

	forward_fail(c, relay_fault_code(r), "reply from %s: %s", relay_peer_name(r), why);
}

static void on_relay_reply_timeout(struct forward *c)
{
	forward_fail(c, CAY_E_TIMEOUT, "%s did not reply within %llu ms",
		     relay_peer_name((struct relay *)c), (unsigned long long)c->head_timeout_ms);
}

static void on_relay_freed(struct forward *c)
{
	struct relay *r = (struct relay *)c;

	buf_fini(&r->retry_request);
	if (r->upstream)
		upstream_pool_unref(r->upstream);
	free(r);
}

static void relay_connect_and_send(struct relay *r, const char *path, const struct buf *head);

static void on_relay_conn_closed(struct forward *c, const struct cay_err *)
{
	struct relay *r = (struct relay *)c;

	/* the pooled connection was closed before it read the request, so a retry is safe */
	if (r->retry_request.len && !c->got_bytes && c->rq) {
		auto_buf head = r->retry_request;

		r->retry_request = (struct buf){};
		conn_discard(forward_release_conn(c));
		relay_connect_and_send(r, NULL, &head);
		return;
	}
	forward_fail(c, relay_fault_code(r), "%s closed the connection without a reply",
		     relay_peer_name(r));
}

static bool relay_value_is_printable(const char *s)
{
	for (; *s; s++)
		if (*s < ' ' || *s > '~')
			return false;
	return true;
}

static int relay_append_header(struct buf *b, const char *key, struct slice v)
{
	return buf_printf(b, "%s: %.*s\r\n", key, (int)v.n, v.p);
}

static int relay_write_headers(const struct relay *r, const struct http_head *h, struct buf *b)
{
	int e = 0;

	for (size_t i = 0; i < h->n_headers && e >= 0; i++)
		for (size_t k = 0; k < ARRAY_SIZE(relay_request_headers) && e >= 0; k++) {
			const struct relay_header_rule *p = &relay_request_headers[k];

			if ((!p->upgrade || (r->upgrade && !r->protocol)) &&
			    http_equals_nocase(h->headers[i].name, p->name))
				e = relay_append_header(b, p->written, h->headers[i].value);
		}
	if (e >= 0 && r->upgrade)
		e = relay_append_header(b, "Upgrade",
					r->protocol ? slice_of(r->protocol) : h->upgrade);
	return e;
}

/* The other program gets the id where the client sent the name of a sandbox. */
static int relay_write_target(const struct request *rq, const char *instead, struct buf *b)
{
	struct slice target = rq->head->target, name = rq->match.sandbox_segment;
	size_t before = name.n ? (size_t)(name.p - target.p) : 0;
	char id[ID_TEXT_LEN + 1];

	if (instead)
		return buf_puts(b, instead);
	if (!op_match_is_resolved(&rq->match))
		return buf_append(b, target.p, target.n);
	id_format(&rq->match.params[0], id);
	return buf_printf(b, "%.*s%s%.*s", (int)before, target.p, id,
			  (int)(target.n - before - name.n), name.p + name.n);
}

static int relay_write_request_head(struct relay *r, const struct relay_conf *conf, struct buf *b)
{
	const struct http_head *h = r->forward.rq->head;
	int e = buf_reserve(b, 512);

	if (e >= 0)
		e = buf_printf(b, "%.*s ", (int)h->method.n, h->method.p);
	if (e >= 0)
		e = relay_write_target(r->forward.rq, conf->target, b);
	if (e >= 0)
		e = buf_printf(b, " HTTP/1.1\r\nHost: %s\r\n", r->upstream ? "control" : "sandbox");
	if (e >= 0 && r->upgrade)
		e = buf_puts(b, "Connection: upgrade\r\n");
	else if (e >= 0 && !r->upstream)
		e = buf_puts(b, "Connection: close\r\n");
	if (e >= 0)
		e = relay_write_headers(r, h, b);
	for (size_t i = 0; i < conf->n_headers && e >= 0; i++)
		e = relay_value_is_printable(conf->headers[i].value)
			    ? relay_append_header(b, conf->headers[i].name,
						  slice_of(conf->headers[i].value))
			    : -EINVAL;
	r->forward.chunked = h->framing == HTTP_CHUNKED;
	if (e >= 0 && r->forward.chunked)
		e = buf_puts(b, "Transfer-Encoding: chunked\r\n");
	else if (e >= 0 && h->framing == HTTP_LENGTH)
		e = buf_printf(b, "Content-Length: %llu\r\n", (unsigned long long)h->length);
	return e < 0 ? e : buf_puts(b, "\r\n");
}

static void relay_connect_and_send(struct relay *r, const char *path, const struct buf *head)
{
	struct forward *c = &r->forward;
	struct conn_conf conf = FORWARD_CONN_CONF(c);
	bool kept = false;
	struct conn *conn;
	int e;

	if (r->upstream) {
		e = upstream_pool_acquire(r->upstream, request_conn_shared(c->rq), !path, &conf,
					  &conn, &kept);
		if (e >= 0)
			forward_set_conn(c, conn);
	} else {
		e = forward_dial(c, path);
	}
	if (e < 0) {
		forward_fail(c, CAY_E_UNAVAILABLE, "cannot connect to %s: %s", relay_peer_name(r),
			     uv_strerror(e));
		return;
	}
	if (kept && slice_eq(c->rq->head->method, SLICE("GET")) &&
	    c->rq->head->framing == HTTP_EMPTY) {
		r->retry_request.max = HEAD_MAX;
		if (buf_append(&r->retry_request, head->data, head->len) < 0)
			buf_fini(&r->retry_request); /* without memory there is no retry */
	}
	forward_write(c, head);
	if (!c->closing)
		forward_start_body(c);
}

void relay_start(struct request *rq, const struct relay_conf *conf)
{
	static const struct forward_callbacks kind = { .head = on_relay_reply_head,
						       .complete = on_relay_reply_complete,
						       .malformed = on_relay_reply_malformed,
						       .closed = on_relay_conn_closed,
						       .timed_out = on_relay_reply_timeout,
						       .freed = on_relay_freed };
	struct relay *r = forward_new(sizeof(*r), rq, &kind, conf->handle, conf->done, conf->arg);
	auto_buf head = BUF_INIT(HEAD_MAX);

	if (!r)
		return;
	r->forward.head_timeout_ms = conf->head_timeout_ms;
	r->forward.body_paused = conf->body_is_paused;
	r->retry_request = (struct buf){};
	r->upgrade = conf->upgrade && rq->head->upgrade.n;
	r->protocol = conf->protocol;
	r->upgraded = conf->upgraded;
	r->upstream = conf->upstream;
	r->name = conf->name;
	if (r->upstream)
		upstream_pool_ref(r->upstream);
	if (r->upgrade)
		http_parser_allow_upgrade(&r->forward.http);
	if (relay_write_request_head(r, conf, &head) < 0)
		forward_fail(&r->forward, CAY_E_HEADERS, "the headers are too long to pass on");
	else
		relay_connect_and_send(r, conf->path ? conf->path : "", &head);
}
