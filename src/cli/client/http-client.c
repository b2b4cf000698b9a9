/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/http-client.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

/* Headers that are kept, the rest is skipped. */
static const struct {
	const char *name;
	size_t offset, size;
} http_client_kept_headers[] = {
	{ "content-type", offsetof(struct http_client_headers, type),
	  sizeof((struct http_client_headers){}.type) },
	{ "cay-exec", offsetof(struct http_client_headers, exec),
	  sizeof((struct http_client_headers){}.exec) },
	{ "upgrade", offsetof(struct http_client_headers, upgrade),
	  sizeof((struct http_client_headers){}.upgrade) },
	{ "sec-websocket-accept", offsetof(struct http_client_headers, accept),
	  sizeof((struct http_client_headers){}.accept) },
	{ "mcp-session-id", offsetof(struct http_client_headers, session),
	  sizeof((struct http_client_headers){}.session) },
};

static int http_client_refuse(struct http_client *h, const char *why)
{
	if (!h->refusal)
		h->refusal = why;
	return -1;
}

static char *http_client_find_header_slot(struct http_client *h, size_t *ret_size)
{
	for (size_t i = 0; i < ARRAY_SIZE(http_client_kept_headers); i++) {
		if (h->name_len < sizeof(h->name) &&
		    str_eq(h->name, http_client_kept_headers[i].name)) {
			*ret_size = http_client_kept_headers[i].size;
			return (char *)&h->reply_headers + http_client_kept_headers[i].offset;
		}
	}
	return NULL;
}

static int on_http_client_field(llhttp_t *p, const char *at, size_t n)
{
	struct http_client *h = p->data;

	for (size_t i = 0; i < n; i++) {
		char c = at[i];

		if (h->name_len < sizeof(h->name) - 1)
			h->name[h->name_len] = ascii_is_upper(c) ? (char)(c - 'A' + 'a') : c;
		if (h->name_len < sizeof(h->name))
			h->name_len++;
	}
	if (h->name_len < sizeof(h->name))
		h->name[h->name_len] = 0;
	return 0;
}

static int on_http_client_field_complete(llhttp_t *p)
{
	struct http_client *h = p->data;
	size_t size;
	const char *to = http_client_find_header_slot(h, &size);

	if (++h->n_headers > HTTP_HEADERS_MAX)
		return http_client_refuse(h, "too many headers");
	if (to && to[0])
		return http_client_refuse(h, "a header that may be there once came twice");
	h->value_len = 0;
	return 0;
}

static int on_http_client_value(llhttp_t *p, const char *at, size_t n)
{
	struct http_client *h = p->data;
	size_t size;
	char *to = http_client_find_header_slot(h, &size);

	if (!to)
		return 0;
	if (n >= size - h->value_len)
		return http_client_refuse(h, "a header is too long");
	memcpy(to + h->value_len, at, n);
	h->value_len += n;
	return 0;
}

static int on_http_client_value_complete(llhttp_t *p)
{
	struct http_client *h = p->data;
	size_t size;
	char *to = http_client_find_header_slot(h, &size);

	/* llhttp leaves the white space behind a value */
	for (size_t n = h->value_len; to && n && (to[n - 1] == ' ' || to[n - 1] == '\t'); n--)
		to[n - 1] = 0;
	h->name_len = 0;
	return 0;
}

static int on_http_client_head(llhttp_t *p)
{
	struct http_client *h = p->data;

	if (llhttp_get_http_major(p) != 1)
		return http_client_refuse(h, "not HTTP/1");
	h->status = llhttp_get_status_code(p);
	if (h->status == 101 && h->wants_upgrade && llhttp_get_upgrade(p)) {
		h->head_complete = h->upgraded = true;
		return 0;
	}
	if (h->status < 200 || h->status > 599 || llhttp_get_upgrade(p))
		return http_client_refuse(h, "a status nobody asked for");
	if (h->status != 204 && h->status != 304 && !(p->flags & (F_CHUNKED | F_CONTENT_LENGTH)))
		return http_client_refuse(h, "a reply without an end");
	h->head_complete = true;
	return 0;
}

static int on_http_client_body(llhttp_t *p, const char *at, size_t n)
{
	struct http_client *h = p->data;

	return buf_append(&h->body, at, n) < 0 ? http_client_refuse(h, "no memory") : 0;
}

/* Bytes behind the reply are then seen, not parsed as another one. */
static int on_http_client_complete(llhttp_t *p)
{
	struct http_client *h = p->data;

	if (h->upgraded)
		return 0; /* llhttp stops by itself */
	h->reply_complete = true;
	return HPE_PAUSED;
}

static const llhttp_settings_t http_client_parser_settings = {
	.on_header_field = on_http_client_field,
	.on_header_value = on_http_client_value,
	.on_header_field_complete = on_http_client_field_complete,
	.on_header_value_complete = on_http_client_value_complete,
	.on_headers_complete = on_http_client_head,
	.on_body = on_http_client_body,
	.on_message_complete = on_http_client_complete,
};

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
		.body = BUF_INIT(MIB(8)),
	};
	return 0;
}

/* A request's head has the token in it. */
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
}

int http_client_queue_request(struct http_client *h, const struct http_client_request *ask)
{
	int r;

	/* here and not in http_client_open(): the struct does not move any more */
	llhttp_init(&h->parser, HTTP_RESPONSE, &http_client_parser_settings);
	h->parser.data = h;
	/* all of it at once: a buffer that grows would leave the token behind */
	r = ask->token ? buf_reserve(&h->out, h->out.max) : 0;
	if (r >= 0)
		r = buf_printf(&h->out, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: %s\r\n",
			       ask->method, ask->target, ask->host ? ask->host : "cay",
			       ask->upgrade ? "Upgrade" : "close");
	h->wants_upgrade = ask->upgrade;
	if (r >= 0 && ask->upgrade)
		r = buf_printf(&h->out, "Upgrade: %s\r\n", ask->upgrade);
	if (r >= 0 && ask->ws_key)
		r = buf_printf(&h->out,
			       "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n"
			       "Sec-WebSocket-Protocol: %s\r\n",
			       ask->ws_key, ask->ws_protocol);
	if (r >= 0 && ask->token)
		r = buf_printf(&h->out, "Authorization: Bearer %s\r\n", ask->token);
	if (r >= 0 && ask->accept)
		r = buf_printf(&h->out, "Accept: %s\r\n", ask->accept);
	if (r >= 0 && ask->content_type)
		r = buf_printf(&h->out, "Content-Type: %s\r\n", ask->content_type);
	if (r >= 0 && ask->idempotency_key)
		r = buf_printf(&h->out, "Idempotency-Key: %s\r\n", ask->idempotency_key);
	if (r >= 0 && ask->extra_headers)
		r = buf_puts(&h->out, ask->extra_headers);
	if (r >= 0 && ask->body_length == HTTP_CHUNKED)
		r = buf_puts(&h->out, "Transfer-Encoding: chunked\r\n");
	else if (r >= 0 && ask->body_length != HTTP_NO_BODY)
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

static ssize_t http_client_send_bytes(struct http_client *h, const void *p, size_t n)
{
	ssize_t done;

	if (h->tls)
		return client_tls_write(h->tls, p, n);
	do
		done = send(h->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (done < 0 && errno == EINTR);
	return done < 0 ? -errno : done;
}

static ssize_t http_client_receive_bytes(struct http_client *h, void *p, size_t n)
{
	ssize_t got;

	if (h->tls)
		return client_tls_read(h->tls, p, n);
	got = recv(h->fd, p, n, MSG_DONTWAIT);
	return got < 0 ? (errno == EINTR ? -EAGAIN : -errno) : got;
}

int http_client_flush(struct http_client *h)
{
	while (http_client_has_unsent(h)) {
		ssize_t n = http_client_send_bytes(h, h->out.data + h->sent, h->out.len - h->sent);

		if (n < 0)
			return (int)n;
		h->sent += (size_t)n;
	}
	http_client_clear_out(h);
	return 0;
}

static int http_client_fail_misbehaved(const struct http_client *h, const char *why,
				       struct cay_err *err)
{
	if (!why)
		why = h->refusal ? h->refusal : llhttp_get_error_reason(&h->parser);
	(void)cay_fail(err, CAY_E_MISBEHAVED, "the reply is not what it should be: %s",
		       why && why[0] ? why : "garbage");
	return -EPROTO;
}

static int http_client_append_raw(struct http_client *h, const char *p, size_t n,
				  struct cay_err *err)
{
	return n && buf_append(&h->body, p, n) < 0
		       ? http_client_fail_misbehaved(h, "no memory", err)
		       : 0;
}

static int http_client_parse(struct http_client *h, const char *p, size_t n, struct cay_err *err)
{
	size_t head = n;

	if (h->upgraded)
		return http_client_append_raw(h, p, n, err);
	if (h->reply_complete)
		return http_client_fail_misbehaved(h, "bytes behind the reply", err);
	/* an alert, which is how TLS says that it was not spoken to in TLS */
	if (!h->tls && !h->head_bytes && p[0] == 0x15)
		return http_client_fail_misbehaved(h, "it is TLS; the url should begin with https",
						   err);
	if (!h->head_complete && HTTP_HEAD_MAX - h->head_bytes < head)
		head = HTTP_HEAD_MAX - h->head_bytes;
	while (n) {
		/* the head's bytes first, so that its limit is exact */
		size_t part = h->head_complete ? n : head;
		llhttp_errno_t e;

		if (!part)
			return http_client_fail_misbehaved(h, "its head is too large", err);
		e = llhttp_execute(&h->parser, p, part);
		if (e == HPE_PAUSED && h->reply_complete &&
		    llhttp_get_error_pos(&h->parser) == p + n)
			return 0;
		if (e == HPE_PAUSED_UPGRADE && h->upgraded) {
			const char *rest = llhttp_get_error_pos(&h->parser);

			return http_client_append_raw(h, rest, (size_t)(p + n - rest), err);
		}
		if (e == HPE_PAUSED && h->reply_complete)
			return http_client_fail_misbehaved(h, "bytes behind the reply", err);
		if (e != HPE_OK)
			return http_client_fail_misbehaved(h, NULL, err);
		h->head_bytes += part;
		head -= part < head ? part : head;
		p += part;
		n -= part;
	}
	return 0;
}

int http_client_receive(struct http_client *h, struct cay_err *err)
{
	char piece[HTTP_PIECE];
	ssize_t n = http_client_receive_bytes(h, piece, sizeof(piece));

	if (n == -EAGAIN)
		return -EAGAIN;
	if (n > 0)
		return http_client_parse(h, piece, (size_t)n, err);
	if (h->reply_complete && n == 0)
		return 0;
	(void)cay_fail(err, CAY_E_UNAVAILABLE, "the connection ended before the reply did");
	return -ECONNRESET;
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
	/* poll() does not see what OpenSSL has read already */
	if (http_client_has_buffered(h) && events & POLLIN && !intr->quit)
		return 0;
	return interrupt_wait(intr, h->fd, http_client_poll_events(h, events), deadline_ns);
}
