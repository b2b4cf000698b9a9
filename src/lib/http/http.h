/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_HTTP_HTTP_H
#define CAY_HTTP_HTTP_H
/*
 * http - HTTP/1.1 messages out of bytes, in either direction
 *
 * llhttp in strict mode reads headers and chunks.  What it lets through but two
 * readers of the same bytes could take differently is refused here: there is one
 * spelling of a request line, exactly one Host, one way to say how long a body
 * is.  No I/O and no clock: the caller hands in bytes, in any pieces, and pulls
 * events out, so back-pressure is not calling.
 *
 *	while ((r = http_parser_next(&p, &in, &body, &err)) > HTTP_MORE)
 *		...HTTP_HEAD, HTTP_BODY..., HTTP_END
 *
 * Behind HTTP_END, in holds what follows; http_parser_reset() makes the parser ready for
 * the next message.  Bounded: HTTP_HEAD_MAX bytes and HTTP_HEADERS_MAX headers,
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
#define HTTP_INTERIM_MAX 4 /* 1xx responses in front of the real one */
#define HTTP_PROTOCOL_MAX 32

enum http_kind { HTTP_KIND_REQUEST, HTTP_KIND_RESPONSE };
enum http_event { HTTP_MORE, HTTP_HEAD_DONE, HTTP_BODY, HTTP_END };
enum http_framing { HTTP_EMPTY, HTTP_LENGTH, HTTP_CHUNKED, HTTP_UNTIL_END };

struct http_header {
	struct slice name, value; /* as sent, white space around the value off */
};

/* Slices point into the parser and live until http_parser_reset(). */
struct http_head {
	struct slice method, target; /* of a request */
	unsigned status;             /* of a response */
	unsigned minor;              /* of the version: 0 or 1 */
	enum http_framing framing;
	uint64_t length; /* with HTTP_LENGTH */
	bool has_length; /* it was said; of a reply to HEAD, of what is not there */
	bool keep_alive; /* both sides may go on after this message */
	bool expect;     /* the client waits for "100 Continue" */
	/* The one protocol a GET asks to go on in, or a 101 goes on in; n 0: none.  Who
	 * does not follow answers as if it were not there. */
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
	uint64_t left;                 /* of a body with a length */
	size_t line;                   /* bytes since the last one of a chunk */
	struct slice span;             /* what llhttp handed out last */
	bool done;                     /* the last chunk is over */
	bool may_upgrade;              /* a 101 is an answer to what was asked */
	bool until_end_allowed;        /* the end of the connection may be that of the body */
	bool reply_to_head;            /* what was asked was HEAD: there is no body */
	unsigned seen;                 /* which of the headers we know were there */
};

void http_parser_init(struct http_parser *p, enum http_kind kind);
/* The request asked for another protocol, so a 101 is a final answer: behind its
 * HTTP_END, in holds bytes of that protocol.  Otherwise a 101 is a failure. */
void http_parser_allow_upgrade(struct http_parser *p);
/* Fail at a 1xx response instead of skipping up to HTTP_INTERIM_MAX of them. */
void http_parser_refuse_interim(struct http_parser *p);
/* The response is one of somebody's web server: it may end with its connection
 * (HTTP_UNTIL_END: there is no HTTP_END, the caller sees it).  to_head: it is the answer to
 * a HEAD, and has no body whatever it says. */
void http_parser_set_web_server(struct http_parser *p, bool to_head);
/* Ready for another message; the head is forgotten. */
void http_parser_reset(struct http_parser *p);
void http_parser_fini(struct http_parser *p);

/* Take bytes from the front of *in up to one event.  HTTP_MORE means that all
 * were taken.  After a failure (CAY_E_HEADERS past a limit, CAY_E_INVALID, or
 * CAY_E_NO_MEMORY) the parser is good for http_parser_fini() only. */
[[nodiscard]] int http_parser_next(struct http_parser *p, struct slice *in, struct slice *ret_body,
				   struct cay_err *err);
/* True between messages: the end of input here is nobody's fault. */
bool http_parser_is_idle(const struct http_parser *p);
/* True from HTTP_END to http_parser_reset(). */
bool http_parser_has_ended(const struct http_parser *p);

/* The first header of that name, or one with p NULL. */
struct slice http_header_find(const struct http_head *h, const char *name);
/* Is this media type named in Accept?  Wildcards do not count: they say that
 * anything will do, not that somebody wants this. */
bool http_accepts_media_type(const struct http_head *h, const char *media);
/* Is this named in Prefer?  Who does not know it ignores it, so it may be sent to anybody,
 * and a PID 1 of an older version is one of those. */
bool http_prefers(const struct http_head *h, const char *what);
/* Of exec.run and shell.run: when whoever waits leaves, the command is ended. */
#define HTTP_END_WITH_CALLER "end-with-caller"
/* "SCHEME://HOST[:PORT]" of http or https, and nothing behind it; its host as a Host header has
 * it, or one with p NULL. */
struct slice http_origin_parse_host(struct slice origin);
/* Does text equal the literal, whatever its case? */
bool http_equals_nocase(struct slice s, const char *lower);
#endif
