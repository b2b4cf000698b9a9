/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/socket.h>

#include "broker/broker.h"
#include "broker/message-head.h"
#include "net/tls.h"
#include "net/tunnel.h"

#define REQUEST_HEAD_MS 10000
#define REPLY_HEAD_MS 600000 /* after the request; a model may think for minutes */
#define SILENCE_MS 900000    /* as cay-egress has it */
#define FAILED_MS 30000      /* for a request that gets the reason */
#define LINGER_MS 2000
#define FLOW_MARK KIB(64)
#define FLOW_OUT_MAX (FLOW_MARK + 4 * CONN_READ) /* one read on top, as the smallest chunks */
#define IN_MAX (2 * CONN_READ)                   /* one read on top of where reading stops */
#define HELD_MAX (CONN_READ + 2 * MASK_HELD_MAX) /* one read behind the bytes held back */
#define FAILURE_MAX 512
#define LAST_CHUNK SLICE("") /* the end of a chunked body is a chunk without bytes */

/*
 * One connection.  Requests come one after the other: the next is read when the reply is complete.
 *
 * Bounded: a head each way, FLOW_OUT_MAX bytes each way while a side stalls, and one read of what
 * follows a request.
 */
struct broker_flow {
	struct broker *broker;
	struct broker_record record;
	struct conn *inside, *host; /* NULL once closed */
	struct conn_layer *layer;
	struct tunnel *tunnel;
	uint64_t tunnel_moved;
	uv_timer_t timer;
	unsigned open; /* handles not closed yet: connections, tunnel and timer */
	bool closing;
	bool ready;         /* TLS is established */
	bool to_head;       /* the request is HEAD */
	bool leaving;       /* the last bytes go out, those that come are dropped */
	bool requested;     /* the head of a request is sent */
	bool request_done;  /* and its body */
	bool replying;      /* the head of its reply is sent */
	bool reply_chunked; /* its body is sent in chunks */
	unsigned replies;   /* complete ones */
	const char *why;    /* it failed before a request came */
	char failure[FAILURE_MAX];
	struct buf in;                 /* bytes behind a request that has no complete reply */
	struct credential *credential; /* of the request; NULL: none */
	struct buf held;               /* of its reply: not searched for the secret yet */
	struct http_parser request, reply;
};

static unsigned *broker_flow_tenant_slot(const struct broker_flow *f)
{
	return &f->broker->tenant_flows[hash_bytes(0, &f->record.tenant, sizeof(struct id)) %
					BROKER_TENANT_SLOTS];
}

static void broker_flow_unref(struct broker_flow *f)
{
	if (--f->open)
		return;
	f->broker->n_flows--;
	--*broker_flow_tenant_slot(f);
	http_parser_fini(&f->request);
	http_parser_fini(&f->reply);
	buf_fini(&f->in);
	buf_fini(&f->held);
	credential_unref(f->credential);
	tls_free(f->layer);
	free(f);
}

static void on_broker_flow_timer_closed(uv_handle_t *h)
{
	broker_flow_unref(h->data);
}

static void on_broker_flow_conn_closed(struct conn *c)
{
	struct broker_flow *f = conn_data(c);

	if (f->inside == c)
		f->inside = NULL;
	else
		f->host = NULL;
	broker_flow_unref(f);
}

static void broker_flow_close(struct broker_flow *f)
{
	if (f->closing)
		return;
	f->closing = true;
	if (f->tunnel) {
		tunnel_close(f->tunnel);
	} else {
		if (f->inside)
			conn_close(f->inside);
		if (f->host)
			conn_close(f->host);
	}
	uv_close((uv_handle_t *)&f->timer, on_broker_flow_timer_closed);
}

static void on_broker_flow_close_timer(uv_timer_t *t)
{
	broker_flow_close(t->data);
}

/* Nothing more is said to either side; bytes written before get to the sandbox. */
static void broker_flow_leave(struct broker_flow *f)
{
	if (f->leaving || f->closing)
		return;
	f->leaving = true;
	if (f->host)
		conn_close(f->host);
	conn_shutdown(f->inside);
	conn_set_reading(f->inside, true);
	(void)uv_timer_start(&f->timer, on_broker_flow_close_timer,
			     conn_queued_bytes(f->inside) ? FAILED_MS : LINGER_MS, 0);
}

static bool broker_flow_write(struct broker_flow *f, struct conn *to, const uv_buf_t *v, unsigned n)
{
	if (conn_write(to, v, n) >= 0)
		return true;
	if (to == f->inside)
		broker_flow_close(f);
	/* the end of the host is reported by its event; its last bytes may still come */
	return false;
}

static bool broker_flow_write_buf(struct broker_flow *f, struct conn *to, const struct buf *b)
{
	uv_buf_t v = uv_buf_init(b->data, (unsigned)b->len);

	return broker_flow_write(f, to, &v, 1);
}

static bool broker_flow_write_body(struct broker_flow *f, struct conn *to, struct slice body,
				   bool chunked)
{
	char line[24];
	int n = chunked ? snprintf(line, sizeof(line), "%zx\r\n", body.n) : 0;
	uv_buf_t v[3] = { uv_buf_init(line, (unsigned)n),
			  uv_buf_init((char *)(uintptr_t)body.p, (unsigned)body.n),
			  uv_buf_init((char *)(uintptr_t)"\r\n", chunked ? 2 : 0) };

	if (n < 0 || n >= (int)sizeof(line))
		return false;
	return chunked ? broker_flow_write(f, to, v, 3) : broker_flow_write(f, to, v + 1, 1);
}

/* The reason, to the request that is there now. */
static void broker_flow_send_failure(struct broker_flow *f)
{
	auto_buf out = BUF_INIT(KIB(4));

	if (failure_reply_write(f->why, f->failure, !f->to_head, &out) < 0)
		broker_flow_close(f);
	else if (broker_flow_write_buf(f, f->inside, &out))
		broker_flow_leave(f);
}

/* A reply that has begun is cut off; otherwise a request gets the reason, also one that comes
 * later. */
__attribute__((format(printf, 3, 4))) static void broker_flow_fail(struct broker_flow *f,
								   const char *why, const char *fmt,
								   ...)
{
	auto_buf text = BUF_INIT(FAILURE_MAX - 1);
	va_list ap;
	int r;

	if (f->closing || f->leaving)
		return;
	if (f->replying || f->why) {
		broker_flow_close(f);
		return;
	}
	f->why = why;
	va_start(ap, fmt);
	r = buf_printf(&text, "cay: %s:%u: ", f->record.host, (unsigned)f->record.port);
	if (r >= 0)
		r = buf_vprintf(&text, fmt, ap);
	va_end(ap);
	memcpy(f->failure, buf_str(&text), text.len + 1);
	if (f->host)
		conn_close(f->host);
	if (f->requested || r < 0) {
		broker_flow_send_failure(f);
		return;
	}
	conn_set_reading(f->inside, true);
	(void)uv_timer_start(&f->timer, on_broker_flow_close_timer, FAILED_MS, 0);
}

static void on_broker_flow_timeout(uv_timer_t *t)
{
	struct broker_flow *f = t->data;

	if (!f->requested)
		broker_flow_close(f);
	else
		broker_flow_fail(f, BROKER_WHY_TIMEOUT, "no reply in time");
}

/* How long the present state may last. */
static void broker_flow_set_deadline(struct broker_flow *f)
{
	uint64_t ms = SILENCE_MS;

	if (f->closing || f->leaving || f->why || f->tunnel)
		return;
	if (!f->requested && !http_parser_is_idle(&f->request))
		ms = REQUEST_HEAD_MS;
	else if (f->request_done && !f->replying)
		ms = REPLY_HEAD_MS;
	(void)uv_timer_start(&f->timer, on_broker_flow_timeout, ms, 0);
}

/* Read from one side while the other takes it. */
static void broker_flow_pace(struct broker_flow *f)
{
	if (f->closing || f->leaving || f->why || f->tunnel)
		return;
	conn_set_reading(f->inside,
			 f->in.len < CONN_READ && conn_queued_bytes(f->host) <= FLOW_MARK);
	conn_set_reading(f->host, conn_queued_bytes(f->inside) <= FLOW_MARK);
}

/* Called for each request, because a credential can be replaced or deleted between two. */
static bool broker_flow_find_credential(struct broker_flow *f)
{
	const struct broker_record *to = &f->record;
	const char *why;

	credential_unref(f->credential);
	f->credential = NULL;
	if (!to->credential[0])
		return true;
	f->credential = credentials_find(&f->broker->credentials, &to->tenant, to->credential,
					 to->host, &why);
	if (!f->credential)
		broker_flow_fail(f, BROKER_WHY_CREDENTIAL, "'%s': %s", to->credential, why);
	return f->credential;
}

static void broker_flow_send_request_head(struct broker_flow *f)
{
	const struct http_head *h = &f->request.head;
	auto_buf out = BUF_INIT(MESSAGE_HEAD_MAX);
	struct cay_err err = {};

	f->requested = true;
	f->to_head = slice_eq(h->method, SLICE("HEAD"));
	if (f->why) {
		broker_flow_send_failure(f);
		return;
	}
	if (!broker_flow_find_credential(f))
		return;
	if (request_head_write(h, &f->record, f->credential, &clk_system, &out, &err) < 0) {
		buf_wipe(&out);
		broker_flow_fail(f, BROKER_WHY_REQUEST, "%s", err.msg);
		return;
	}
	http_parser_fini(&f->reply);
	http_parser_init(&f->reply, HTTP_KIND_RESPONSE);
	http_parser_set_web_server(&f->reply, f->to_head);
	if (h->upgrade.n)
		http_parser_allow_upgrade(&f->reply);
	(void)broker_flow_write_buf(f, f->host, &out);
	buf_wipe(&out);
}

/* One event of the request's parser; false: no more can be done now. */
static bool broker_flow_take_request(struct broker_flow *f, struct slice *in)
{
	bool chunked = f->request.head.framing == HTTP_CHUNKED;
	struct cay_err err = {};
	struct slice body;
	int e = http_parser_next(&f->request, in, &body, &err);

	if (e < 0) {
		f->requested = true;
		broker_flow_fail(f, BROKER_WHY_REQUEST, "%s", err.msg);
	} else if (e == HTTP_HEAD_DONE) {
		broker_flow_send_request_head(f);
	} else if (e == HTTP_BODY) {
		(void)broker_flow_write_body(f, f->host, body, chunked);
	} else if (e == HTTP_END) {
		if (chunked)
			(void)broker_flow_write_body(f, f->host, LAST_CHUNK, true);
		f->request_done = true;
	}
	return e > HTTP_MORE && !f->closing && !f->leaving;
}

static void broker_flow_read_requests(struct broker_flow *f, struct slice in)
{
	while (!f->request_done && broker_flow_take_request(f, &in))
		;
	if (f->closing || f->leaving)
		return;
	if (in.n && buf_append(&f->in, in.p, in.n) < 0)
		broker_flow_fail(f, BROKER_WHY_REQUEST, "more than one request at a time");
	broker_flow_set_deadline(f);
	broker_flow_pace(f);
}

static void on_broker_inside_read(struct conn *c, struct slice bytes)
{
	struct broker_flow *f = conn_data(c);

	if (!f->leaving)
		broker_flow_read_requests(f, bytes);
}

static void on_broker_inside_end(struct conn *c, const struct cay_err *)
{
	broker_flow_close(conn_data(c));
}

static void on_broker_flow_sent(struct conn *c)
{
	struct broker_flow *f = conn_data(c);

	if (f->leaving && !conn_queued_bytes(f->inside))
		(void)uv_timer_start(&f->timer, on_broker_flow_close_timer, LINGER_MS, 0);
	broker_flow_set_deadline(f);
	broker_flow_pace(f);
}

static void on_broker_inside_stuck(struct conn *c)
{
	broker_flow_close(conn_data(c));
}

static void broker_flow_start_over(struct broker_flow *f)
{
	struct buf in = f->in;

	http_parser_reset(&f->request);
	f->requested = f->request_done = f->replying = f->to_head = false;
	f->in = BUF_INIT(IN_MAX);
	broker_flow_read_requests(f, (struct slice){ in.data, in.len });
	buf_fini(&in);
}

static bool broker_flow_ends_with_reply(const struct broker_flow *f)
{
	return !f->request.head.keep_alive || !f->reply.head.keep_alive || !f->request_done ||
	       f->reply.head.framing == HTTP_UNTIL_END;
}

/* Of a reply to a request with a credential: without the secret. */
static bool broker_flow_pass_held(struct broker_flow *f, bool all)
{
	const struct mask *m = &f->credential->mask;
	size_t n = all ? f->held.len : mask_release(m, f->held.data, f->held.len);
	bool ok;

	if (!n)
		return true;
	if (all)
		mask_apply(m, f->held.data, n);
	ok = broker_flow_write_body(f, f->inside, (struct slice){ f->held.data, n },
				    f->reply_chunked);
	buf_consume(&f->held, n);
	return ok;
}

/* excess: bytes behind the reply, which belong to no request. */
static void broker_flow_finish_reply(struct broker_flow *f, bool excess)
{
	f->replies++;
	if (f->held.len && !broker_flow_pass_held(f, true))
		return;
	if (f->reply_chunked && !broker_flow_write_body(f, f->inside, LAST_CHUNK, true))
		return;
	if (excess || broker_flow_ends_with_reply(f))
		broker_flow_leave(f);
	else
		broker_flow_start_over(f);
}

static void broker_flow_send_reply_head(struct broker_flow *f)
{
	const struct http_head *h = &f->reply.head;
	auto_buf out = BUF_INIT(MESSAGE_HEAD_MAX);
	struct cay_err err = {};

	if (reply_head_write(&f->reply, broker_flow_ends_with_reply(f), &out, &err) < 0) {
		broker_flow_fail(f, BROKER_WHY_REPLY, "%s", err.msg);
		return;
	}
	if (f->credential && h->framing != HTTP_EMPTY && !reply_is_readable(h)) {
		broker_flow_fail(f, BROKER_WHY_REPLY,
				 "the host compresses its reply, where a secret cannot be masked");
		return;
	}
	if (f->credential)
		mask_apply(&f->credential->mask, out.data, out.len);
	f->replying = true;
	f->reply_chunked = h->framing == HTTP_CHUNKED || h->framing == HTTP_UNTIL_END;
	(void)broker_flow_write_buf(f, f->inside, &out);
}

static void on_broker_tunnel_done(void *arg)
{
	struct broker_flow *f = arg;

	f->tunnel = NULL;
	broker_flow_close(f);
	broker_flow_unref(f);
}

static void on_broker_tunnel_timer(uv_timer_t *t)
{
	struct broker_flow *f = t->data;
	uint64_t up, down;

	tunnel_get_moved(f->tunnel, &up, &down);
	if (up + down == f->tunnel_moved)
		broker_flow_close(f);
	f->tunnel_moved = up + down;
}

/* After a 101: bytes both ways. */
static void broker_flow_become_tunnel(struct broker_flow *f, struct slice from_host)
{
	f->tunnel = tunnel_new(&f->broker->loop, on_broker_tunnel_done, f);
	if (!f->tunnel) {
		broker_flow_close(f);
		return;
	}
	f->open--; /* for both connections, the tunnel */
	(void)uv_timer_start(&f->timer, on_broker_tunnel_timer, SILENCE_MS, SILENCE_MS);
	tunnel_start(f->tunnel, cay_take(f->inside), (struct slice){ f->in.data, f->in.len },
		     cay_take(f->host), from_host);
	buf_fini(&f->in);
}

/* One event of the reply's parser; false: no more can be done now. */
static bool broker_flow_take_reply(struct broker_flow *f, struct slice *in)
{
	struct cay_err err = {};
	struct slice body;
	int e = http_parser_next(&f->reply, in, &body, &err);

	if (e < 0) {
		broker_flow_fail(f, BROKER_WHY_REPLY, "the reply is not HTTP: %s", err.msg);
	} else if (e == HTTP_HEAD_DONE) {
		broker_flow_send_reply_head(f);
	} else if (e == HTTP_BODY && f->credential) {
		if (buf_append(&f->held, body.p, body.n) < 0)
			broker_flow_close(f);
	} else if (e == HTTP_BODY) {
		(void)broker_flow_write_body(f, f->inside, body, f->reply_chunked);
	} else if (e == HTTP_END && f->reply.head.status == 101) {
		broker_flow_become_tunnel(f, *in);
	} else if (e == HTTP_END) {
		broker_flow_finish_reply(f, in->n);
		return false;
	}
	return e > HTTP_MORE && !f->closing && !f->leaving && !f->tunnel;
}

static void on_broker_host_read(struct conn *c, struct slice bytes)
{
	struct broker_flow *f = conn_data(c);

	if (f->why || f->leaving)
		return;
	if (!f->requested) { /* a reply to nothing */
		if (f->replies)
			broker_flow_leave(f);
		else
			broker_flow_fail(f, BROKER_WHY_REPLY, "the host spoke first");
		return;
	}
	while (broker_flow_take_reply(f, &bytes))
		;
	/* once for a read: chunks may have one byte each */
	if (f->held.len && !f->closing && !f->leaving)
		(void)broker_flow_pass_held(f, false);
	broker_flow_set_deadline(f);
	broker_flow_pace(f);
}

static void on_broker_host_end(struct conn *c, const struct cay_err *err)
{
	struct broker_flow *f = conn_data(c);
	bool certificate = err && err->code == CAY_E_FORBIDDEN;

	if (f->why || f->leaving)
		return;
	if (f->replying && f->reply.head.framing == HTTP_UNTIL_END && !err)
		broker_flow_finish_reply(f, false);
	else if (!f->requested && f->replies)
		broker_flow_leave(f);
	else if (!f->ready)
		broker_flow_fail(f, certificate ? BROKER_WHY_CERTIFICATE : BROKER_WHY_HANDSHAKE,
				 "TLS failed: %s", err ? err->msg : "the host left");
	else
		broker_flow_fail(f, BROKER_WHY_CLOSED, "the host closed the connection");
}

static void on_broker_host_ready(struct conn *c)
{
	struct broker_flow *f = conn_data(c);

	f->ready = true;
	broker_flow_set_deadline(f);
	broker_flow_pace(f);
}

static const struct conn_events broker_inside_events = { .read = on_broker_inside_read,
							 .end = on_broker_inside_end,
							 .sent = on_broker_flow_sent,
							 .stuck = on_broker_inside_stuck,
							 .closed = on_broker_flow_conn_closed };
static const struct conn_events broker_host_events = { .ready = on_broker_host_ready,
						       .read = on_broker_host_read,
						       .end = on_broker_host_end,
						       .sent = on_broker_flow_sent,
						       .closed = on_broker_flow_conn_closed };

static bool broker_flow_may_start(const struct broker_flow *f)
{
	const struct broker *b = f->broker;

	return b->n_flows <= b->flows_max && *broker_flow_tenant_slot(f) <= b->flows_max / 4 + 1;
}

static struct broker_flow *broker_flow_new(struct broker *b, const struct broker_record *record,
					   int pair)
{
	struct broker_flow *f = calloc(1, sizeof(*f));
	struct conn_conf conf = { .events = &broker_inside_events,
				  .data = f,
				  .out_max = FLOW_OUT_MAX };

	if (!f) {
		cay_closep(&pair);
		return NULL;
	}
	f->broker = b;
	f->record = *record;
	f->in = BUF_INIT(IN_MAX);
	f->held = BUF_INIT(HELD_MAX);
	if (conn_open_fd(b->room, pair, AF_UNIX, &conf, &f->inside) < 0) {
		free(f);
		return NULL;
	}
	http_parser_init(&f->request, HTTP_KIND_REQUEST);
	http_parser_init(&f->reply, HTTP_KIND_RESPONSE);
	(void)uv_timer_init(&b->loop, &f->timer);
	f->timer.data = f;
	f->open = 2;
	b->n_flows++;
	++*broker_flow_tenant_slot(f);
	return f;
}

static int broker_flow_open_host(struct broker_flow *f, int fd, int family)
{
	struct conn_conf conf = { .events = &broker_host_events,
				  .data = f,
				  .out_max = FLOW_OUT_MAX };
	int r = tls_client_derive(f->broker->tls, f->record.host, &f->layer);

	if (r < 0) {
		cay_closep(&fd);
		return r;
	}
	conf.layer = f->layer;
	r = conn_open_fd(f->broker->room, fd, family, &conf, &f->host);
	if (r >= 0)
		f->open++;
	return r;
}

void broker_flow_start(struct broker *b, const struct broker_record *record, int pair, int host,
		       int family)
{
	struct broker_flow *f = broker_flow_new(b, record, pair);

	if (f && broker_flow_may_start(f)) {
		if (broker_flow_open_host(f, host, family) < 0)
			broker_flow_fail(f, BROKER_WHY_BUSY, "out of memory");
		return;
	}
	cay_closep(&host);
	if (f)
		broker_flow_fail(f, BROKER_WHY_BUSY, "too many connections");
}
