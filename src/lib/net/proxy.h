/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_PROXY_H
#define CAY_NET_PROXY_H
/*
 * proxy - forward a client's request to a web server in a sandbox
 *
 *	dial PID 1 -> "GET .../tunnel/PORT" -> 101 -> rewritten request -> reply
 *
 * The request is sent only after PID 1 has replied 101: before that, PID 1 would take it for
 * a request to itself.  A connection carries one request, so bytes after the reply are never
 * read.  Headers are rewritten by net/proxy-headers.h, framing is ours, a body is passed on
 * unread.  A WebSocket both sides agree on becomes a tunnel.
 *
 * Failures are those of net/relay.h; a refusal by PID 1 is CAY_E_PORT.  Takes the request.
 * Bounded as net/forward.h says, and by PROXY_HEAD_MS for the reply's head.
 */
#include "net/forward.h"
#include "net/proxy-headers.h"

#define PROXY_DIAL_MS 10000
#define PROXY_HEAD_MS 120000

struct proxy_conf {
	const char *path;             /* of the sandbox's socket */
	const char *sandbox;          /* its id as text */
	struct proxy_headers headers; /* its strings must live until done */
	struct slice target;          /* target sent to the server */
	struct forward_handle *handle;
	void (*done)(void *arg); /* called once, last */
	void *arg;
};

void proxy_start(struct request *rq, const struct proxy_conf *conf);
#endif
