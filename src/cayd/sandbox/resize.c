/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/sandbox/resize.h"
#include "cayd/core/handlers.h"

#include "base/failpoint.h"
#include "cayd/core/deferred-reply.h"
#include "cayd/core/keeper-link.h"
#include "cayd/sandbox/limits.h"

struct resize {
	struct sandbox *sandbox;
	struct request *rq; /* NULL: no client waits */
	bool is_revert;     /* back to the limits it had */
	struct cay_err err;
};

static bool resize_start(struct sandbox *sb, struct request *rq, bool back);

static bool sandbox_is_running_or_paused(const struct sandbox *sb)
{
	return sb->life.state == SB_RUNNING || sb->life.state == SB_PAUSED;
}

/* A refused change may be half done: set the previous limits again. */
static void resize_revert(struct sandbox *sb, const struct resize *z, const struct cay_err *outcome)
{
	sb->resize.wanted = sb->info.limits;
	if (z->is_revert)
		log_error(&sb->cayd->log, "cannot change limits: %s", outcome->msg);
	if (!z->is_revert && sandbox_is_running_or_paused(sb) && resize_start(sb, NULL, true))
		return;
	sb->resize.has_wanted = false;
	sandbox_recount(sb);
	sandbox_save(sb, true);
}

static void resize_free(struct resize *z)
{
	struct sandbox *sb = z->sandbox;

	free(z);
	sandbox_release(sb);
}

/* The journal forgets a refused change first, so that a crash cannot revive it. */
static void on_resize_refusal_saved(void *arg, const struct cay_err *)
{
	struct resize *z = arg;

	if (z->rq)
		request_fail(z->rq, &z->err);
	resize_free(z);
}

static void resize_finish(struct resize *z, const struct cay_err *outcome)
{
	struct sandbox *sb = z->sandbox;

	sb->resize.under_way = false;
	z->err = *outcome;
	if (!outcome->code) {
		sb->info.limits = sb->resize.wanted;
		sb->resize.has_wanted = false;
		sandbox_recount(sb);
		sandbox_save(sb, true);
	} else if (outcome->code != CAY_E_UNAVAILABLE && outcome->code != CAY_E_CAPACITY) {
		resize_revert(sb, z, outcome);
	} /* else it is unknown: the limits stay wanted and are set again */
	if (outcome->code) {
		db_barrier(sb->cayd->db, on_resize_refusal_saved, z);
		return;
	}
	if (z->rq)
		sandbox_reply_when(sb, z->rq, WAIT_SAVED);
	resize_free(z);
}

static void on_resize_limits_set(void *arg, const struct cay_err *outcome, const void *, int)
{
	struct cay_err err = *outcome;

	if (!err.code && failpoint_hit(FAULT_LIMITS_SET) < 0)
		(void)cay_fail(&err, CAY_E_INTERNAL, "failpoint");
	resize_finish(arg, &err);
}

static void on_resize_wanted_saved(void *arg, const struct cay_err *outcome)
{
	struct resize *z = arg;
	const struct sandbox *sb = z->sandbox;
	struct verb_limits q = { .sandbox = sb->info.id,
				 .generation = sb->life.generation,
				 .memory_bytes = sb->resize.wanted.memory_bytes,
				 .cpu_milli = (uint32_t)sb->resize.wanted.cpu_milli,
				 .pids = (uint32_t)sb->resize.wanted.pids };
	struct cay_err err = *outcome;

	if (!sandbox_is_in_memory(sb)) { /* else its disk keeps its size */
		q.disk_bytes = sb->resize.wanted.disk_bytes;
		q.disk_inodes = sb->resize.wanted.disk_inodes;
	}
	if (!err.code && sb->save_error.code)
		err = sb->save_error;
	if (!err.code && failpoint_hit(FAULT_LIMITS_WANTED) < 0)
		(void)cay_fail(&err, CAY_E_INTERNAL, "failpoint");
	if (!err.code && !sandbox_is_running_or_paused(sb))
		(void)sandbox_fail_state(sb, &err);
	if (err.code)
		resize_finish(z, &err);
	else
		keeper_call_for(sb->cayd->keeper, &sb->info.tenant, VERB_LIMITS, &q,
				on_resize_limits_set, z);
}

static bool resize_start(struct sandbox *sb, struct request *rq, bool back)
{
	struct resize *z = malloc(sizeof(*z));

	if (!z)
		return false;
	*z = (struct resize){ .sandbox = sb, .rq = rq, .is_revert = back };
	sb->holds++;
	sb->resize.under_way = true;
	if (rq)
		request_watch_client(&z->rq);
	sandbox_save(sb, true);
	db_barrier(sb->cayd->db, on_resize_wanted_saved, z);
	return true;
}

void resize_retry(struct sandbox *sb)
{
	/* retried when the keeper is connected again */
	if (sb->resize.has_wanted && !sb->resize.under_way && sandbox_is_running_or_paused(sb))
		(void)resize_start(sb, NULL, false);
}

void op_sandbox_limits(struct cayd *c, struct request *rq)
{
	struct sandbox *sb = sandbox_find_of_request(c, rq);
	struct cay_err err = {};

	if (!sb)
		return;
	if (rq->actor.one_sandbox) {
		request_refuse(rq, CAY_E_FORBIDDEN, "a token cannot change limits");
		return;
	}
	if (!sandbox_is_running_or_paused(sb)) {
		sandbox_refuse_state(rq, sb);
		return;
	}
	if (sb->resize.has_wanted) {
		request_refuse(rq, CAY_E_STATE, "another change of its limits is under way");
		return;
	}
	if (sb->life.pending_effect == DO_SNAPSHOT) { /* the keeper would wait for its lock */
		(void)request_add_reply_header(rq, "Retry-After", "1");
		request_refuse(rq, CAY_E_UNAVAILABLE, "its files are being copied; try again");
		return;
	}
	if (limits_apply_change(sb, rq->body, &sb->resize.wanted, &err) < 0 ||
	    c->hooks->limits_check(c, sb, &sb->resize.wanted, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	sb->resize.has_wanted = true;
	sandbox_recount(sb);
	if (!resize_start(sb, rq, false)) {
		sb->resize.has_wanted = false;
		sandbox_recount(sb);
		request_no_memory(rq);
	}
}
