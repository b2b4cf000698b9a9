/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stop-start - stop a sandbox and start it again (ADR 0108)
 *
 * A start waits its turn among the creates and is admitted as they are: its processes take memory
 * and CPU again, which the stop gave back.
 */
#include "cayd/core/handlers.h"

#include "cayd/create/create.h"
#include "cayd/sandbox/count.h"
#include "cayd/sandbox/limits.h"
#include "cayd/tenant/admit.h"
#include "cayd/tenant/tenant.h"

int stop_check_number(const struct cayd *c, const struct sandbox *sb, struct cay_err *err)
{
	if (sandbox_may_stop(sb))
		return 0;
	(void)cay_fail(err, CAY_E_LIMIT, "this tenant already has %llu stopped sandboxes",
		       (unsigned long long)c->settings.max_stopped);
	cay_err_hint(err, "delete or start one of them; `limits.stopped` of the node says how many "
			  "a tenant may have");
	return -ENOSR;
}

void op_sandbox_stop(struct cayd *c, struct request *rq)
{
	struct sandbox *sb = sandbox_find_of_request(c, rq);
	struct cay_err err = {};

	if (!sb)
		return;
	if (sandbox_is_in_memory(sb)) {
		request_refuse_hinted(rq, CAY_E_UNSUPPORTED,
				      "the files of this sandbox are in memory and would be lost",
				      "delete it, or create one with storage 'disk'");
		return;
	}
	if (stop_check_number(c, sb, &err) < 0)
		request_fail(rq, &err);
	else if (sandbox_apply_event(sb, &(struct life_event){ .kind = LIFE_STOP }))
		sandbox_refuse_state(rq, sb);
	else
		sandbox_reply_when(sb, rq, WAIT_STOPPED);
}

static void start_fail(struct request *rq, const struct cay_err *err)
{
	struct cay_err why = *err;

	if (rq->match.op == &ops[OP_SANDBOX_ROLLBACK]) /* the same request would start nothing */
		cay_err_hint(&why, "it is stopped and has the files of the snapshot: start it");
	else if (cay_error_row(err->code)->retryable)
		(void)request_add_reply_header(rq, "Retry-After", "1");
	request_fail(rq, &why);
}

int start_at_turn(struct cayd *c, struct sandbox *sb, struct create_turn *turn, struct cay_err *err)
{
	bool stopped = sb->life.state == SB_STOPPED;
	struct life_event ev = { .kind = LIFE_START };
	int r = stopped ? admit_check_start(c, sb, &ev.max_ns, err) : 0;

	if (r >= 0 && sandbox_apply_event(sb, &ev))
		r = sandbox_fail_state(sb, err);
	if (r >= 0 && stopped && sb->life.state == SB_STARTING)
		sb->create.slot = create_turn_take_slot(turn);
	else
		create_turn_leave(turn);
	return r;
}

/* The sandbox may have ended while the request waited, or another request may have started it. */
static void on_start_turn(void *arg, struct create_turn *turn)
{
	struct request *rq = arg;
	struct cayd *c = create_turn_cayd(turn);
	struct sandbox *sb = sandbox_find_of_request(c, rq);
	struct cay_err err = {};

	rq->events = NULL;
	if (!sb)
		create_turn_leave(turn);
	else if (start_at_turn(c, sb, turn, &err) < 0)
		start_fail(rq, &err);
	else
		sandbox_reply_when(sb, rq, WAIT_STARTED);
}

static void on_start_expired(void *arg, const struct cay_err *err)
{
	struct request *rq = arg;

	rq->events = NULL;
	start_fail(rq, err);
}

static void on_start_client_gone(struct request *rq)
{
	create_turn_leave(rq->data);
}

int start_count(struct cayd *c, const struct id *tenant, struct cay_err *err)
{
	return tenant_take_create(c, tenant)
		       ? 0
		       : cay_fail(err, CAY_E_RATE,
				  "this tenant creates and starts too many sandboxes a second");
}

int start_turn_enter(struct cayd *c, const struct id *tenant,
		     const struct create_turn_events *events, void *arg, struct create_turn **ret,
		     struct cay_err *err)
{
	int r = start_count(c, tenant, err);

	return r < 0 ? r : create_turn_enter(c, tenant, events, arg, ret, err);
}

void start_wait_for_turn(struct cayd *c, struct request *rq)
{
	static const struct create_turn_events turn_events = { on_start_turn, on_start_expired };
	static const struct request_events events = { .gone = on_start_client_gone };
	const struct id *tenant = &rq->actor.tenant;
	struct create_turn *turn = NULL;
	struct cay_err err = {};

	if (create_turn_enter(c, tenant, &turn_events, rq, &turn, &err) < 0) {
		start_fail(rq, &err);
		return;
	}
	rq->data = turn;
	rq->events = &events;
	creates_run_queue(c);
}

static void start_count_and_wait(struct cayd *c, struct request *rq)
{
	struct cay_err err = {};

	if (start_count(c, &rq->actor.tenant, &err) < 0)
		start_fail(rq, &err);
	else
		start_wait_for_turn(c, rq);
}

void op_sandbox_start(struct cayd *c, struct request *rq)
{
	struct sandbox *sb = sandbox_find_of_request(c, rq);

	if (!sb)
		return;
	/* a token is given away, and what a start takes is its tenant's */
	if (rq->actor.one_sandbox)
		request_refuse_hinted(rq, CAY_E_FORBIDDEN,
				      "a token of the sandbox may not start it",
				      "use an API key of its tenant");
	else if (sb->life.state == SB_STOPPED && sb->life.pending_effect == DO_NOTHING)
		start_count_and_wait(c, rq);
	else if (sandbox_apply_event(sb, &(struct life_event){ .kind = LIFE_START }))
		sandbox_refuse_state(rq, sb);
	else
		sandbox_reply_when(sb, rq, WAIT_STARTED);
}
