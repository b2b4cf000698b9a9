/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch - many creates of one request, each with its own outcome
 *
 * Children are created like single sandboxes, at most BATCH_RUNNING at once, and take turns with
 * those of other tenants in the queue of creates.  While the node is busy, or the tenant's rate is
 * used up, the batch waits and tries again, as a client would have to.  An outcome is sent when the
 * journal has it.  If the client leaves, no further child starts.
 */
#include <stdio.h>

#include "cayd/core/handlers.h"
#include "cayd/core/hooks.h"
#include "cayd/core/list.h"
#include "cayd/create/create.h"
#include "cayd/snapshot/snapshot.h"
#include "cayd/template/pool.h"
#include "cayd/template/template.h"
#include "cayd/tenant/api-key.h"

#define BATCH_RUNNING 16
#define PAUSE_MS 100
#define TRIES_MAX 600    /* of a child, before its refusal is its outcome */
#define KEY_SUFFIX_MAX 5 /* ".999" */

struct batch {
	struct cayd *cayd;
	struct request *rq;
	struct batch_child *children; /* under way */
	unsigned running;
	uint64_t next, count;     /* the next to start; all */
	bool full;                /* the client does not read; drain continues */
	struct field_texts names; /* one for each child, or none */
	struct id snapshot;       /* of a fork: it is removed at the end */
	uv_timer_t timer;
};

struct batch_child {
	struct batch_child *next;
	struct batch *batch;
	uint64_t index;
	unsigned tries;
	bool again; /* it was refused for now: it has neither of the last two members */
	char key_text[IDEMPOTENCY_KEY_MAX + 1];
	struct idempotency_key key;
	struct create_turn *turn;      /* while it waits for its turn */
	struct sandbox_waiter *waiter; /* while its sandbox starts */
};

static void on_batch_closed(uv_handle_t *h)
{
	free(h->data);
}

static void batch_run(struct batch *b);

static void on_batch_timer(uv_timer_t *t)
{
	batch_run(t->data);
}

/* From a timer: a child may have its outcome at once, and so may the next. */
static void batch_schedule(struct batch *b, uint64_t ms)
{
	(void)uv_timer_start(&b->timer, on_batch_timer, ms, 0);
}

static void batch_child_free(struct batch_child *k)
{
	LIST_UNLINK(k->batch->children, k, next);
	k->batch->running--;
	free(k);
}

static void batch_end(struct batch *b)
{
	struct batch_child *k;

	while ((k = b->children)) {
		b->children = k->next;
		if (k->turn)
			create_turn_leave(k->turn);
		if (k->waiter)
			sandbox_wait_cancel(k->waiter);
		free(k);
	}
	if (b->snapshot.noun != ID_NONE)
		snapshot_remove_fork(b->cayd, &b->snapshot);
	uv_close((uv_handle_t *)&b->timer, on_batch_closed);
}

static struct sandbox_create batch_child_request(const struct batch_child *k)
{
	const struct batch *b = k->batch;
	struct sandbox_create asked = *(const struct sandbox_create *)b->rq->body;

	if (k->index < b->names.n)
		asked.name = b->names.v[k->index];
	return asked;
}

/* Frees the child. */
static void batch_child_finish(struct batch_child *k, const struct sandbox_outcome *outcome)
{
	struct batch *b = k->batch;

	batch_child_free(k);
	if (request_write_event(b->rq, &sandbox_outcome_table, outcome, &b->full) >= 0) {
		batch_schedule(b, 0);
		return;
	}
	/* without this outcome the reply would not be whole */
	request_abort(cay_take(b->rq));
	batch_end(b);
}

static void batch_child_fail(struct batch_child *k, const struct cay_err *err)
{
	struct sandbox_outcome outcome = { .index = k->index,
					   .has_error = true,
					   .error = error_object_from(err, k->batch->rq->id) };

	batch_child_finish(k, &outcome);
}

static void batch_child_succeed(struct batch_child *k, struct sandbox *sb)
{
	struct batch *b = k->batch;
	struct sandbox_outcome outcome = { .index = k->index,
					   .has_sandbox = true,
					   .sandbox = *sandbox_describe(sb) };

	b->rq->target = sb->info.id;
	b->cayd->hooks->one_of_many_created(b->cayd, b->rq);
	batch_child_finish(k, &outcome);
}

static void on_batch_child_ready(void *arg, struct sandbox *sb)
{
	struct batch_child *k = arg;
	const struct sandbox_create *asked = k->batch->rq->body;
	const struct cay_err *err =
		sandbox_wait_failure(sb, asked->wait ? WAIT_STARTED : WAIT_SAVED);

	k->waiter = NULL;
	if (err->code)
		batch_child_fail(k, err);
	else
		batch_child_succeed(k, sb);
}

static void batch_child_wait(struct batch_child *k, struct sandbox *sb)
{
	const struct actor *actor = &k->batch->rq->actor;
	const struct sandbox_create *asked = k->batch->rq->body;
	struct cay_err err = {};
	int r;

	if (!actor_has_group(actor, sb->info.group)) {
		(void)cay_fail(&err, CAY_E_CONFLICT,
			       "another group of the tenant uses this Idempotency-Key");
		batch_child_fail(k, &err);
		return;
	}
	r = sandbox_wait(sb, asked->wait ? WAIT_STARTED : WAIT_SAVED, on_batch_child_ready, k,
			 &k->waiter);
	if (r > 0)
		on_batch_child_ready(k, sb);
	else if (r < 0) {
		(void)cay_no_memory(&err);
		batch_child_fail(k, &err);
	}
}

static void on_batch_child_turn(void *arg, struct create_turn *turn)
{
	auto_arena arena = ARENA_INIT(SERVER_POOL_MAX);
	struct batch_child *k = arg;
	struct sandbox_create asked = batch_child_request(k);
	struct request *rq = k->batch->rq;
	struct cay_err err = {};
	struct sandbox *sb = NULL;

	k->turn = NULL;
	if (create_at_turn(k->batch->cayd, &rq->actor, &asked, &k->key, &arena, turn, &sb, &err) <
	    0)
		batch_child_fail(k, &err);
	else
		batch_child_wait(k, sb);
}

/* Whether it is tried again; else the refusal is its outcome. */
static bool batch_child_wait_for_room(struct batch_child *k, const struct cay_err *err)
{
	k->again = (err->code == CAY_E_RATE || err->code == CAY_E_OVERLOADED) &&
		   ++k->tries < TRIES_MAX;
	if (k->again)
		batch_schedule(k->batch, PAUSE_MS);
	return k->again;
}

static void on_batch_child_expired(void *arg, const struct cay_err *err)
{
	struct batch_child *k = arg;

	k->turn = NULL;
	if (!batch_child_wait_for_room(k, err))
		batch_child_fail(k, err);
}

/* The child's sandbox if there is one already, else a turn in the queue. */
static int batch_child_begin(struct batch_child *k, struct sandbox **ret, struct cay_err *err)
{
	static const struct create_turn_events events = { on_batch_child_turn,
							  on_batch_child_expired };
	auto_arena arena = ARENA_INIT(SERVER_POOL_MAX);
	struct request *rq = k->batch->rq;
	struct cayd *c = k->batch->cayd;
	struct sandbox_create asked = batch_child_request(k), spec;
	int r;

	/* it may have been revoked since the request began */
	if (!actor_is_still_valid(c, &rq->actor))
		return cay_fail(err, CAY_E_UNAUTHENTICATED, "the key has expired or was revoked");
	r = template_apply(c, &rq->actor, &asked, &arena, &spec, err);
	if (r >= 0)
		r = sandbox_create_check(c->sandboxes, &rq->actor.tenant, &spec, &k->key, ret, err);
	if (r >= 0 && !*ret)
		r = create_claim(c, &rq->actor.tenant, &spec, &k->key, ret, err);
	return r < 0 || *ret ? r
			     : create_turn_enter(c, &rq->actor.tenant, &events, k, &k->turn, err);
}

static struct batch_child *batch_child_create(struct batch *b)
{
	struct batch_child *k = calloc(1, sizeof(*k));
	struct cay_err err = {};
	int n;

	if (!k)
		return NULL;
	k->batch = b;
	k->index = b->next++;
	if (create_read_key(b->rq, &k->key, &err) >= 0 && k->key.key.n) {
		n = snprintf(k->key_text, sizeof(k->key_text), "%.*s.%llu", (int)k->key.key.n,
			     k->key.key.p, (unsigned long long)k->index);
		k->key.key = (struct slice){ k->key_text, n > 0 ? (size_t)n : 0 };
	}
	k->next = b->children;
	b->children = k;
	b->running++;
	return k;
}

/* False: there is no room for now. */
static bool batch_child_start(struct batch_child *k)
{
	struct cayd *c = k->batch->cayd;
	struct sandbox *sb = NULL;
	struct cay_err err = {};

	k->again = false;
	if (batch_child_begin(k, &sb, &err) < 0) {
		if (batch_child_wait_for_room(k, &err))
			return false;
		batch_child_fail(k, &err);
	} else if (sb) {
		batch_child_wait(k, sb);
	} else {
		creates_run_queue(c);
	}
	return true;
}

/* The next to start, or NULL. */
static struct batch_child *batch_next_child(struct batch *b)
{
	struct batch_child *k = b->children;

	while (k && !k->again)
		k = k->next;
	if (k || b->running == BATCH_RUNNING || b->next == b->count)
		return k;
	k = batch_child_create(b);
	if (!k)
		batch_schedule(b, PAUSE_MS);
	return k;
}

static void batch_run(struct batch *b)
{
	for (unsigned i = 0; i < BATCH_RUNNING && b->rq && !b->full; i++) {
		struct batch_child *k = batch_next_child(b);

		if (!k || !batch_child_start(k))
			break;
	}
	if (b->rq && !b->running && b->next == b->count) {
		b->rq->events = NULL;
		request_end_stream(cay_take(b->rq));
		batch_end(b);
	}
}

static void on_batch_client_gone(struct request *rq)
{
	struct batch *b = rq->data;

	b->rq = NULL;
	batch_end(b);
}

static void on_batch_drain(struct request *rq)
{
	struct batch *b = rq->data;

	b->full = false;
	batch_schedule(b, 0);
}

int batch_check(const struct request *rq, struct idempotency_key *key, struct cay_err *err)
{
	const struct sandbox_create *asked = rq->body;

	if (asked->name)
		return cay_fail_field(err, CAY_E_INVALID, "sandbox.name",
				      "a name belongs to one sandbox; use labels");
	if (create_read_key(rq, key, err) < 0)
		return -EINVAL;
	if (key->key.n > IDEMPOTENCY_KEY_MAX - KEY_SUFFIX_MAX)
		return cay_fail(err, CAY_E_INVALID, "Idempotency-Key has 1 to %d characters here",
				IDEMPOTENCY_KEY_MAX - KEY_SUFFIX_MAX);
	key->key = (struct slice){}; /* the children's are looked up one by one */
	return 0;
}

void batch_start(struct cayd *c, struct request *rq, uint64_t count,
		 const struct field_texts *names, const struct id *snapshot)
{
	static const struct request_events events = { .drain = on_batch_drain,
						      .gone = on_batch_client_gone };
	struct batch *b = calloc(1, sizeof(*b));

	if (!b) {
		snapshot_remove_fork(c, snapshot);
		request_no_memory(rq);
		return;
	}
	*b = (struct batch){
		.cayd = c, .rq = rq, .count = count, .names = *names, .snapshot = *snapshot
	};
	(void)uv_timer_init(&c->loop, &b->timer);
	b->timer.data = b;
	rq->data = b;
	rq->events = &events;
	request_start_stream(rq, 200, "text/event-stream", REQUEST_LENGTH_UNKNOWN);
	batch_schedule(b, 0);
}

void op_sandbox_create_many(struct cayd *c, struct request *rq)
{
	struct sandbox_create_many *body = rq->body;
	struct idempotency_key none;
	struct sandbox_create spec;
	struct sandbox *sb = NULL;
	struct cay_err err = {};

	if (!request_bind_group(rq, &body->sandbox.group))
		return;
	if (batch_check(rq, &none, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	if (!create_prepare(c, rq, &none, op_sandbox_create_many, &spec, &sb))
		return;
	batch_start(c, rq, body->count, &(struct field_texts){}, &(struct id){});
}
