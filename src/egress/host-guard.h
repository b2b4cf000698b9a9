/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_HOST_GUARD_H
#define CAY_EGRESS_HOST_GUARD_H
/*
 * host-guard - a filter of connections to port 80: each request is for the host that was dialled
 *
 * A server may have several sites behind one address, and chooses by the header Host.  So each
 * request is parsed strictly (http/http.h), and its bytes are passed on unchanged once its head has
 * the right Host.  A request for another host, and bytes that are no such request, end the
 * connection.
 *
 * The first request may ask for WebSocket.  Bytes behind it wait for the reply: with a 101 the rest
 * of the connection passes unread, otherwise it is HTTP as before.  A request for another protocol
 * passes as any other: in HTTP/2 each request has a host of its own, so bytes of it are refused.
 *
 * Bounded: a head, and CONN_READ bytes behind a request for WebSocket.
 */
#include "egress/host-name.h"
#include "net/conn-filter.h"
#include "net/conn.h"

struct host_guard_layer {
	struct conn_layer layer; /* host_guard_attach */
	const struct host_name *name;
	/* Called at most once, instead of passing bytes on; it closes the connection. */
	void (*refused)(void *arg, const char *why);
	void *arg;
};

[[nodiscard]] int host_guard_attach(const struct conn_layer *layer, struct conn *c);
#endif
