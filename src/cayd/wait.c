/* SPDX-License-Identifier: Apache-2.0 */
/* wait - requests that are answered when their sandbox has come so far */
#include "cayd/box.h"
#include "cayd/trail.h"

struct waiter {
	struct waiter *next;
	struct request *rq;
	struct box *box;
	enum box_wait until;
};

/* As far as memory goes. */
static bool is_there(const struct box *b, enum box_wait until)
{
	if (b->life.taken) /* nothing of it is written, or told */
		return false;
	switch (until) {
	case WAIT_STARTED: /* one that fails says so at once, though it has yet to be removed */
		return b->life.state >= SB_RUNNING;
	case WAIT_ENDED:
		return life_over(&b->life);
	case WAIT_SETTLED:
		return b->life.doing == DO_NOTHING;
	case WAIT_SAVED:
		break;
	}
	return true;
}

static bool has_come(const struct box *b, enum box_wait until)
{
	/* nobody is told what a crash could take back */
	return !b->unsaved && is_there(b, until);
}

/* Whether it is what the request wanted it to be. */
static bool turned(const struct box *b, const struct request *rq)
{
	return !(rq->match.op == &ops[OP_SANDBOX_PAUSE] && b->life.state != SB_PAUSED) &&
	       !(rq->match.op == &ops[OP_SANDBOX_RESUME] && b->life.state != SB_RUNNING);
}

static void answer(struct box *b, struct request *rq, enum box_wait until)
{
	auto_buf body = BUF_INIT(KIB(64));
	struct jw w = jw_to(&body);
	struct cay_err err = {};

	(void)box_look(b);
	if (until == WAIT_STARTED && b->failure.code)
		request_fail(rq, &b->failure);
	else if (until != WAIT_ENDED && b->unsaid.code && rq->match.op != &ops[OP_SANDBOX_GET])
		request_fail(rq, &b->unsaid);
	else if (!turned(b, rq)) {
		(void)cay_fail(&err, CAY_E_UNAVAILABLE, "the keeper did not do it; it is %s",
			       sandbox_state_names[b->life.state]);
		request_fail(rq, &err);
	} else if (rq->match.op == &ops[OP_SANDBOX_CREATE] && b->life.state == SB_PENDING) {
		field_encode(&sandbox_table, NULL, &b->info, &w);
		if (jw_done(&w) < 0)
			buf_clear(&body);
		request_reply(rq, 202, "application/json", &body);
	} else
		request_reply_json(rq, &sandbox_table, &b->info);
}

/* All it waits for is the journal: the audit log can be written meanwhile. */
static void foretell(struct box *b, struct request *rq, enum box_wait until)
{
	if (is_there(b, until) && !(until == WAIT_STARTED && b->failure.code) && turned(b, rq))
		trail_soon(b->cayd, rq);
}

void box_foretell(struct box *b)
{
	for (struct waiter *w = b->waiters; w; w = w->next)
		foretell(b, w->rq, w->until);
}

void box_tell(struct box *b)
{
	struct waiter **at = &b->waiters, *come = NULL, **last = &come;

	/* an answer may begin the next request of its connection: not while we walk */
	while (*at) {
		struct waiter *w = *at;

		if (!has_come(b, w->until)) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		w->next = NULL;
		*last = w;
		last = &w->next;
		w->rq->events = NULL;
	}
	while (come) {
		struct waiter *w = come;

		come = w->next;
		answer(b, w->rq, w->until);
		free(w);
	}
}

static void on_gone(struct request *rq)
{
	struct waiter *w = rq->data, **at = &w->box->waiters;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	free(w);
}

void box_answer(struct box *b, struct request *rq, enum box_wait until)
{
	static const struct request_events events = { .gone = on_gone };
	struct cay_err err = {};
	struct waiter *w;

	if (has_come(b, until)) {
		answer(b, rq, until);
		return;
	}
	w = malloc(sizeof(*w));
	if (!w) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
		request_fail(rq, &err);
		return;
	}
	*w = (struct waiter){ b->waiters, rq, b, until };
	b->waiters = w;
	rq->data = w;
	rq->events = &events;
	foretell(b, rq, until);
}

/* What was true when it was asked, told when a crash cannot take it back. */
struct held {
	struct request *rq;
	struct db *db;
	uint64_t failed; /* writes, until then */
	struct buf body;
};

static void on_durable(void *arg, const struct cay_err *outcome)
{
	struct held *h = arg;
	struct cay_err err = *outcome;

	/* what came in front of us may have been another transaction */
	if (!err.code && db_stats(h->db).failed != h->failed)
		(void)cay_fail(&err, CAY_E_UNAVAILABLE, "the journal refused a part of it");
	if (h->rq)
		h->rq->events = NULL;
	if (h->rq && err.code)
		request_fail(h->rq, &err);
	else if (h->rq)
		request_reply(h->rq, h->rq->match.op->status, "application/json", &h->body);
	buf_fini(&h->body);
	free(h);
}

static void on_held_gone(struct request *rq)
{
	struct held *h = rq->data;

	h->rq = NULL;
}

void boxes_answer(struct cayd *c, struct request *rq, const struct sandbox_list *list, bool unsaved)
{
	static const struct request_events events = { .gone = on_held_gone };
	struct held *h = unsaved ? malloc(sizeof(*h)) : NULL;
	struct cay_err err = {};
	struct jw w;

	if (!unsaved) {
		request_reply_json(rq, &sandbox_list_table, list);
		return;
	}
	if (h) {
		*h = (struct held){ rq, c->db, db_stats(c->db).failed,
				    BUF_INIT(SERVER_OUT_MAX - KIB(4)) };
		w = jw_to(&h->body);
		field_encode(&sandbox_list_table, NULL, list, &w);
	}
	if (!h || jw_done(&w) < 0) {
		if (h)
			buf_fini(&h->body);
		free(h);
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
		request_fail(rq, &err);
		return;
	}
	rq->data = h;
	rq->events = &events;
	db_after(c->db, on_durable, h);
}
