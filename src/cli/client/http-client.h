/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CLIENT_HTTP_CLIENT_H
#define CAY_CLI_CLIENT_HTTP_CLIENT_H
/*
 * http - one HTTP/1.1 request over one connection, and its reply
 *
 * The server is not trusted: a head of more than HTTP_HEAD_MAX bytes, more than
 * HTTP_HEADERS_MAX headers, an interim status, an upgrade nobody asked for, a reply whose end
 * only the connection's end would tell, and bytes behind the reply are refused.
 * llhttp parses, strictly.
 *
 * Nothing here blocks but http_client_open() (bounded) and http_client_wait(): a caller that
 * moves several things at once polls h->fd itself for http_client_poll_events(), unless
 * http_client_has_buffered() says that bytes are here, calls http_client_flush() and
 * http_client_receive(), and takes the reply's body from h->body.  A pull adds at most HTTP_PIECE
 * bytes to it; whoever does not empty it does not pull.
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "cli/client/client-dial.h"
#include "http/http.h"

#define HTTP_PIECE KIB(16)

/* What cay reads of a head. */
struct http_client_headers {
	char type[64]; /* Content-Type */
	char exec[ID_TEXT_LEN + 1];
	char accept[32];  /* Sec-WebSocket-Accept */
	char session[64]; /* Mcp-Session-Id */
};

struct http_client {
	int fd;
	struct client_tls *tls; /* NULL: the bytes of fd are the bytes of HTTP */
	struct http_parser parser;
	struct buf out; /* to be sent; sent of it are */
	size_t sent;
	struct buf body;                    /* arrived, not taken yet */
	bool head_complete, reply_complete; /* the head, the whole reply is here */
	bool upgraded; /* after a 101: bytes of the other protocol go to body and from out */
	int status;
	struct http_client_headers reply_headers;
};

#define auto_http CAY_CLEANUP(http_client_fini) struct http_client
#define HTTP_INIT ((struct http_client){ .fd = -EBADF })

/* Everything until the connection stands happens before the deadline (boot ns). */
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
	const char *upgrade;               /* a protocol to go on in, or NULL */
	const char *ws_key, *ws_protocol;  /* of a WebSocket, or NULL */
	const char *extra_headers;         /* headers, each ended by CRLF, or NULL */
	uint64_t body_length; /* HTTP_CLIENT_CHUNKED, HTTP_CLIENT_NO_BODY or how many bytes will
				 follow */
};

/* Queue a request's head. */
[[nodiscard]] int http_client_queue_request(struct http_client *h,
					    const struct http_client_request *ask);
/* Queue a chunk; n = 0 is the last one. */
[[nodiscard]] int http_client_queue_chunk(struct http_client *h, const void *p, size_t n);

static inline bool http_client_has_unsent(const struct http_client *h)
{
	return h->sent < h->out.len;
}

/* Send what goes: 0, -EAGAIN when some is left, or the connection's error.  A
 * peer that reads no more has -EPIPE; its reply may still be there. */
[[nodiscard]] int http_client_flush(struct http_client *h);
/* Receive a piece: 0 when something came, -EAGAIN when nothing is there,
 * -ECONNRESET when the connection ended before the reply did, -EPROTO. */
[[nodiscard]] int http_client_receive(struct http_client *h, struct cay_err *err);
/* Wait for events of h->fd until the deadline (boot ns, UINT64_MAX: for ever).
 * -ETIMEDOUT; -EINTR when the user means it. */
[[nodiscard]] int http_client_wait(const struct http_client *h, short events, uint64_t deadline_ns,
				   struct interrupt *intr);
/* Whether a pull brings something that poll() does not see. */
bool http_client_has_buffered(const struct http_client *h);
/* What to poll h->fd for when these are wanted. */
short http_client_poll_events(const struct http_client *h, short events);
#endif
