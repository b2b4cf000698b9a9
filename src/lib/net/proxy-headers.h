/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_PROXY_HEADERS_H
#define CAY_NET_PROXY_HEADERS_H
/*
 * clean - headers between the world and a web server in a sandbox, written anew
 *
 * Both are strangers.  The server must not get what is ours: credentials, the cookie of
 * a preview, headers that only a proxy says.  The world must not get from it what speaks
 * for more than this one host: cookies of a parent domain, HSTS, Clear-Site-Data, Alt-Svc,
 * or orders to a proxy in front of us (X-Accel-Redirect).
 *
 * Below a path of the API (prefix) a reply stands on the API's own origin.  There only a
 * few headers pass, none that a browser acts on: no cookies, no scripts (CSP sandbox), and
 * a Location leads nowhere but below the prefix, because a client that follows it sends
 * its key along.
 *
 * Framing is not here: Content-Length, Transfer-Encoding, Connection and Upgrade are the
 * caller's, in both directions, and never a stranger's.  Pure.
 */
#include "http/http.h"

struct proxy_headers {
	const char *prefix; /* of the API's path, without '/' at its end; NULL: a host of its own */
	const char *cookie; /* name of ours */
	const char *host;   /* what the server is told; NULL: localhost and its port */
	const char *scheme; /* of the URL the client has; with host */
	unsigned port;
	bool upgrade;            /* to a WebSocket */
	bool drop_authorization; /* Authorization may be a credential of ours that does not look
				    like one */
};

/* Header lines for the server, Host among them. */
[[nodiscard]] int proxy_headers_write_request(const struct proxy_headers *c,
					      const struct http_head *h, struct buf *out);
/* Header lines for the client. */
[[nodiscard]] int proxy_headers_write_reply(const struct proxy_headers *c,
					    const struct http_head *h, struct buf *out);

/* The value of the one cookie of that name, or one with p NULL: none, or more than one.
 * `at` is where to go on, 0 at first: it may be there several times. */
struct slice proxy_headers_find_cookie(const struct http_head *h, const char *name, size_t *at);
/* Whether a path below ours stays there, however it is read. */
bool proxy_path_is_confined(struct slice path);
#endif
