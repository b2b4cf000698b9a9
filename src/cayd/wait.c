/* SPDX-License-Identifier: Apache-2.0 */
/* wait - requests that are answered when their sandbox has come so far */
#include "cayd/box.h"

struct waiter {
	struct waiter *next;
	struct request *rq;
	struct box *box;
	enum box_wait until;
};

static bool has_come(const struct box *b, enum box_wait until)
{
	if (b->unsaved)
		return false; /* nobody is told what a crash could take back */
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
}
