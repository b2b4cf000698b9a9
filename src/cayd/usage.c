/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/usage.h"

#include "cayd/box.h"
#include "cayd/link.h"
#include "cgroup/cgroup.h"

#define UNKNOWN UINT64_MAX

struct look {
	uv_work_t work;
	struct box *box;
	struct request *rq; /* NULL: the client left */
	const char *path;   /* the settings', which do not move */
	struct link *link;
	struct id tenant, sandbox;
	uint64_t generation;
	bool on_disk; /* somebody counts what it has there */
	struct cgroup_usage now;
	uint64_t disk_bytes, disk_inodes;
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

static void answer(struct look *l)
{
	struct box *b = l->box;
	struct usage now = { .memory_bytes = l->now.memory_bytes,
			     .memory_peak_bytes = l->now.memory_peak,
			     .oom_kills = l->now.oom_kills,
			     .cpu_ms = l->now.cpu_ns / NS_PER_MS,
			     .throttled_ms = l->now.throttled_ns / NS_PER_MS,
			     .processes = l->now.processes,
			     .disk_bytes = l->disk_bytes,
			     .disk_inodes = l->disk_inodes,
			     .has_disk_bytes = l->disk_bytes != UNKNOWN,
			     .has_disk_inodes = l->disk_inodes != UNKNOWN };

	if (l->rq)
		l->rq->events = NULL;
	if (l->rq && l->err.code)
		request_fail(l->rq, &l->err);
	else if (l->rq)
		request_reply_json(l->rq, &usage_table, &now);
	free(l);
	box_unhold(b);
}

/* The rest is worth telling without. */
static void on_disk(void *arg, const struct cay_err *outcome, const void *reply, int)
{
	struct look *l = arg;
	struct verb_usage_reply now;

	l->box->looked_at = false;
	if (!outcome->code) {
		memcpy(&now, reply, sizeof(now));
		l->disk_bytes = now.disk_bytes;
		l->disk_inodes = now.disk_inodes;
	}
	answer(l);
}

static void on_looked(uv_work_t *work, int)
{
	struct look *l = work->data;
	struct verb_box q = { .sandbox = l->sandbox, .generation = l->generation };

	/* one at a time: a worker waits for the sandbox's lock, and there are few of them */
	if (l->rq && !l->err.code && l->on_disk && !l->box->looked_at) {
		l->box->looked_at = true;
		link_call(l->link, VERB_USAGE, &q, -EBADF, on_disk, l);
	} else {
		answer(l);
	}
}

void usage_look(struct cayd *c, struct request *rq)
{
	static const struct request_events events = { .gone = on_gone };
	struct box *b = box_of(c->boxes, &rq->actor.tenant, &rq->match.params[0]);
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
	b->holds++;
	*l = (struct look){ .rq = rq,
			    .box = b,
			    .path = c->settings.cgroup,
			    .link = c->link,
			    .generation = b->life.generation,
			    .on_disk = b->info.limits.has_disk_bytes,
			    .disk_bytes = UNKNOWN,
			    .disk_inodes = UNKNOWN,
			    .tenant = b->home,
			    .sandbox = b->info.id };
	l->work.data = l;
	rq->data = l;
	rq->events = &events;
	(void)uv_queue_work(&c->loop, &l->work, look, on_looked);
}
