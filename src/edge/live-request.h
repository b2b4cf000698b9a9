/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_LIVE_REQUEST_H
#define CAY_EDGE_LIVE_REQUEST_H
/*
 * guest - a request that is under way, for as long as whoever asked may
 *
 * Whoever lets a request stay (a relay, a tunnel, a WebSocket) has a guest in its own
 * struct from live_request_add() to live_request_remove().  Once in GUEST_LOOK_MS all of them are
 * looked at, and cut() is called of one whose key is not good any more, whose token or
 * JWT is over, whose sandbox is gone.  It takes two looks: control says that a key is
 * gone before it says how it goes on.  One timer for all of them; the list is bounded by
 * the connections there may be.
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
	CREDENTIAL_KINDS
};

/* What somebody was let in with; authenticate_request() fills it. */
struct credential {
	enum credential_kind kind;
	uint64_t until_ms; /* unix; PUSH_NEVER */
	uint8_t hash[32];  /* of a key */
	uint8_t signer;    /* of a token: which key signed it, and when we heard of that */
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
	/* It must end; why is for a client that has no answer yet.  Called from the loop, again
	 * for as long as it has not left; it may leave at once or later. */
	void (*end)(struct live_request *g, const struct cay_err *why);
};

[[nodiscard]] int live_requests_start_timer(struct edge *e, struct cay_err *err);
/* One look, which the timer has every GUEST_LOOK_MS. */
void live_requests_check_all(struct edge *e);
/* A request that admission_admit_request() let in, before anybody else has its data; to is what
 * control_state_enter_sandbox() was told of, or NULL. */
void live_request_add(struct edge *e, struct live_request *g, const struct request *rq,
		      const struct control_state_sandbox *to,
		      void (*cut)(struct live_request *g, const struct cay_err *why));
void live_request_remove(struct live_request *g);
#endif
