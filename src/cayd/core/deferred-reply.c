/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/core/deferred-reply.h"

static void on_watched_client_gone(struct request *rq)
{
	*(struct request **)rq->data = NULL;
}

void request_watch_client(struct request **rq)
{
	static const struct request_events events = { .gone = on_watched_client_gone };

	(*rq)->data = rq;
	(*rq)->events = &events;
}

void request_reply_outcome(struct request *rq, const struct cay_err *err,
			   const struct field_table *t, const void *value)
{
	if (rq && err->code)
		request_fail(rq, err);
	else if (rq)
		request_reply_json(rq, t, value);
}

struct deferred_reply *deferred_reply_create(struct cayd *c, struct request *rq,
					     const struct id *id, deferred_reply_fn *done)
{
	struct deferred_reply *l = calloc(1, sizeof(*l));

	if (!l && rq)
		request_no_memory(rq);
	if (!l)
		return NULL;
	*l = (struct deferred_reply){ .cayd = c, .rq = rq, .id = *id, .done = done };
	if (rq)
		request_watch_client(&l->rq);
	return l;
}

void deferred_reply_finish(void *arg, const struct cay_err *outcome)
{
	struct deferred_reply *l = arg;

	l->done(l, outcome);
	explicit_bzero(l->secret, sizeof(l->secret));
	free(l);
}
