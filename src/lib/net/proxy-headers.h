/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_PROXY_HEADERS_H
#define CAY_NET_PROXY_HEADERS_H
/*
 * proxy-headers - rewrite headers between a client and a web server in a sandbox
 *
 * Neither side is trusted.  The server must not receive our credentials, the cookie of a
 * preview, or headers only a proxy may set.  The client must not receive headers that reach
 * beyond this one host: cookies of a parent domain, HSTS, Clear-Site-Data, Alt-Svc, or
 * commands to a proxy before us (X-Accel-Redirect).
 *
 * Below a path of the API (prefix) a reply has the API's own origin.  Only a few headers pass
 * there, none a browser acts on: no cookies, no scripts (CSP sandbox), and a Location must
 * stay below the prefix, because a client that follows it sends its key along.
 *
 * Framing is the caller's: Content-Length, Transfer-Encoding, Connection and Upgrade are never
 * copied from either side.  Pure.
 */
#include "http/http.h"

struct proxy_headers {
	const char *prefix; /* the API path, without a '/' at its end; NULL: a host of its own */
	const char *cookie; /* name of the preview cookie */
	const char *host;   /* Host sent to the server; NULL: localhost and its port */
	const char *scheme; /* of the client's URL; only with host */
	unsigned port;
	bool upgrade;            /* to WebSocket */
	bool drop_authorization; /* Authorization may hold a credential of ours in disguise */
};

/* Header lines for the server, including Host. */
[[nodiscard]] int proxy_headers_write_request(const struct proxy_headers *c,
					      const struct http_head *h, struct buf *out);
/* Header lines for the client. */
[[nodiscard]] int proxy_headers_write_reply(const struct proxy_headers *c,
					    const struct http_head *h, struct buf *out);

/* The value of the next cookie of that name, or p NULL when there is none.  `at` is the position, 0
 * at first: a client may send several. */
struct slice proxy_headers_find_cookie(const struct http_head *h, const char *name, size_t *at);
/* Whether a path stays below our prefix, however it is interpreted. */
bool proxy_path_is_confined(struct slice path);
#endif
