/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wake - a request to a stopped sandbox starts it and is carried out then (ADR 0113)
 *
 * One start serves all requests that wait for it.  It is admitted and counted as sandbox.start is,
 * and a failure of it is the reply to all of them; then there is a pause, so that a client that
 * polls does not start it all the time.  Bounded: WAKE_SANDBOX_MAX requests wait for one sandbox,
 * WAKE_TENANT_MAX for those of a tenant, WAKE_MAX for all, each at most WAKE_NS.
 */
#include "cayd/create/create.h"

#include "cayd/core/list.h"
#include "cayd/tenant/api-key.h"

#define WAKE_SANDBOX_MAX 64
#define WAKE_TENANT_MAX 128
#define WAKE_MAX 1024
#define WAKE_PAUSE_SHIFT_MAX 6  /* 64 s */
#define WAKE_NS (25 * NS_PER_S) /* less than OP_DEADLINE_S, after which an edge gives up */

struct wake_request {
	struct wake_request *next;
	struct wake *wake;
	struct request *rq;
	uint64_t since_ns;
};

struct wake {
	struct wake *next;
	struct cayd *cayd;
	struct sandbox *sandbox; /* held */
	struct create_turn *turn;
	struct sandbox_waiter *waiter;
	bool started; /* once is enough */
	bool admitted;
	struct wake_request *first;
	unsigned n;
};

/* What starts something new or needs files.  An exec, a shell or a kernel of before is gone. */
static bool wake_is_worth_it(const struct op *op)
{
	static const bool rows[OP_NUM] = {
		[OP_EXEC_RUN] = true,     [OP_SHELL_CREATE] = true, [OP_KERNEL_CREATE] = true,
		[OP_KERNEL_EVAL] = true,  [OP_SERVICE_PUT] = true,  [OP_SERVICE_START] = true,
		[OP_FILE_READ] = true,    [OP_FILE_STAT] = true,    [OP_FILE_LIST] = true,
		[OP_FILE_WRITE] = true,   [OP_FILE_MKDIR] = true,   [OP_FILE_MOVE] = true,
		[OP_FILE_COPY] = true,    [OP_FILE_DELETE] = true,  [OP_FILE_CHMOD] = true,
		[OP_FILE_SYMLINK] = true, [OP_FILE_BATCH] = true,   [OP_FILE_VIEW] = true,
		[OP_FILE_GLOB] = true,    [OP_FILE_GREP] = true,    [OP_FILE_EDIT] = true,
		[OP_TREE_GET] = true,     [OP_TREE_PUT] = true,
	};

	return op >= ops && op < ops + OP_NUM && rows[op - ops];
}

/* What a start takes is the tenant's: not for a token, which is given away, nor to read. */
static bool wake_is_allowed(struct cayd *c, const struct request *rq, const struct sandbox *sb)
{
	unsigned state = sb->life.state;

	return (state == SB_STOPPING || state == SB_STOPPED || state == SB_STARTING) &&
	       sb->info.wake == WAKE_BY_KEY && !rq->actor.one_sandbox &&
	       rq->actor.scope >= SCOPE_WRITE && wake_is_worth_it(rq->match.op) &&
	       actor_is_still_valid(c, &rq->actor);
}

static void wake_free(struct cayd *c, struct wake *w)
{
	LIST_UNLINK(c->wakes, w, next);
	if (w->turn)
		create_turn_leave(w->turn);
	if (w->waiter)
		sandbox_wait_cancel(w->waiter);
	sandbox_release(w->sandbox);
	free(w);
}

static void wake_request_fail(struct request *rq, const struct cay_err *err)
{
	if (cay_error_row(err->code)->retryable)
		(void)request_add_reply_header(rq, "Retry-After", "1");
	request_fail(rq, err);
}

static void wake_set_pause(const struct wake *w, bool failed)
{
	struct sandbox *sb = w->sandbox;

	if (!failed) {
		sb->wake.failures = 0;
	} else if (w->admitted) {
		sb->wake.after_ns = clk_boot_ns(w->cayd->clk) + (NS_PER_S << sb->wake.failures);
		if (sb->wake.failures < WAKE_PAUSE_SHIFT_MAX)
			sb->wake.failures++;
	}
}

/* A reply may start the next request of its connection, so nothing of the wake is left by then. */
static void wake_finish(struct wake *w, const struct cay_err *err)
{
	struct wake_request *all = cay_take(w->first);
	struct sandbox *sb = w->sandbox;
	struct cay_err why = *err;
	struct cayd *c = w->cayd;

	sb->holds++;
	wake_set_pause(w, why.code);
	wake_free(c, w);
	while (all) {
		struct wake_request *r = all;
		struct request *rq = r->rq;

		all = r->next;
		free(r);
		rq->events = NULL;
		if (why.code)
			wake_request_fail(rq, &why);
		else if (request_peer_has_left(rq)) /* it may have sent it again */
			request_refuse(rq, CAY_E_UNAVAILABLE, "the client has left");
		else if (!actor_is_still_valid(c, &rq->actor))
			request_refuse(rq, CAY_E_UNAUTHENTICATED,
				       "the key has expired or was revoked");
		else if (sb->life.state != SB_RUNNING)
			sandbox_refuse_state(rq, sb);
		else
			sandbox_relay_start(c, rq, sb, rq->head->framing != HTTP_EMPTY);
	}
	sandbox_release(sb);
}

static void wake_advance(struct wake *w);

static void on_wake_reached(void *arg, struct sandbox *)
{
	struct wake *w = arg;

	w->waiter = NULL;
	wake_advance(w);
}

static void wake_wait(struct wake *w, enum sandbox_wait until)
{
	struct cay_err err = {};
	int r = sandbox_wait(w->sandbox, until, on_wake_reached, w, &w->waiter);

	if (r > 0)
		wake_advance(w);
	else if (r < 0) {
		(void)cay_no_memory(&err);
		wake_finish(w, &err);
	}
}

/* One whose actor may still start the sandbox; NULL: there is none. */
static struct request *wake_find_request(const struct wake *w)
{
	const struct wake_request *r = w->first;

	while (r && !actor_is_still_valid(w->cayd, &r->rq->actor))
		r = r->next;
	return r ? r->rq : NULL;
}

static void on_wake_turn(void *arg, struct create_turn *turn)
{
	struct wake *w = arg;
	struct request *rq = wake_find_request(w);
	struct cay_err err = {};

	w->turn = NULL;
	w->started = true;
	if (!rq) {
		create_turn_leave(turn);
		(void)cay_fail(&err, CAY_E_UNAUTHENTICATED, "the key has expired or was revoked");
		wake_finish(w, &err);
		return;
	}
	if (start_at_turn(w->cayd, w->sandbox, turn, &err) < 0)
		wake_finish(w, &err);
	else {
		w->admitted = true;
		w->cayd->hooks->sandbox_woken(w->cayd, rq, &w->sandbox->info.id);
		wake_wait(w, WAIT_STARTED);
	}
}

static void on_wake_turn_expired(void *arg, const struct cay_err *err)
{
	struct wake *w = arg;

	w->turn = NULL;
	wake_finish(w, err);
}

static void wake_start(struct wake *w)
{
	static const struct create_turn_events events = { on_wake_turn, on_wake_turn_expired };
	struct cayd *c = w->cayd;
	struct cay_err err = {};

	if (start_turn_enter(c, &w->sandbox->info.tenant, &events, w, &w->turn, &err) < 0)
		wake_finish(w, &err);
	else
		creates_run_queue(c);
}

/* Nothing is waited for: what next? */
static void wake_advance(struct wake *w)
{
	const struct sandbox *sb = w->sandbox;
	const struct cay_err *failure = sandbox_wait_failure(sb, WAIT_STARTED);
	unsigned state = sb->life.state;
	struct cay_err err = *failure;

	if ((state == SB_STOPPING || (state == SB_STOPPED && sb->unsaved)) && !w->started &&
	    !failure->code)
		wake_wait(w, WAIT_STOPPED);
	else if (state == SB_STOPPED && !w->started)
		wake_start(w);
	else if (state == SB_STARTING || (state == SB_RUNNING && sb->unsaved))
		wake_wait(w, WAIT_STARTED);
	else {
		if (!err.code && state != SB_RUNNING)
			(void)sandbox_fail_state(sb, &err);
		wake_finish(w, &err);
	}
}

static void on_wake_client_gone(struct request *rq)
{
	struct wake_request *r = rq->data;
	struct wake *w = r->wake;

	LIST_UNLINK(w->first, r, next);
	w->n--;
	free(r);
	if (!w->n) /* a start that has begun goes on */
		wake_free(w->cayd, w);
}

static struct wake *wake_get(struct cayd *c, struct sandbox *sb)
{
	struct wake *w = c->wakes;

	while (w && w->sandbox != sb)
		w = w->next;
	if (w)
		return w;
	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	*w = (struct wake){ .next = c->wakes, .cayd = c, .sandbox = sb };
	sb->holds++;
	c->wakes = w;
	return w;
}

/* Of a tenant, or with NULL of all. */
static unsigned wakes_count(const struct cayd *c, const struct id *tenant)
{
	unsigned n = 0;

	for (const struct wake *w = c->wakes; w; w = w->next)
		n += !tenant || id_eq(&w->sandbox->info.tenant, tenant) ? w->n : 0;
	return n;
}

/* Whether one more request may wait. */
static int wake_check(struct cayd *c, const struct sandbox *sb, struct cay_err *err)
{
	const struct wake *w = c->wakes;

	while (w && w->sandbox != sb)
		w = w->next;
	if (w && w->n >= WAKE_SANDBOX_MAX)
		return cay_fail(err, CAY_E_OVERLOADED,
				"too many requests wait for this sandbox to start");
	if (wakes_count(c, &sb->info.tenant) >= WAKE_TENANT_MAX || wakes_count(c, NULL) >= WAKE_MAX)
		return cay_fail(err, CAY_E_OVERLOADED,
				"too many requests wait for stopped sandboxes to start");
	if (!w && sb->life.state == SB_STOPPED && clk_boot_ns(c->clk) < sb->wake.after_ns) {
		(void)cay_fail(err, CAY_E_UNAVAILABLE,
			       "a request could not start the sandbox, and the next try is later");
		cay_err_hint(err, "sandbox.start, 'cay start', tries at once and says why");
		return -EAGAIN;
	}
	return 0;
}

bool wake_for_request(struct cayd *c, struct request *rq, struct sandbox *sb)
{
	static const struct request_events events = { .gone = on_wake_client_gone };
	struct wake_request *r;
	struct cay_err err = {};
	struct wake *w;

	if (!wake_is_allowed(c, rq, sb))
		return false;
	if (wake_check(c, sb, &err) < 0) {
		wake_request_fail(rq, &err);
		return true;
	}
	w = wake_get(c, sb);
	r = w ? malloc(sizeof(*r)) : NULL;
	if (!r) {
		if (w && !w->n)
			wake_free(c, w);
		request_no_memory(rq);
		return true;
	}
	*r = (struct wake_request){ w->first, w, rq, clk_boot_ns(c->clk) };
	w->first = r;
	rq->data = r;
	rq->events = &events;
	if (rq->head->framing != HTTP_EMPTY)
		request_pause_body(rq);
	if (w->n++ == 0)
		wake_advance(w);
	return true;
}

/* Remove a request that has waited too long; NULL: there is none. */
static struct request *wakes_pop_expired(struct cayd *c, uint64_t now)
{
	for (struct wake *w = c->wakes; w; w = w->next)
		for (struct wake_request **at = &w->first, *r; (r = *at); at = &r->next) {
			struct request *rq = r->rq;

			if (now - r->since_ns <= WAKE_NS)
				continue;
			*at = r->next;
			w->n--;
			free(r);
			rq->events = NULL;
			if (!w->n)
				wake_free(c, w);
			return rq;
		}
	return NULL;
}

void wakes_expire_waiting(struct cayd *c, uint64_t now)
{
	struct request *rq;

	while ((rq = wakes_pop_expired(c, now))) {
		struct cay_err err = {};

		(void)cay_fail(&err, CAY_E_UNAVAILABLE, "the sandbox has not started in time");
		wake_request_fail(rq, &err);
	}
}
