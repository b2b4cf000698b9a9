/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_CREATE_CREATE_H
#define CAY_CAYD_CREATE_CREATE_H
/*
 * create - requests for a sandbox, and their queue
 *
 * Requests that cannot be served soon are refused at once with Retry-After
 * (life/create-queue.h).  Nothing of a sandbox exists before its turn: a client that leaves the
 * queue costs nothing, and a request that waited too long is refused.
 */
#include "cayd/sandbox/sandbox.h"

struct actor;
struct arena;
struct create_turn;

struct create_turn_events {
	/* Create now: hand the turn to create_at_turn(), or leave. */
	void (*start)(void *arg, struct create_turn *turn);
	/* It waited too long and has left the queue. */
	void (*expire)(void *arg, const struct cay_err *err);
};

typedef void create_again_fn(struct cayd *c, struct request *rq);

/* create.c, for batch.c: the steps of a create. */
[[nodiscard]] int create_read_key(const struct request *rq, struct idempotency_key *ret,
				  struct cay_err *err);
/* Merge the request with its template and have its image and packages.  *ret is
 * the sandbox that an earlier request with this key or name has created.  False: the request was
 * answered, or `again` is called once the rest is there. */
[[nodiscard]] bool create_prepare(struct cayd *c, struct request *rq,
				  const struct idempotency_key *key, create_again_fn *again,
				  struct sandbox_create *spec, struct sandbox **ret);
/* Check the room, count it against the tenant's rate, and take a warm sandbox; *ret stays NULL
 * without one. */
[[nodiscard]] int create_claim(struct cayd *c, const struct id *tenant,
			       const struct sandbox_create *spec, const struct idempotency_key *key,
			       struct sandbox **ret, struct cay_err *err);
/* Wait for a turn in the queue; creates_run_queue() starts it, perhaps at once. */
[[nodiscard]] int create_turn_enter(struct cayd *c, const struct id *tenant,
				    const struct create_turn_events *events, void *arg,
				    struct create_turn **ret, struct cay_err *err);
void create_turn_leave(struct create_turn *t);
void creates_run_queue(struct cayd *c);
/* Takes the turn, also on failure. */
[[nodiscard]] int create_at_turn(struct cayd *c, const struct actor *actor,
				 const struct sandbox_create *asked,
				 const struct idempotency_key *key, struct arena *arena,
				 struct create_turn *turn, struct sandbox **ret,
				 struct cay_err *err);

/* batch.c, for fork.c: whether rq->body, a struct sandbox_create, can be created several times; and
 * do so, replying with a stream.  names: one for each, or none; snapshot: of the fork, or no noun.
 */
[[nodiscard]] int batch_check(const struct request *rq, struct idempotency_key *key,
			      struct cay_err *err);
void batch_start(struct cayd *c, struct request *rq, uint64_t count,
		 const struct field_texts *names, const struct id *snapshot);

[[nodiscard]] int creates_open(struct cayd *c, struct cay_err *err);
/* Observer: once the sandbox is not pending any more, the next create can start. */
void create_slot_release(struct sandbox *sb);
/* Periodic sweep: refuse creates that have waited too long. */
void creates_expire_waiting(struct cayd *c, uint64_t now);
const struct create_queue *creates_get_queue(const struct cayd *c);
/* For one that starts at its turn: the slot becomes the sandbox's, see create_slot_release(). */
struct create_slot *create_turn_take_slot(struct create_turn *t);
struct cayd *create_turn_cayd(const struct create_turn *t);

/* stop-start.c: whether its tenant may have one more that is stopped, because it holds a place of
 * the node for as long as its tenant likes. */
[[nodiscard]] int stop_check_number(const struct cayd *c, const struct sandbox *sb,
				    struct cay_err *err);
/* Start the sandbox of the request when it has its turn, and reply when it runs.  It is counted
 * against the tenant's rate already (tenant_take_create()). */
void start_wait_for_turn(struct cayd *c, struct request *rq);
[[nodiscard]] int start_count(struct cayd *c, const struct id *tenant, struct cay_err *err);
/* Wait for a turn to start a sandbox, and begin at it.  Takes the turn, also on
 * failure; one that is starting already only loses it. */
[[nodiscard]] int start_turn_enter(struct cayd *c, const struct id *tenant,
				   const struct create_turn_events *events, void *arg,
				   struct create_turn **ret, struct cay_err *err);
[[nodiscard]] int start_at_turn(struct cayd *c, struct sandbox *sb, struct create_turn *turn,
				struct cay_err *err);
/* wake.c: have a request to the inside of a sandbox wait until it runs, if it may start it; then
 * sandbox_relay_start() carries it out. */
[[nodiscard]] bool wake_for_request(struct cayd *c, struct request *rq, struct sandbox *sb);
void wakes_expire_waiting(struct cayd *c, uint64_t now);
/* reclaim.c: periodic sweep, of sandboxes that have dozed for a while. */
void reclaims_sweep(struct cayd *c, uint64_t now);
#endif
