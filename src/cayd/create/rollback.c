/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rollback - give a sandbox the files of one of its snapshots (ADR 0116)
 *
 * The layer of the snapshot is below it from then on, and its own disk is void: one write to the
 * journal, before any process ends.  One that ran waits its turn to start, as for sandbox.start;
 * if its client leaves before, or the start fails, it is stopped and has the files of the snapshot.
 */
#include "cayd/core/handlers.h"

#include "cayd/core/deferred-reply.h"
#include "cayd/create/create.h"
#include "cayd/image/image.h"
#include "cayd/image/prune.h"
#include "cayd/sandbox/limits.h"
#include "cayd/snapshot/snapshot.h"

static void rollback_fail(struct request *rq, const struct cay_err *err)
{
	if (cay_error_row(err->code)->retryable)
		(void)request_add_reply_header(rq, "Retry-After", "1");
	request_fail(rq, err);
}

/* The layer of a snapshot of this sandbox; NULL. */
static const struct image *rollback_find_layer(const struct cayd *c, const struct actor *by,
					       const struct sandbox *sb, const struct id *snapshot,
					       struct cay_err *err)
{
	const struct snapshot *s = snapshot_find(c, by, snapshot);
	bool ready = s && !s->fork && s->info.state == SNAPSHOT_READY;
	const struct image *layer = ready ? image_by_digest(c->images, s->digest) : NULL;

	if (!layer) {
		(void)cay_fail_field(err, CAY_E_NOT_FOUND, "snapshot", "there is no such snapshot");
	} else if (!id_eq(&s->info.sandbox, &sb->info.id)) {
		(void)cay_fail_field(err, CAY_E_INVALID, "snapshot",
				     "the snapshot is of another sandbox");
		cay_err_hint(err, "create a sandbox from it instead");
		return NULL;
	}
	return layer;
}

/* The layer that the sandbox gets; NULL: the request is refused. */
static const struct image *rollback_check(struct cayd *c, const struct request *rq,
					  const struct sandbox *sb, struct cay_err *err)
{
	const struct sandbox_rollback *q = rq->body;
	bool up = sb->life.state == SB_RUNNING || sb->life.state == SB_PAUSED;
	const struct image *layer;

	/* a token is given away, and what a start takes is its tenant's */
	if (rq->actor.one_sandbox) {
		(void)cay_fail(err, CAY_E_FORBIDDEN, "a token of the sandbox may not roll it back");
		cay_err_hint(err, "use an API key of its tenant");
		return NULL;
	}
	if (sandbox_is_in_memory(sb)) {
		(void)cay_fail(err, CAY_E_UNSUPPORTED, "the files of this sandbox are in memory");
		return NULL;
	}
	/* the journal may have the layer that is below it still, or the one before */
	if (sb->unsaved || sb->save_error.code) {
		(void)cay_fail(err, CAY_E_UNAVAILABLE,
			       "another change of this sandbox is being written; try again");
		return NULL;
	}
	layer = rollback_find_layer(c, &rq->actor, sb, &q->snapshot, err);
	if (layer && up &&
	    (stop_check_number(c, sb, err) < 0 || start_count(c, &rq->actor.tenant, err) < 0))
		return NULL;
	return layer;
}

/* All of it in one turn of the loop: no other request sees a part. */
static int rollback_begin(struct sandbox *sb, const struct id *snapshot, const struct image *layer,
			  struct cay_err *err)
{
	struct id before = sb->info.snapshot;

	memcpy(sb->rollback.image_before, sb->image, sizeof(sb->image));
	memcpy(sb->image, layer->digest, sizeof(sb->image));
	sb->info.snapshot = *snapshot;
	if (!sandbox_apply_event(sb, &(struct life_event){ .kind = LIFE_ROLLBACK }))
		return 0;
	memcpy(sb->image, sb->rollback.image_before, sizeof(sb->image));
	sb->info.snapshot = before;
	return sandbox_fail_state(sb, err);
}

struct rollback {
	struct cayd *cayd;
	struct request *rq; /* NULL: the client left */
};

/* It may have ended meanwhile, or another request may have started it; without cay-keeper it is
 * stopping still. */
static void on_rollback_stopped(void *arg, struct sandbox *sb)
{
	struct rollback *r = arg, own = *r;

	free(r);
	if (!own.rq)
		return;
	own.rq->events = NULL;    /* they are for r */
	prune_run_soon(own.cayd); /* the layer that was below it may have no other user */
	if (sb->save_error.code)
		request_fail(own.rq, &sb->save_error);
	else if (sb->life.state == SB_STOPPING)
		request_refuse(own.rq, CAY_E_UNAVAILABLE,
			       "cay-keeper is not running; the sandbox will be stopped, with the "
			       "files of the snapshot, as soon as cay-keeper runs");
	else
		start_wait_for_turn(own.cayd, own.rq);
}

static void rollback_start_again(struct cayd *c, struct request *rq, struct sandbox *sb)
{
	struct rollback *r = malloc(sizeof(*r));
	struct sandbox_waiter *waiter;
	int waits;

	if (!r) {
		request_no_memory(rq);
		return;
	}
	*r = (struct rollback){ c, rq };
	request_watch_client(&r->rq);
	waits = sandbox_wait(sb, WAIT_STOPPED, on_rollback_stopped, r, &waiter);
	if (waits > 0) {
		on_rollback_stopped(r, sb);
	} else if (waits < 0) {
		free(r);
		rq->events = NULL;
		request_no_memory(rq);
	}
}

void op_sandbox_rollback(struct cayd *c, struct request *rq)
{
	struct sandbox *sb = sandbox_find_of_request(c, rq);
	const struct sandbox_rollback *q = rq->body;
	const struct image *layer;
	struct cay_err err = {};

	if (!sb)
		return;
	layer = rollback_check(c, rq, sb, &err);
	if (!layer || rollback_begin(sb, &q->snapshot, layer, &err) < 0)
		rollback_fail(rq, &err);
	else if (sb->life.state == SB_STOPPING)
		rollback_start_again(c, rq, sb);
	else
		sandbox_reply_when(sb, rq, WAIT_SAVED);
}
