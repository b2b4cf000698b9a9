/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage - the resources a sandbox uses, as its cgroups count them
 *
 * cgroup files are world-readable, so the keeper is not needed.  The kernel may take long to
 * sum up, so they are read by libuv's threads.
 */
#include "cayd/core/handlers.h"

#include "cayd/core/deferred-reply.h"
#include "cayd/core/keeper-link.h"
#include "cayd/sandbox/sandbox.h"
#include "cgroup/cgroup.h"

#define UNKNOWN UINT64_MAX

struct usage_query {
	uv_work_t work;
	struct sandbox *sandbox;
	struct request *rq; /* NULL: the client left */
	char path[VERB_CGROUP_MAX + 1];
	struct keeper_link *keeper;
	struct id tenant, sandbox_id;
	uint64_t generation;
	bool on_disk; /* a quota counts its usage */
	struct cgroup_usage now;
	uint64_t disk_bytes, disk_inodes;
	struct cay_err err;
};

static void usage_read_cgroup(uv_work_t *work)
{
	struct usage_query *l = work->data;
	auto_cgroup top = CGROUP_INIT, at = CGROUP_INIT;

	if (cgroup_open_top(l->path, &top, &l->err) < 0)
		return;
	if (cgroup_open_sandbox(&top, &l->tenant, &l->sandbox_id, &at) < 0)
		(void)cay_fail(&l->err, CAY_E_STATE, "the sandbox is not running any more");
	else
		(void)cgroup_read_usage(&at, &l->now, &l->err);
}

static void usage_reply(struct usage_query *l)
{
	struct sandbox *sb = l->sandbox;
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

	request_reply_outcome(l->rq, &l->err, &usage_table, &now);
	free(l);
	sandbox_release(sb);
}

/* Reply without the disk if the keeper cannot say. */
static void on_usage_disk_reply(void *arg, const struct cay_err *outcome, const void *reply, int)
{
	struct usage_query *l = arg;
	struct verb_usage_reply now;

	l->sandbox->usage.disk_query_pending = false;
	if (!outcome->code) {
		memcpy(&now, reply, sizeof(now));
		l->disk_bytes = now.disk_bytes;
		l->disk_inodes = now.disk_inodes;
	}
	usage_reply(l);
}

static void on_usage_cgroup_read(uv_work_t *work, int)
{
	struct usage_query *l = work->data;
	struct verb_sandbox q = { .sandbox = l->sandbox_id, .generation = l->generation };

	/* one query at a time: a keeper worker waits for the sandbox's lock, and workers are few */
	if (l->rq && !l->err.code && l->on_disk && !l->sandbox->usage.disk_query_pending) {
		l->sandbox->usage.disk_query_pending = true;
		keeper_call_for(l->keeper, &l->tenant, VERB_USAGE, &q, on_usage_disk_reply, l);
	} else {
		usage_reply(l);
	}
}

void op_sandbox_usage(struct cayd *c, struct request *rq)
{
	struct sandbox *sb = sandbox_find_of_request(c, rq);
	struct usage_query *l;

	if (!sb)
		return;
	if (sb->life.state != SB_RUNNING && sb->life.state != SB_PAUSED) {
		request_refuse(rq, CAY_E_STATE, "the sandbox is not running");
		return;
	}
	l = calloc(1, sizeof(*l));
	if (!l) {
		request_no_memory(rq);
		return;
	}
	sb->holds++;
	*l = (struct usage_query){ .rq = rq,
				   .sandbox = sb,
				   .keeper = c->keeper,
				   .generation = sb->life.generation,
				   .on_disk = sb->info.limits.has_disk_bytes,
				   .disk_bytes = UNKNOWN,
				   .disk_inodes = UNKNOWN,
				   .tenant = sb->cgroup_tenant,
				   .sandbox_id = sb->info.id };
	keeper_cgroup_copy(c->keeper, l->path);
	l->work.data = l;
	request_watch_client(&l->rq);
	(void)uv_queue_work(&c->loop, &l->work, usage_read_cgroup, on_usage_cgroup_read);
}
