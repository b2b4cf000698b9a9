/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/usage.h"

#include "cayd/box.h"
#include "cgroup/cgroup.h"

struct look {
	uv_work_t work;
	struct request *rq; /* NULL: the client left */
	const char *path;   /* the settings', which do not move */
	struct id tenant, sandbox;
	struct cgroup_usage now;
	struct cay_err err;
};

static void on_gone(struct request *rq)
{
	struct look *l = rq->data;

	l->rq = NULL;
}

static void look(uv_work_t *work)
{
	struct look *l = work->data;
	auto_cgroup top = CGROUP_INIT, at = CGROUP_INIT;

	if (cgroup_top(l->path, &top, &l->err) < 0)
		return;
	if (cgroup_open(&top, &l->tenant, &l->sandbox, &at) < 0)
		(void)cay_fail(&l->err, CAY_E_STATE, "the sandbox does not run any more");
	else
		(void)cgroup_usage(&at, &l->now, &l->err);
}

static void on_looked(uv_work_t *work, int)
{
	struct look *l = work->data;
	struct usage now = { .memory_bytes = l->now.memory_bytes,
			     .memory_peak_bytes = l->now.memory_peak,
			     .oom_kills = l->now.oom_kills,
			     .cpu_ms = l->now.cpu_ns / NS_PER_MS,
			     .throttled_ms = l->now.throttled_ns / NS_PER_MS,
			     .processes = l->now.processes };

	if (l->rq)
		l->rq->events = NULL;
	if (l->rq && l->err.code)
		request_fail(l->rq, &l->err);
	else if (l->rq)
		request_reply_json(l->rq, &usage_table, &now);
	free(l);
}

void usage_look(struct cayd *c, struct request *rq)
{
	static const struct request_events events = { .gone = on_gone };
	const struct box *b = box_of(c->boxes, &rq->actor.tenant, &rq->match.params[0]);
	struct look *l;

	if (!b) {
		request_refuse(rq, CAY_E_NOT_FOUND, "there is no such sandbox");
		return;
	}
	if (b->life.state != SB_RUNNING && b->life.state != SB_PAUSED) {
		request_refuse(rq, CAY_E_STATE, "the sandbox does not run");
		return;
	}
	l = calloc(1, sizeof(*l));
	if (!l) {
		request_refuse(rq, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	*l = (struct look){ .rq = rq,
			    .path = c->settings.cgroup,
			    .tenant = b->info.tenant,
			    .sandbox = b->info.id };
	l->work.data = l;
	rq->data = l;
	rq->events = &events;
	(void)uv_queue_work(&c->loop, &l->work, look, on_looked);
}
