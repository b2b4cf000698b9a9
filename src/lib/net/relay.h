/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_RELAY_H
#define CAY_NET_RELAY_H
/*
 * relay - a request carried to another program, and what comes back to the client
 *
 * That program is a sandbox's, or control.  The head is written anew from what was
 * parsed: method, target, the few headers that mean something there, those of the
 * caller's own, nothing else.  The answer is bytes of a stranger: its head is parsed
 * with http's limits and a deadline, the headers in a table are let through, its body
 * is moved and never looked at.
 *
 * To a sandbox (path) a connection per request.  To control (upstream) connections
 * are kept; a GET that finds its connection just closed is sent once more.
 *
 * Failures are replies of ours for as long as net/forward.h can make them: nobody listens
 * (CAY_E_UNAVAILABLE), what came is not HTTP (CAY_E_MISBEHAVED; of control
 * CAY_E_UNAVAILABLE), nothing came (CAY_E_TIMEOUT).
 *
 * Where upgrade is set, a request to go on in another protocol is carried too.  When
 * the answer is a 101 to that very protocol, both connections become a tunnel; any
 * other answer is an ordinary one.
 *
 * Bounded as a carry is.  Takes the request: the caller must not touch it again.  Its
 * body must come raw (server_conf's inside, or raw).
 */
#include "net/forward.h"
#include "net/upstream-pool.h"

struct relay_header {
	const char *name, *value; /* printable ASCII */
};

struct relay_conf {
	const char *path;               /* of a sandbox's socket */
	struct upstream_pool *upstream; /* instead of path */
	const char *name;               /* of who is there; NULL: control */
	bool upgrade;                   /* the operation may go on in another protocol */
	/* It is asked to go on in this one, whatever the client has named; the client's
	 * handshake stays here.  When it does, both are handed over instead of becoming a
	 * tunnel, and `done` is the taker's to tell, as ending it is: hold is empty.  bytes: what
	 * it said already. */
	const char *protocol;
	void (*upgraded)(struct request *rq, struct conn *there, struct slice bytes, void *arg);
	/* Added to the request: what the caller knows and a client could not say. */
	const struct relay_header *headers;
	size_t n_headers;
	uint64_t head_timeout_ms; /* for the answer's head once the request is sent; 0 = for ever */
	struct forward_handle *handle; /* may be NULL */
	/* Told once, last, when both ends are over; may be NULL. */
	void (*done)(void *arg);
	void *arg;
};

void relay_start(struct request *rq, const struct relay_conf *conf);
#endif
