/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_GUEST_H
#define CAY_EDGE_GUEST_H
/*
 * guest - a request that is under way, for as long as whoever asked may
 *
 * Whoever lets a request stay (a relay, a tunnel, a WebSocket) has a guest in its own
 * struct from guest_enter() to guest_leave().  Once in GUEST_LOOK_MS all of them are
 * looked at, and cut() is called of one whose key is not good any more, whose token or
 * JWT is over, whose sandbox is gone.  It takes two looks: control says that a key is
 * gone before it says how it goes on.  One timer for all of them; the list is bounded by
 * the connections there may be.
 */
#include "net/server.h"

#define GUEST_LOOK_MS 1000

struct edge;
struct table_sandbox;

enum pass_kind { PASS_NONE, PASS_KEY, PASS_TOKEN, PASS_JWT, PASS_KINDS };

/* What somebody was let in with; who_asks() fills it. */
struct pass {
	enum pass_kind kind;
	uint64_t until_ms; /* unix; PUSH_NEVER */
	uint8_t hash[32];  /* of a key */
	uint8_t sign;      /* of a token: which key signed it, and when we heard of that */
	uint32_t born, epoch;
	uint8_t nonce[8];
	struct id sandbox;
};

struct guest {
	struct guest *prev, *next;
	struct edge *edge;
	struct pass pass;
	const struct table_sandbox *to; /* NULL: control */
	bool doubted, was_cut;
	/* It must end; why is for a client that has no answer yet.  Called from the loop, again
	 * for as long as it has not left; it may leave at once or later. */
	void (*cut)(struct guest *g, const struct cay_err *why);
};

[[nodiscard]] int guests_open(struct edge *e, struct cay_err *err);
/* One look, which the timer has every GUEST_LOOK_MS. */
void guests_look(struct edge *e);
/* A request that gate_admit() let in, before anybody else has its data; to is what
 * table_enter() was told of, or NULL. */
void guest_enter(struct edge *e, struct guest *g, const struct request *rq,
		 const struct table_sandbox *to,
		 void (*cut)(struct guest *g, const struct cay_err *why));
void guest_leave(struct guest *g);
#endif
