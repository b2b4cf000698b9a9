/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_INSPECTION_H
#define CAY_EGRESS_INSPECTION_H
/*
 * inspection - a connection whose requests are read
 *
 *	program ── TLS by a certificate of the sandbox's CA, or plain on port 80 ──► inspection
 *	inspection ── requests with new heads ──► cay-broker, which does TLS
 *	inspection ── requests with new heads ──► the host, on port 80
 *
 * Each request is parsed strictly, must be for the host that was dialled, and is judged by the
 * policy of that moment.  One that is denied gets a reply 403 that says why, and the connection
 * ends.  One that is allowed is passed on with a head that is written from what was parsed, so host
 * and policy read the same.  The next is read when the reply is complete.
 *
 * The host is dialled for the first request that is allowed, and again when another credential is
 * to be set or the host has closed.  After a reply 101 to a request for WebSocket, bytes pass
 * unread.
 *
 * Bounded: a head each way, and INSPECTION_MARK and one read each way while a side stalls.
 */
#include "egress/egress.h"

#define INSPECTION_MARK KIB(64)

struct inspection;
struct http_head;

struct inspection_conf {
	struct egress_sandbox *sandbox;
	const struct host_name *name;
	uint16_t port;
	bool approved; /* where the policy asks */
	/* Connect to the host; inspection_set_host() or inspection_refuse() follows. */
	void (*dial)(void *arg);
	/* A request was refused, for this reason of the log; it has its reply. */
	void (*denied)(void *arg, const struct http_head *head, const struct egress_verdict *by,
		       const char *why);
	/* The connection cannot go on; inspection_refuse() follows. */
	void (*failed)(void *arg, const char *why);
	/* The last call. */
	void (*done)(void *arg);
	void *arg;
};

[[nodiscard]] struct inspection *inspection_new(const struct inspection_conf *conf);
/* Takes the connection, which has sent these bytes; may call the functions above. */
void inspection_start(struct inspection *i, struct conn *inside, struct slice read);
/* Takes a connection to the host. */
void inspection_set_host(struct inspection *i, struct conn *host);
/* End it; a request that waits for its host gets a reply with the reason, and otherwise both peers
 * see a reset.  done() is called. */
void inspection_refuse(struct inspection *i, const char *why);
/* The policy has changed: false if the request that is under way is denied now. */
[[nodiscard]] bool inspection_is_allowed(struct inspection *i, struct egress_verdict *ret);
/* The meter has room again. */
void inspection_move_again(struct inspection *i);
void inspection_get_moved(const struct inspection *i, uint64_t *ret_up, uint64_t *ret_down);
#endif
