/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_LIVE_REQUEST_H
#define CAY_EDGE_LIVE_REQUEST_H
/*
 * live-request - a request in progress, ended when its credential expires
 *
 * A request that stays (a relay, a tunnel, a WebSocket) embeds one from live_request_add() to
 * live_request_remove().  Every LIVE_REQUEST_CHECK_MS all are checked, and end() is called for
 * those whose key, token or JWT is no longer valid or whose sandbox is gone.  It takes two
 * failed checks: while control re-sends a key, it is absent for a moment.  One timer for all;
 * the list is bounded by the number of connections.
 */
#include "net/server.h"

#define LIVE_REQUEST_CHECK_MS 1000

struct edge;
struct control_state_sandbox;

enum credential_kind {
	CREDENTIAL_NONE,
	CREDENTIAL_KEY,
	CREDENTIAL_TOKEN,
	CREDENTIAL_JWT,
	CREDENTIAL_EXPORT,
	CREDENTIAL_KINDS
};

/* The credential of a request; authenticate_request() fills it. */
struct credential {
	enum credential_kind kind;
	uint64_t until_ms; /* unix; PUSH_NEVER */
	uint8_t hash[32];  /* of a key; of an export, its tag */
	uint8_t signer;    /* of a token: the key that signed it, and its generation */
	uint32_t signer_generation, epoch;
	uint8_t nonce[8];
	struct id sandbox;
};

struct live_request {
	struct live_request *prev, *next;
	struct edge *edge;
	struct credential credential;
	const struct control_state_sandbox *sandbox; /* NULL: control */
	bool suspect, was_ended;
	/* End it; why is the error for a client without a reply.  Called from the loop, repeatedly
	 * until it is removed, which may happen at once or later. */
	void (*end)(struct live_request *g, const struct cay_err *why);
};

[[nodiscard]] int live_requests_start_timer(struct edge *e, struct cay_err *err);
/* One check, as the timer does it. */
void live_requests_check_all(struct edge *e);
/* For an admitted request, before rq->data is reused; `to` is the sandbox passed to
 * control_state_enter_sandbox(), or NULL. */
void live_request_add(struct edge *e, struct live_request *g, const struct request *rq,
		      const struct control_state_sandbox *to,
		      void (*cut)(struct live_request *g, const struct cay_err *why));
void live_request_remove(struct live_request *g);
#endif
