/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_RELAY_H
#define CAY_NET_RELAY_H
/*
 * relay - forward a request to another program, and its reply to the client
 *
 * That program is PID 1 of a sandbox, or control.  The head is rewritten from the parsed request:
 * method, target, the headers in a table, those of the caller, nothing else.  The reply is
 * untrusted: its head is parsed with http's limits and a deadline, the headers in a table pass, the
 * body is passed on unread.
 *
 * A sandbox (path) gets a connection per request.  Connections to control (upstream) are pooled; a
 * GET whose connection turns out to be closed is sent once more.
 *
 * Failures are error replies for as long as net/forward.h can send them: no connection
 * (CAY_E_UNAVAILABLE), a reply that is not HTTP (CAY_E_MISBEHAVED; from control CAY_E_UNAVAILABLE),
 * no reply (CAY_E_TIMEOUT).
 *
 * With upgrade set, a request to switch protocols is forwarded as well.  When the reply is a 101 to
 * that very protocol, both connections become a tunnel; any other reply is an ordinary one.
 *
 * Bounded as net/forward.h says.  Takes the request: the caller must not touch it again.  Its body
 * must come raw (server_conf's sandbox_handler or raw).
 */
#include "net/forward.h"
#include "net/upstream-pool.h"

struct relay_header {
	const char *name, *value; /* printable ASCII */
};

struct relay_conf {
	const char *path;               /* of a sandbox's socket */
	struct upstream_pool *upstream; /* instead of path */
	const char *target;             /* instead of the request's */
	const char *name;               /* of the other program, for messages; NULL: control */
	bool body_is_paused;            /* by the caller; it is resumed */
	bool upgrade;                   /* the operation may switch protocols */
	/* Request this protocol, whatever the client named; the client's handshake is not
	 * forwarded.  On a 101 the request and the connection are passed to `upgraded` instead of
	 * becoming a tunnel, which then has to call `done` and to end it: handle is empty.  bytes:
	 * input received already. */
	const char *protocol;
	void (*upgraded)(struct request *rq, struct conn *there, struct slice bytes, void *arg);
	/* Headers added to the request, which a client cannot set. */
	const struct relay_header *headers;
	size_t n_headers;
	uint64_t head_timeout_ms; /* for the reply's head once the request is sent; 0 = no limit */
	struct forward_handle *handle; /* may be NULL */
	/* Called once, last, when both connections are closed; may be NULL. */
	void (*done)(void *arg);
	void *arg;
};

void relay_start(struct request *rq, const struct relay_conf *conf);
#endif
