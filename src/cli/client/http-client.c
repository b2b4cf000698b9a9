/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/http-client.h"

#include <poll.h>

#define KEPT(m) offsetof(struct http_client_headers, m), sizeof((struct http_client_headers){}.m)

/* Headers copied from a reply; each may occur once. */
static const struct {
	const char *name;
	size_t offset, size;
} kept_headers[] = {
	{ "content-type", KEPT(type) },
	{ "cay-exec", KEPT(exec) },
	{ "sec-websocket-accept", KEPT(accept) },
	{ "mcp-session-id", KEPT(session) },
};

static int http_client_fail_invalid(const char *why, struct cay_err *err)
{
	(void)cay_fail(err, CAY_E_MISBEHAVED, "invalid reply: %s", why);
	return -EPROTO;
}

static int http_client_append_body(struct http_client *h, struct slice part, struct cay_err *err)
{
	return part.n && buf_append(&h->body, part.p, part.n) < 0
		       ? http_client_fail_invalid("no memory for its body", err)
		       : 0;
}

static int http_client_take_head(struct http_client *h, struct cay_err *err)
{
	const struct http_head *head = &h->parser.head;

	for (size_t i = 0; i < head->n_headers; i++) {
		struct slice value = head->headers[i].value;

		for (size_t k = 0; k < ARRAY_SIZE(kept_headers); k++) {
			char *to = (char *)&h->reply_headers + kept_headers[k].offset;

			if (!http_equals_nocase(head->headers[i].name, kept_headers[k].name))
				continue;
			if (to[0])
				return http_client_fail_invalid("a header is repeated", err);
			if (value.n >= kept_headers[k].size)
				return http_client_fail_invalid("a header is too long", err);
			memcpy(to, value.p, value.n);
		}
	}
	h->status = (int)head->status;
	h->upgraded = head->status == 101;
	h->head_complete = true;
	return 0;
}

int http_client_open(struct http_client *h, struct dial *to, uint64_t deadline_ns,
		     struct interrupt *intr, struct cay_err *err)
{
	auto_close int fd = -EBADF;
	struct client_tls *tls = NULL;
	int r = dial_connect(to, deadline_ns, intr, &fd, &tls, err);

	if (r < 0)
		return r;
	http_client_fini(h);
	*h = (struct http_client){
		.fd = cay_take_fd(&fd),
		.tls = tls,
		.out = BUF_INIT(KIB(128)),
		.body = BUF_INIT(MIB(72)),
	};
	return 0;
}

/* Wipe the buffer: the head of a request holds the token. */
static void http_client_clear_out(struct http_client *h)
{
	if (h->out.data)
		explicit_bzero(h->out.data, h->out.cap);
	buf_clear(&h->out);
	h->sent = 0;
}

void http_client_fini(struct http_client *h)
{
	client_tls_free(h->tls);
	h->tls = NULL;
	cay_closep(&h->fd);
	h->fd = -EBADF;
	http_client_clear_out(h);
	buf_fini(&h->out);
	buf_fini(&h->body);
	http_parser_fini(&h->parser);
}

int http_client_queue_request(struct http_client *h, const struct http_client_request *ask)
{
	const char *const headers[][2] = {
		{ "Upgrade: ", ask->upgrade },
		{ "Sec-WebSocket-Version: ", ask->ws_key ? "13" : NULL },
		{ "Sec-WebSocket-Key: ", ask->ws_key },
		{ "Sec-WebSocket-Protocol: ", ask->ws_key ? ask->ws_protocol : NULL },
		{ "Authorization: Bearer ", ask->token },
		{ "Accept: ", ask->accept },
		{ "Content-Type: ", ask->content_type },
		{ "Idempotency-Key: ", ask->idempotency_key },
	};
	int r;

	/* not in http_client_open(): the parser points into h, which must not move from here on */
	http_parser_init(&h->parser, HTTP_KIND_RESPONSE);
	http_parser_refuse_interim(&h->parser);
	if (ask->upgrade)
		http_parser_allow_upgrade(&h->parser);
	/* reserve everything now: growing later would leave a copy of the token in freed memory */
	r = ask->token ? buf_reserve(&h->out, h->out.max) : 0;
	if (r >= 0)
		r = buf_printf(&h->out, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: %s\r\n",
			       ask->method, ask->target, ask->host ? ask->host : "cay",
			       ask->upgrade ? "Upgrade" : "close");
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(headers); i++)
		if (headers[i][1])
			r = buf_printf(&h->out, "%s%s\r\n", headers[i][0], headers[i][1]);
	if (r >= 0 && ask->extra_headers)
		r = buf_puts(&h->out, ask->extra_headers);
	if (r >= 0 && ask->body_length == HTTP_CLIENT_CHUNKED)
		r = buf_puts(&h->out, "Transfer-Encoding: chunked\r\n");
	else if (r >= 0 && ask->body_length != HTTP_CLIENT_NO_BODY)
		r = buf_printf(&h->out, "Content-Length: %llu\r\n",
			       (unsigned long long)ask->body_length);
	return r < 0 ? r : buf_puts(&h->out, "\r\n");
}

int http_client_queue_chunk(struct http_client *h, const void *p, size_t n)
{
	int r = buf_printf(&h->out, "%zx\r\n", n);

	if (r >= 0 && n)
		r = buf_append(&h->out, p, n);
	return r < 0 ? r : buf_puts(&h->out, "\r\n");
}

int http_client_flush(struct http_client *h)
{
	while (http_client_has_unsent(h)) {
		ssize_t n = dial_write(h->fd, h->tls, h->out.data + h->sent, h->out.len - h->sent);

		if (n < 0)
			return (int)n;
		h->sent += (size_t)n;
	}
	http_client_clear_out(h);
	return 0;
}

static int http_client_parse(struct http_client *h, struct slice in, struct cay_err *err)
{
	struct cay_err why = {};
	struct slice body = {};
	int r;

	if (h->upgraded)
		return http_client_append_body(h, in, err);
	/* the alert of a TLS server that was sent plain text */
	if (!h->tls && in.p[0] == 0x15 && http_parser_is_idle(&h->parser))
		return http_client_fail_invalid("the server speaks TLS; use an https:// url", err);
	while (!h->reply_complete) {
		r = http_parser_next(&h->parser, &in, &body, &why);
		if (r < 0)
			return http_client_fail_invalid(why.msg, err);
		if (r == HTTP_MORE)
			return 0;
		if (r == HTTP_END && h->upgraded)
			return http_client_append_body(h, in, err);
		if (r == HTTP_HEAD_DONE)
			r = http_client_take_head(h, err);
		else if (r == HTTP_BODY)
			r = http_client_append_body(h, body, err);
		else
			h->reply_complete = true;
		if (r < 0)
			return r;
	}
	return in.n ? http_client_fail_invalid("bytes after its end", err) : 0;
}

int http_client_receive(struct http_client *h, struct cay_err *err)
{
	char piece[HTTP_PIECE];
	ssize_t n = dial_read(h->fd, h->tls, piece, sizeof(piece));

	if (n == -EAGAIN)
		return -EAGAIN;
	if (n > 0)
		return http_client_parse(h, (struct slice){ piece, (size_t)n }, err);
	if (h->reply_complete && n == 0)
		return 0;
	(void)cay_fail(err, CAY_E_UNAVAILABLE,
		       "the connection closed before the reply was complete");
	return -ECONNRESET;
}

bool http_client_has_type(const struct http_client *h, const char *type)
{
	struct slice rest = slice_of(h->reply_headers.type);

	return slice_eq(slice_trim(slice_cut(&rest, ';')), slice_of(type));
}

bool http_client_has_buffered(const struct http_client *h)
{
	return h->tls && client_tls_has_buffered(h->tls);
}

short http_client_poll_events(const struct http_client *h, short events)
{
	return (short)(events | (h->tls ? client_tls_poll_events(h->tls) : 0));
}

int http_client_wait(const struct http_client *h, short events, uint64_t deadline_ns,
		     struct interrupt *intr)
{
	/* poll() does not see bytes that OpenSSL has read */
	if (http_client_has_buffered(h) && events & POLLIN && !intr->quit)
		return 0;
	return interrupt_wait(intr, h->fd, http_client_poll_events(h, events), deadline_ns);
}
