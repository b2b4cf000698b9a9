/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/core/deferred-reply.h"

static void on_deferred_reply_client_gone(struct request *rq)
{
	struct deferred_reply *l = rq->data;

	l->rq = NULL;
}

struct deferred_reply *deferred_reply_create(struct cayd *c, struct request *rq,
					     const struct id *id,
					     void (*done)(struct deferred_reply *l,
							  const struct cay_err *outcome))
{
	static const struct request_events events = { .gone = on_deferred_reply_client_gone };
	struct deferred_reply *l = calloc(1, sizeof(*l));

	if (!l) {
		request_no_memory(rq);
		return NULL;
	}
	*l = (struct deferred_reply){ .cayd = c, .rq = rq, .id = *id, .done = done };
	rq->data = l;
	rq->events = &events;
	return l;
}

void deferred_reply_finish(void *arg, const struct cay_err *outcome)
{
	struct deferred_reply *l = arg;

	l->done(l, outcome);
	explicit_bzero(l->secret, sizeof(l->secret));
	free(l);
}
