/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/resize.h"

#include "base/fault.h"
#include "cayd/limit.h"
#include "cayd/link.h"

struct resize {
	struct box *box;
	struct request *rq; /* NULL: nobody waits */
	bool back;          /* to what it had */
	struct cay_err err;
};

static bool begin(struct box *b, struct request *rq, bool back);

static void on_gone(struct request *rq)
{
	struct resize *z = rq->data;

	z->rq = NULL;
}

static bool is_up(const struct box *b)
{
	return b->life.state == SB_RUNNING || b->life.state == SB_PAUSED;
}

/* What was refused may have been done by half: what it had is set again. */
static void put_back(struct box *b, const struct resize *z, const struct cay_err *outcome)
{
	b->wanted = b->info.limits;
	if (z->back)
		log_error(&b->cayd->log, "limits that were not changed: %s", outcome->msg);
	if (!z->back && is_up(b) && begin(b, NULL, true))
		return;
	b->has_wanted = false;
	box_save(b, true);
}

static void over(struct resize *z)
{
	struct box *b = z->box;

	free(z);
	box_unhold(b);
}

/* What is refused is not in the journal any more: a crash cannot bring it back. */
static void on_refused(void *arg, const struct cay_err *)
{
	struct resize *z = arg;

	if (z->rq) {
		z->rq->events = NULL;
		request_fail(z->rq, &z->err);
	}
	over(z);
}

/* Nobody knows: it stays wanted, and is asked for again. */
static bool is_doubt(const struct cay_err *outcome)
{
	return outcome->code == CAY_E_UNAVAILABLE || outcome->code == CAY_E_CAPACITY;
}

static void finish(struct resize *z, const struct cay_err *outcome)
{
	struct box *b = z->box;

	b->resizing = false;
	z->err = *outcome;
	if (!outcome->code) {
		b->info.limits = b->wanted;
		b->has_wanted = false;
		box_save(b, true);
	} else if (!is_doubt(outcome)) {
		put_back(b, z, outcome);
	}
	if (outcome->code) {
		db_after(b->cayd->db, on_refused, z);
		return;
	}
	if (z->rq) {
		z->rq->events = NULL;
		box_answer(b, z->rq, WAIT_SAVED);
	}
	over(z);
}

static void on_limits(void *arg, const struct cay_err *outcome, const void *, int)
{
	struct cay_err err = *outcome;

	if (!err.code && fault(FAULT_LIMITS_SET) < 0)
		(void)cay_fail(&err, CAY_E_INTERNAL, "failpoint");
	finish(arg, &err);
}

static void on_wanted(void *arg, const struct cay_err *outcome)
{
	struct resize *z = arg;
	const struct box *b = z->box;
	struct verb_limits q = { .sandbox = b->info.id,
				 .generation = b->life.generation,
				 .memory_bytes = b->wanted.memory_bytes,
				 .cpu_milli = (uint32_t)b->wanted.cpu_milli,
				 .pids = (uint32_t)b->wanted.pids };
	struct cay_err err = *outcome;

	if (!limit_in_memory(b)) { /* else it is as large as it was made */
		q.disk_bytes = b->wanted.disk_bytes;
		q.disk_inodes = b->wanted.disk_inodes;
	}
	if (!err.code && b->unsaid.code)
		err = b->unsaid;
	if (!err.code && fault(FAULT_LIMITS_WANTED) < 0)
		(void)cay_fail(&err, CAY_E_INTERNAL, "failpoint");
	if (!err.code && !is_up(b))
		(void)cay_fail(&err, CAY_E_STATE, "the sandbox does not run any more");
	if (err.code)
		finish(z, &err);
	else
		link_call(b->cayd->link, VERB_LIMITS, &q, -EBADF, on_limits, z);
}

static bool begin(struct box *b, struct request *rq, bool back)
{
	static const struct request_events events = { .gone = on_gone };
	struct resize *z = malloc(sizeof(*z));

	if (!z)
		return false;
	*z = (struct resize){ .box = b, .rq = rq, .back = back };
	b->holds++;
	b->resizing = true;
	if (rq) {
		rq->data = z;
		rq->events = &events;
	}
	box_save(b, true);
	db_after(b->cayd->db, on_wanted, z);
	return true;
}

void resize_again(struct box *b)
{
	/* one that cannot be begun is tried again when there is a keeper the next time */
	if (b->has_wanted && !b->resizing && is_up(b))
		(void)begin(b, NULL, false);
}

void resize_sandbox(struct cayd *c, struct request *rq)
{
	struct box *b = box_of(c->boxes, &rq->actor.tenant, &rq->match.params[0]);
	struct cay_err err = {};

	if (!b) {
		request_refuse(rq, CAY_E_NOT_FOUND, "there is no such sandbox");
		return;
	}
	if (!is_up(b) || b->has_wanted) {
		request_refuse(rq, CAY_E_STATE,
			       b->has_wanted ? "another change of its limits is under way"
					     : "the sandbox does not run");
		return;
	}
	if (limit_change(b, rq->body, &b->wanted, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	b->has_wanted = true;
	if (!begin(b, rq, false)) {
		b->has_wanted = false;
		request_refuse(rq, CAY_E_NO_MEMORY, "out of memory");
	}
}
