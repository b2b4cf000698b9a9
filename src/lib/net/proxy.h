/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_PROXY_H
#define CAY_NET_PROXY_H
/*
 * proxy - a request of the world's to a web server in a sandbox
 *
 *	dial PID 1 -> "GET .../tunnel/PORT" -> 101 -> the request, written anew -> its answer
 *
 * Nothing of the request is sent before PID 1 has said 101: what it took for another
 * request would be one to PID 1.  A connection carries one request; so whatever the server
 * says behind its answer is read by nobody.  Head lines are net/proxy-headers.h's, framing is ours,
 * a body is moved and never looked at.  A WebSocket that both want becomes a tunnel.
 *
 * Failures are those of net/relay.h; what PID 1 refuses is CAY_E_PORT.  Takes the request.
 * Bounded as a carry is, and by PROXY_HEAD_MS for the answer's head.
 */
#include "net/forward.h"
#include "net/proxy-headers.h"

#define PROXY_DIAL_MS 10000
#define PROXY_HEAD_MS 120000

struct proxy_conf {
	const char *path;             /* of the sandbox's socket */
	const char *sandbox;          /* its id as text */
	struct proxy_headers headers; /* its texts live until done */
	struct slice target;          /* what the server is asked for */
	struct forward_handle *handle;
	void (*done)(void *arg); /* told once, last */
	void *arg;
};

void proxy_start(struct request *rq, const struct proxy_conf *conf);
#endif
