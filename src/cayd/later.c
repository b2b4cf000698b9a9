/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/later.h"

static void on_gone(struct request *rq)
{
	struct later *l = rq->data;

	l->rq = NULL;
}

struct later *later_new(struct cayd *c, struct request *rq, const struct id *id,
			void (*done)(struct later *l, const struct cay_err *outcome))
{
	static const struct request_events events = { .gone = on_gone };
	struct later *l = calloc(1, sizeof(*l));
	struct cay_err err = {};

	if (!l) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
		request_fail(rq, &err);
		return NULL;
	}
	*l = (struct later){ .cayd = c, .rq = rq, .id = *id, .done = done };
	rq->data = l;
	rq->events = &events;
	return l;
}

void later_told(void *arg, const struct cay_err *outcome)
{
	struct later *l = arg;

	l->done(l, outcome);
	explicit_bzero(l->secret, sizeof(l->secret));
	free(l);
}
