/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_RELAY_H
#define CAY_NET_RELAY_H
/*
 * relay - a request carried to a sandbox, and what comes back carried to the client
 *
 * One connection per request.  The head is written anew from what was parsed:
 * method, target, the few headers that mean something inside, nothing else.  The
 * answer is bytes of a stranger: its head is parsed with http's limits and a
 * deadline, the headers in a table are let through, its body is moved and never
 * looked at.
 *
 * Until the answer's head is there a failure is a reply of ours: nobody listens
 * (CAY_E_UNAVAILABLE), what came is not HTTP (CAY_E_MISBEHAVED), nothing came
 * (CAY_E_TIMEOUT).  After it the client's connection is closed in the middle,
 * which no HTTP client takes for the end.  A client that leaves closes the
 * connection to the sandbox, so cay-init notices too.
 *
 * Bounded: one read (64 KiB) plus the request's output mark towards the client,
 * RELAY_MARK plus one piece towards the sandbox.  Takes the request: the caller
 * must not touch it again.
 */
#include "net/server.h"

#define RELAY_MARK KIB(64)

struct relay_conf {
	const char *path;         /* of the sandbox's socket */
	uint64_t head_timeout_ms; /* for the answer's head once the request is sent; 0 = for ever */
	/* Told once, last, when both ends are over; may be NULL. */
	void (*done)(void *arg);
	void *arg;
};

void relay_start(struct request *rq, const struct relay_conf *conf);
#endif
