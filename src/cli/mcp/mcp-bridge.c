/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp/mcp-bridge.h"

#include <poll.h>

#include "base/clock.h"
#include "cli/client/sse.h"
#include "cli/mcp/bridge-rpc.h"
#include "cli/print/print.h"

#define PIECE KIB(64)
#define OUT_MAX (RPC_MAX + 1)
#define BOTH "application/json, text/event-stream"

struct bridge_call {
	bool used;
	bool answered; /* the answer was written to stdout */
	bool is_initialize;
	json_t *id; /* NULL: a notification */
	struct http_client http;
	struct sse sse;
	struct buf body; /* of the request; the first "sent" bytes are queued */
	size_t sent;
};

struct bridge {
	struct api *api;
	const char *target;
	struct buf in;   /* from standard input, up to the end of a line */
	bool skips_line; /* drop the rest of a line that is too long */
	bool eof;
	uint64_t give_up_ns;           /* deadline once eof is set */
	char version[RPC_VERSION_MAX]; /* negotiated by initialize, or "" */
	char session[64];              /* Mcp-Session-Id of the server, or "" */
	struct bridge_call calls[BRIDGE_CALLS];
};

static void bridge_call_fini(struct bridge_call *c)
{
	json_decref(c->id);
	http_client_fini(&c->http);
	sse_fini(&c->sse);
	buf_fini(&c->body);
	*c = (struct bridge_call){ .http = HTTP_INIT };
}

static void bridge_fini(struct bridge *b)
{
	for (size_t i = 0; i < BRIDGE_CALLS; i++)
		bridge_call_fini(&b->calls[i]);
	buf_fini(&b->in);
}

#define auto_bridge CAY_CLEANUP(bridge_fini) struct bridge

/* Report to the client if it waits for an answer, otherwise on stderr. */
static int bridge_report_failure(struct bridge *b, const json_t *id, enum bridge_rpc_code code,
				 const struct cay_err *why, struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(16));
	int r;

	if (!id && code == RPC_SERVER) {
		print_note("%s", why->msg);
		return 0;
	}
	r = bridge_rpc_format_error(id, code, why, b->api->hint, &out);
	return r < 0 ? cay_no_memory(err) : print_stdout(&out, err);
}

/* End a call that has no answer from the server. */
static int bridge_call_fail(struct bridge *b, struct bridge_call *c, const struct cay_err *why,
			    struct cay_err *err)
{
	int r = c->answered ? 0 : bridge_report_failure(b, c->id, RPC_SERVER, why, err);

	bridge_call_fini(c);
	return r;
}

/* 1: the text is not an acceptable message, with why. */
static int bridge_call_forward_message(struct bridge *b, struct bridge_call *c, struct slice text,
				       struct cay_err *why, struct cay_err *err)
{
	auto_buf out = BUF_INIT(OUT_MAX);
	struct cay_err bad = {};
	enum bridge_rpc_code code;
	auto_rpc m = {};

	if (bridge_rpc_parse(text, &m, &code, &bad) < 0) /* the server's fault, not the caller's */
		return cay_fail(why, CAY_E_MISBEHAVED, "the server's reply is not MCP: %s",
				bad.msg) < 0;
	if (c->id && bridge_rpc_is_answer_to(&m, c->id)) {
		c->answered = true;
		if (c->is_initialize) {
			bridge_rpc_read_version(&m, b->version);
			memcpy(b->session, c->http.reply_headers.session, sizeof(b->session));
		}
	} else if (!m.method) {
		return cay_fail(why, CAY_E_MISBEHAVED,
				"the server answered a request that was not sent") < 0;
	}
	if (bridge_rpc_format_line(text, &out) < 0)
		return cay_no_memory(err);
	return print_stdout(&out, err);
}

static int bridge_call_fail_misbehaved(struct bridge *b, struct bridge_call *c, const char *what,
				       struct cay_err *err)
{
	struct cay_err why = {};

	(void)cay_fail(&why, CAY_E_MISBEHAVED, "the server's reply is not MCP: %s (status %d)",
		       what, c->http.status);
	return bridge_call_fail(b, c, &why, err);
}

/* Forward the messages of an event stream received so far. */
static int bridge_call_read_events(struct bridge *b, struct bridge_call *c, struct cay_err *err)
{
	struct buf *body = &c->http.body;
	struct cay_err why = {};
	size_t at = 0;
	int r = 0;

	while (!r && at < body->len) {
		struct sse_item item;
		ssize_t n = sse_read(&c->sse, body->data + at, body->len - at, &item);

		if (n < 0)
			return bridge_call_fail_misbehaved(b, c, "an event is too large", err);
		at += (size_t)n;
		if (item.event && item.data.n)
			r = bridge_call_forward_message(b, c, item.data, &why, err);
	}
	buf_clear(body);
	return r > 0 ? bridge_call_fail(b, c, &why, err) : r;
}

/* The edge refused the request before MCP saw it. */
static int bridge_call_read_refusal(struct bridge *b, struct bridge_call *c, struct slice body,
				    struct cay_err *err)
{
	struct cay_err why = {};

	(void)api_error_decode(b->api, body, &why);
	if (why.code == CAY_E_UNAUTHENTICATED)
		api_hint_set(b->api,
			     "the token of this context is invalid or has expired; replace it with "
			     "'cay context add --replace --token-file FILE NAME'");
	return bridge_call_fail(b, c, &why, err);
}

static int bridge_call_read_reply(struct bridge *b, struct bridge_call *c, struct cay_err *err)
{
	struct slice body = { buf_str(&c->http.body), c->http.body.len };
	struct cay_err why = {};
	int r;

	if (c->answered || (!c->id && c->http.status < 300)) {
		bridge_call_fini(c);
		return 0;
	}
	if (http_client_has_type(&c->http, "text/event-stream"))
		return bridge_call_fail_misbehaved(b, c, "the stream ended without an answer", err);
	if (!http_client_has_type(&c->http, "application/json"))
		return bridge_call_fail_misbehaved(b, c, "no JSON", err);
	r = bridge_call_forward_message(b, c, body, &why, err);
	if (r > 0 && c->http.status >= 400)
		return bridge_call_read_refusal(b, c, body, err);
	if (r > 0)
		return bridge_call_fail(b, c, &why, err);
	if (r == 0 && !c->answered)
		return bridge_call_fail_misbehaved(b, c, "no answer", err);
	bridge_call_fini(c);
	return r;
}

/* -EAGAIN while bytes are left. */
static int bridge_call_send(struct bridge_call *c)
{
	int r = http_client_flush(&c->http);

	while (r == 0 && c->sent < c->body.len) {
		size_t n = c->body.len - c->sent < PIECE ? c->body.len - c->sent : PIECE;

		r = buf_append(&c->http.out, c->body.data + c->sent, n);
		c->sent += n;
		if (r >= 0)
			r = http_client_flush(&c->http);
	}
	/* a peer that stopped reading may have sent a reply */
	if (r == -EPIPE || r == -ECONNRESET) {
		c->http.sent = c->http.out.len;
		c->sent = c->body.len;
		r = 0;
	}
	return r;
}

static int bridge_call_continue(struct bridge *b, struct bridge_call *c, struct cay_err *err)
{
	struct cay_err why = {};
	int r = bridge_call_send(c);

	if (r < 0 && r != -EAGAIN) {
		(void)cay_fail_sys(&why, CAY_E_UNAVAILABLE, -r, "send");
		return bridge_call_fail(b, c, &why, err);
	}
	do {
		r = http_client_receive(&c->http, &why);
		if (r < 0 && r != -EAGAIN)
			return bridge_call_fail(b, c, &why, err);
		if (c->http.head_complete && http_client_has_type(&c->http, "text/event-stream")) {
			int done = bridge_call_read_events(b, c, err);

			if (done < 0 || !c->used)
				return done;
		}
	} while (r == 0 && !c->http.reply_complete);
	return c->http.reply_complete ? bridge_call_read_reply(b, c, err) : 0;
}

static int bridge_call_start(struct bridge *b, struct bridge_call *c, const struct bridge_rpc *m,
			     struct slice line, struct cay_err *why)
{
	const struct context *to = &b->api->dial.context;
	auto_buf more = BUF_INIT(KIB(8));
	char host[URL_MAX];
	struct http_client_request request = { .method = "POST",
					       .target = b->target,
					       .host = host,
					       .token = to->token,
					       .accept = BOTH,
					       .content_type = "application/json",
					       .body_length = line.n };
	int r = bridge_rpc_format_headers(m, b->version, &more, why);

	if (r >= 0 && b->session[0] && buf_printf(&more, "Mcp-Session-Id: %s\r\n", b->session) < 0)
		r = cay_no_memory(why);
	if (r < 0)
		return r;
	c->body = BUF_INIT(RPC_MAX);
	c->sse = (struct sse){ .line = BUF_INIT(RPC_MAX), .data = BUF_INIT(RPC_MAX) };
	c->is_initialize = m->method && str_eq(m->method, "initialize");
	if (buf_append(&c->body, line.p, line.n) < 0)
		return cay_no_memory(why);
	r = api_connect(b->api, &c->http, why);
	if (r < 0)
		return r;
	url_format_authority(&to->url, host);
	request.extra_headers = buf_str(&more);
	return http_client_queue_request(&c->http, &request) < 0 ? cay_no_memory(why) : 0;
}

static struct bridge_call *bridge_find_unused_call(struct bridge *b)
{
	for (size_t i = 0; i < BRIDGE_CALLS; i++)
		if (!b->calls[i].used)
			return &b->calls[i];
	return NULL;
}

static void bridge_cancel_call(struct bridge *b, const json_t *id)
{
	for (size_t i = 0; i < BRIDGE_CALLS; i++)
		if (b->calls[i].used && b->calls[i].id && json_equal(b->calls[i].id, id))
			bridge_call_fini(&b->calls[i]);
}

static int bridge_handle_line(struct bridge *b, struct slice line, struct cay_err *err)
{
	struct bridge_call *c = bridge_find_unused_call(b);
	struct cay_err why = {};
	enum bridge_rpc_code code;
	auto_rpc m = {};

	b->api->hint[0] = 0;
	if (!slice_trim(line).n)
		return 0;
	if (bridge_rpc_parse(line, &m, &code, &why) < 0)
		return bridge_report_failure(b, NULL, code, &why, err);
	if (bridge_rpc_find_cancelled_id(&m)) {
		bridge_cancel_call(b, bridge_rpc_find_cancelled_id(&m));
		return 0;
	}
	*c = (struct bridge_call){ .used = true, .http = HTTP_INIT };
	if (m.method && m.id)
		c->id = json_incref(json_object_get(m.tree, "id"));
	return bridge_call_start(b, c, &m, line, &why) < 0 ? bridge_call_fail(b, c, &why, err)
							   : bridge_call_continue(b, c, err);
}

/* A notification in progress holds back later lines, so that order is kept. */
static bool bridge_can_handle_line(struct bridge *b)
{
	for (size_t i = 0; i < BRIDGE_CALLS; i++)
		if (b->calls[i].used && !b->calls[i].id)
			return false;
	return bridge_find_unused_call(b);
}

static int bridge_refuse_long_line(struct bridge *b, struct cay_err *err)
{
	struct cay_err why = {};

	b->skips_line = true;
	buf_clear(&b->in);
	(void)cay_fail(&why, CAY_E_TOO_LARGE, "a message may have at most %zu bytes", RPC_MAX);
	return bridge_report_failure(b, NULL, RPC_NO_REQUEST, &why, err);
}

static int bridge_handle_lines(struct bridge *b, struct cay_err *err)
{
	size_t at = 0;
	int r = 0;

	while (r >= 0 && bridge_can_handle_line(b)) {
		const char *line = b->in.data + at;
		const char *end = b->in.len > at ? memchr(line, '\n', b->in.len - at) : NULL;
		size_t n = end ? (size_t)(end - line) : b->in.len - at;

		if (!end && !(b->eof && n))
			break;
		if (!b->skips_line)
			r = bridge_handle_line(b, (struct slice){ line, n }, err);
		b->skips_line = false;
		at += n + (end != NULL);
	}
	buf_consume(&b->in, at);
	return r;
}

static int bridge_read_stdin(struct bridge *b, struct cay_err *err)
{
	size_t room;
	ssize_t n;

	if (b->in.len == RPC_MAX && !b->skips_line) {
		int r = bridge_refuse_long_line(b, err);

		if (r < 0)
			return r;
	}
	if (b->skips_line)
		buf_clear(&b->in);
	room = b->in.max - b->in.len < PIECE ? b->in.max - b->in.len : PIECE;
	if (buf_reserve(&b->in, room) < 0)
		return cay_no_memory(err);
	n = read(STDIN_FILENO, b->in.data + b->in.len, room);
	if (n < 0 && errno != EINTR && errno != EAGAIN)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "read standard input");
	if (n == 0) {
		b->eof = true;
		b->give_up_ns = clk_boot_ns(&clk_system) + b->api->timeout_ms * NS_PER_MS;
	}
	if (n > 0) {
		b->in.len += (size_t)n;
		b->in.data[b->in.len] = 0;
	}
	return 0;
}

static int bridge_poll_once(struct bridge *b, struct cay_err *err)
{
	struct pollfd p[BRIDGE_CALLS + 1];
	bool reads = !b->eof && bridge_can_handle_line(b), ready = false;
	int r;

	p[BRIDGE_CALLS] = (struct pollfd){ .fd = reads ? STDIN_FILENO : -1, .events = POLLIN };
	for (size_t i = 0; i < BRIDGE_CALLS; i++) {
		const struct bridge_call *c = &b->calls[i];
		bool sends = c->used && (http_client_has_unsent(&c->http) || c->sent < c->body.len);

		p[i] = (struct pollfd){ .fd = c->used ? c->http.fd : -1 };
		if (c->used)
			p[i].events = http_client_poll_events(
				&c->http, (short)(POLLIN | (sends ? POLLOUT : 0)));
		ready |= c->used && http_client_has_buffered(&c->http);
	}
	r = poll(p, ARRAY_SIZE(p), ready ? 0 : b->eof ? deadline_to_poll_ms(b->give_up_ns) : -1);
	if (r < 0 && errno != EINTR)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "poll");
	r = 0;
	for (size_t i = 0; r >= 0 && i < BRIDGE_CALLS; i++)
		if (b->calls[i].used &&
		    (p[i].revents || http_client_has_buffered(&b->calls[i].http)))
			r = bridge_call_continue(b, &b->calls[i], err);
	if (r >= 0 && p[BRIDGE_CALLS].revents)
		r = bridge_read_stdin(b, err);
	return r < 0 ? r : bridge_handle_lines(b, err);
}

static bool bridge_is_finished(const struct bridge *b)
{
	bool waits = b->in.len;

	for (size_t i = 0; i < BRIDGE_CALLS; i++)
		waits |= b->calls[i].used;
	return b->eof && (!waits || clk_boot_ns(&clk_system) >= b->give_up_ns);
}

int mcp_bridge_run(struct api *api, const char *target, struct cay_err *err)
{
	auto_bridge b = { .api = api, .target = target, .in = BUF_INIT(RPC_MAX) };
	int r = 0;

	for (size_t i = 0; i < BRIDGE_CALLS; i++)
		b.calls[i].http = HTTP_INIT;
	while (r >= 0 && !bridge_is_finished(&b))
		r = bridge_poll_once(&b, err);
	return r;
}
