/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CLIENT_HTTP_CLIENT_H
#define CAY_CLI_CLIENT_HTTP_CLIENT_H
/*
 * http-client - one HTTP/1.1 request over one connection, and its reply
 *
 * The server is not trusted.  lib/http parses replies with its limits; refused as well are
 * interim (1xx) responses, an upgrade that was not requested, a repeated header of those
 * kept here, and bytes after the reply.
 *
 * Only http_client_open() (bounded) and http_client_wait() block.  A caller with several
 * connections polls h->fd for http_client_poll_events() itself, unless
 * http_client_has_buffered(); then it calls http_client_flush() and http_client_receive() and
 * consumes h->body.  Each receive adds at most HTTP_PIECE bytes to the body, so a caller
 * bounds the memory by consuming before it receives again.
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "cli/client/client-dial.h"
#include "http/http.h"

#define HTTP_PIECE KIB(16)

/* The headers of a reply that cay uses. */
struct http_client_headers {
	char type[64]; /* Content-Type */
	char exec[ID_TEXT_LEN + 1];
	char accept[32];  /* Sec-WebSocket-Accept */
	char session[64]; /* Mcp-Session-Id */
};

struct http_client {
	int fd;
	struct client_tls *tls; /* NULL: plain HTTP */
	struct http_parser parser;
	struct buf out; /* to be sent; the first "sent" bytes are */
	size_t sent;
	struct buf body;                    /* received, not consumed yet */
	bool head_complete, reply_complete; /* the head, the whole reply has arrived */
	bool upgraded; /* after a 101: bytes of the other protocol go to body and from out */
	int status;
	struct http_client_headers reply_headers;
};

#define auto_http CAY_CLEANUP(http_client_fini) struct http_client
#define HTTP_INIT ((struct http_client){ .fd = -EBADF })

/* Connect, including TLS, before the deadline (boot ns). */
[[nodiscard]] int http_client_open(struct http_client *h, struct dial *to, uint64_t deadline_ns,
				   struct interrupt *intr, struct cay_err *err);
void http_client_fini(struct http_client *h);

#define HTTP_CLIENT_CHUNKED UINT64_MAX
#define HTTP_CLIENT_NO_BODY (UINT64_MAX - 1)
struct http_client_request {
	const char *method, *target;       /* the target is already encoded */
	const char *accept, *content_type; /* or NULL */
	const char *idempotency_key;       /* Idempotency-Key, or NULL */
	const char *host, *token;          /* or NULL */
	const char *upgrade;               /* a protocol to switch to, or NULL */
	const char *ws_key, *ws_protocol;  /* of a WebSocket, or NULL */
	const char *extra_headers;         /* headers, each ended by CRLF, or NULL */
	uint64_t body_length;              /* bytes, or a constant above */
};

[[nodiscard]] int http_client_queue_request(struct http_client *h,
					    const struct http_client_request *ask);
/* Queue a chunk; n = 0 ends the body. */
[[nodiscard]] int http_client_queue_chunk(struct http_client *h, const void *p, size_t n);

static inline bool http_client_has_unsent(const struct http_client *h)
{
	return h->sent < h->out.len;
}

/* Send without blocking: 0, -EAGAIN when some is left, or the connection's error.  After
 * -EPIPE (the peer stopped reading) its reply may still arrive. */
[[nodiscard]] int http_client_flush(struct http_client *h);
/* Receive a piece: 0; -EAGAIN when none has arrived; -ECONNRESET when the connection
 * closed before the reply was complete; -EPROTO when the reply is invalid. */
[[nodiscard]] int http_client_receive(struct http_client *h, struct cay_err *err);
/* Wait for events of h->fd until the deadline (boot ns, UINT64_MAX: for ever).
 * -ETIMEDOUT; -EINTR after a second signal within a second. */
[[nodiscard]] int http_client_wait(const struct http_client *h, short events, uint64_t deadline_ns,
				   struct interrupt *intr);
/* Whether the reply's Content-Type is this, without its parameters. */
bool http_client_has_type(const struct http_client *h, const char *type);
/* Whether http_client_receive() has bytes that poll() does not see. */
bool http_client_has_buffered(const struct http_client *h);
/* What to poll h->fd for to wait for these events: TLS may need others. */
short http_client_poll_events(const struct http_client *h, short events);
#endif
