/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_HTTP_HTTP_H
#define CAY_HTTP_HTTP_H
/*
 * http - parse HTTP/1.1 requests and responses
 *
 * llhttp in strict mode parses headers and chunks.  Messages it accepts but that two parsers
 * could read differently are refused here: there is one spelling of a request line, exactly
 * one Host, one way to give the length of a body.  No I/O and no clock: the caller feeds
 * bytes in pieces of any size and pulls events; to apply back-pressure it does not call.
 *
 *	while ((r = http_parser_next(&p, &in, &body, &err)) > HTTP_MORE)
 *		...HTTP_HEAD, HTTP_BODY..., HTTP_END
 *
 * After HTTP_END, in holds the bytes after the message; http_parser_reset() prepares for the
 * next one.  Bounded: HTTP_HEAD_MAX bytes and HTTP_HEADERS_MAX headers,
 * 32 bytes a chunk line, no extensions, no trailers.
 */
#include <llhttp.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define HTTP_HEAD_MAX KIB(16)
#define HTTP_HEADERS_MAX 64
#define HTTP_TARGET_MAX KIB(8)
#define HTTP_LENGTH_DIGITS 15
#define HTTP_CHUNK_MAX (UINT64_C(1) << 40)
#define HTTP_CHUNK_LINE_MAX 32
#define HTTP_INTERIM_MAX 4 /* 1xx responses before the final one */
#define HTTP_PROTOCOL_MAX 32

enum http_kind { HTTP_KIND_REQUEST, HTTP_KIND_RESPONSE };
enum http_event { HTTP_MORE, HTTP_HEAD_DONE, HTTP_BODY, HTTP_END };
enum http_framing { HTTP_EMPTY, HTTP_LENGTH, HTTP_CHUNKED, HTTP_UNTIL_END };

struct http_header {
	struct slice name, value; /* as sent; the value without white space around it */
};

/* Slices point into the parser and are valid until http_parser_reset(). */
struct http_head {
	struct slice method, target; /* of a request */
	unsigned status;             /* of a response */
	unsigned minor;              /* of the version: 0 or 1 */
	enum http_framing framing;
	uint64_t length; /* with HTTP_LENGTH */
	bool has_length; /* there was a Content-Length, also in a reply to HEAD */
	bool keep_alive; /* the connection may carry another message */
	bool expect;     /* the client waits for "100 Continue" */
	/* The protocol a GET asks to switch to, or a 101 switches to; n 0: none.  A server that
	 * does not support it replies as if it were absent. */
	struct slice upgrade;
	size_t n_headers;
	struct http_header headers[HTTP_HEADERS_MAX];
};

struct http_parser {
	enum http_kind kind;
	llhttp_t ll;
	struct buf raw; /* the head's bytes */
	struct http_head head;
	unsigned state;
	unsigned interim, interim_max; /* 1xx responses so far, and the most there may be */
	unsigned breaks;               /* line ends in a row, while in the head */
	uint64_t left;                 /* of a body; UINT64_MAX: until the connection ends */
	size_t line;                   /* bytes since the last one of a chunk */
	struct slice span;             /* what llhttp handed out last */
	bool done;                     /* the last chunk was parsed */
	bool may_upgrade;              /* the request asked for an upgrade: accept a 101 */
	bool until_end_allowed;        /* the body may end with the connection */
	bool reply_to_head;            /* the request was HEAD: there is no body */
	unsigned seen;                 /* SEEN_* bits of known headers */
};

void http_parser_init(struct http_parser *p, enum http_kind kind);
/* The request asked for another protocol, so a 101 is a final response: after its HTTP_END,
 * in holds bytes of that protocol.  Otherwise a 101 is a failure. */
void http_parser_allow_upgrade(struct http_parser *p);
/* Fail at a 1xx response instead of skipping up to HTTP_INTERIM_MAX of them. */
void http_parser_refuse_interim(struct http_parser *p);
/* The response is of a web server in a sandbox: its body may end with the connection
 * (HTTP_UNTIL_END: there is no HTTP_END).  to_head: it replies to a HEAD and has no body at all. */
void http_parser_set_web_server(struct http_parser *p, bool to_head);
/* Prepare for another message; the head becomes invalid. */
void http_parser_reset(struct http_parser *p);
void http_parser_fini(struct http_parser *p);

/* Consume bytes from the front of *in up to one event; HTTP_MORE: all were consumed.  After
 * a failure (CAY_E_HEADERS past a limit, CAY_E_INVALID, or CAY_E_NO_MEMORY) only
 * http_parser_fini() and http_parser_refused_head() may be called. */
[[nodiscard]] int http_parser_next(struct http_parser *p, struct slice *in, struct slice *body,
				   struct cay_err *err);
/* After CAY_E_HEADERS: the first bytes of the head, not checked, cut off anywhere. */
struct slice http_parser_refused_head(const struct http_parser *p);
/* True between messages, where the connection may end. */
bool http_parser_is_idle(const struct http_parser *p);
/* True from HTTP_END to http_parser_reset(). */
bool http_parser_has_ended(const struct http_parser *p);

/* The first header of that name, or one with p NULL. */
struct slice http_header_find(const struct http_head *h, const char *name);
/* Whether Accept names this media type.  Wildcards, which request nothing, do not count. */
bool http_accepts_media_type(const struct http_head *h, const char *media);
/* Whether Prefer names this.  A PID 1 of an older version ignores unknown preferences. */
bool http_prefers(const struct http_head *h, const char *what);
/* Of exec.run and shell.run: end the command when the waiting client disconnects. */
#define HTTP_END_WITH_CALLER "end-with-caller"
/* The host and port of "http[s]://HOST[:PORT]"; p NULL when the text has another form. */
struct slice http_origin_parse_host(struct slice origin);
/* Compare ignoring case; the second text must be lower case. */
bool http_equals_nocase(struct slice s, const char *lower);
#endif
