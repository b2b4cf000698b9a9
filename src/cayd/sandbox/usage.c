/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage - the resources a sandbox uses, as its cgroups count them
 *
 * cgroup files are world-readable, so the keeper is not needed.  The kernel may take long to
 * sum up, so they are read by libuv's threads.  A client that accepts events gets one every
 * FOLLOW_MS until the sandbox ends; while it reads none, none is made.
 */
#include "cayd/core/handlers.h"

#include "cayd/core/deferred-reply.h"
#include "cayd/core/keeper-link.h"
#include "cayd/sandbox/egress-usage.h"
#include "cgroup/cgroup.h"

#define UNKNOWN UINT64_MAX
#define FOLLOW_MS 2000
#define EVENT_MAX KIB(2)

struct usage_follower {
	uv_timer_t timer;
	struct cayd *cayd;
	struct request *rq; /* NULL: the client left */
	struct id sandbox;
	bool reading; /* a query is under way */
	bool full;    /* the connection takes no more now */
};

struct usage_query {
	uv_work_t work;
	struct sandbox *sandbox;
	struct request *rq;              /* NULL: the client left */
	struct usage_follower *follower; /* instead of rq, or NULL */
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

static void on_usage_follower_tick(uv_timer_t *t);

static void on_usage_follower_closed(uv_handle_t *h)
{
	free(h->data);
}

/* Once its query is done. */
static void usage_follower_end(struct usage_follower *f)
{
	struct request *rq = cay_take(f->rq);

	if (rq) {
		rq->events = NULL;
		request_end_stream(rq);
	}
	uv_close((uv_handle_t *)&f->timer, on_usage_follower_closed);
}

static void usage_follower_send(struct usage_follower *f, const struct usage *now)
{
	if (request_write_event(f->rq, &usage_table, now, &f->full) < 0)
		usage_follower_end(f);
	else
		(void)uv_timer_start(&f->timer, on_usage_follower_tick, FOLLOW_MS, 0);
}

static void usage_follower_done(struct usage_follower *f, const struct cay_err *err,
				const struct usage *now)
{
	f->reading = false;
	if (!f->rq || err->code)
		usage_follower_end(f);
	else
		usage_follower_send(f, now);
}

static void usage_reply(struct usage_query *l)
{
	struct sandbox *sb = l->sandbox;
	struct usage now = { .memory_bytes = l->now.memory_bytes,
			     .memory_peak_bytes = l->now.memory_peak,
			     .oom_kills = l->now.oom_kills,
			     .cpu_ms = l->now.cpu_ns / NS_PER_MS + sb->info.cpu_ms,
			     .throttled_ms = l->now.throttled_ns / NS_PER_MS,
			     .processes = l->now.processes,
			     .disk_bytes = l->disk_bytes,
			     .disk_inodes = l->disk_inodes,
			     .has_disk_bytes = l->disk_bytes != UNKNOWN,
			     .has_disk_inodes = l->disk_inodes != UNKNOWN,
			     .egress = egress_usage_get(sb),
			     .has_egress = sb->egress_counts.known };

	if (l->err.code == CAY_E_STATE && sb->info.has_end) {
		l->err = (struct cay_err){};
		(void)sandbox_fail_state(sb, &l->err);
	}
	if (l->follower)
		usage_follower_done(l->follower, &l->err, &now);
	else
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

	/* one query at a time: a keeper worker waits for the sandbox's lock, and workers are few;
	 * none while the disk is copied, which has the lock for minutes */
	if ((l->rq || l->follower) && !l->err.code && l->on_disk &&
	    l->sandbox->life.pending_effect != DO_SNAPSHOT &&
	    !l->sandbox->usage.disk_query_pending) {
		l->sandbox->usage.disk_query_pending = true;
		keeper_call_for(l->keeper, &l->tenant, VERB_USAGE, &q, on_usage_disk_reply, l);
	} else {
		usage_reply(l);
	}
}

static bool usage_is_counted(const struct sandbox *sb)
{
	return sb->life.state == SB_RUNNING || sb->life.state == SB_PAUSED;
}

/* For a request that waits, or for a follower. */
static struct usage_query *usage_query_start(struct cayd *c, struct sandbox *sb, struct request *rq,
					     struct usage_follower *f)
{
	struct usage_query *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	sb->holds++;
	*l = (struct usage_query){ .rq = rq,
				   .follower = f,
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
	if (rq)
		request_watch_client(&l->rq);
	(void)uv_queue_work(&c->loop, &l->work, usage_read_cgroup, on_usage_cgroup_read);
	return l;
}

static void on_usage_follower_tick(uv_timer_t *t)
{
	struct usage_follower *f = t->data;
	struct sandbox *sb;

	if (f->full)
		return; /* on_usage_follower_drain() goes on */
	sb = sandbox_find_of_actor(f->cayd->sandboxes, &f->rq->actor, &f->sandbox);
	f->reading = sb && usage_is_counted(sb) && usage_query_start(f->cayd, sb, NULL, f);
	if (!f->reading)
		usage_follower_end(f);
}

static void on_usage_follower_drain(struct request *rq)
{
	struct usage_follower *f = rq->data;

	if (!f->full)
		return;
	f->full = false;
	(void)uv_timer_start(&f->timer, on_usage_follower_tick, FOLLOW_MS, 0);
}

static void on_usage_follower_gone(struct request *rq)
{
	struct usage_follower *f = rq->data;

	f->rq = NULL;
	(void)uv_timer_stop(&f->timer);
	if (!f->reading)
		usage_follower_end(f);
}

static void usage_follower_start(struct cayd *c, struct request *rq)
{
	static const struct request_events events = { .drain = on_usage_follower_drain,
						      .gone = on_usage_follower_gone };
	struct usage_follower *f = calloc(1, sizeof(*f));

	if (!f) {
		request_no_memory(rq);
		return;
	}
	*f = (struct usage_follower){ .cayd = c, .rq = rq, .sandbox = rq->match.params[0] };
	(void)uv_timer_init(&c->loop, &f->timer);
	f->timer.data = f;
	rq->data = f;
	rq->events = &events;
	request_start_stream(rq, 200, "text/event-stream", REQUEST_LENGTH_UNKNOWN);
	on_usage_follower_tick(&f->timer);
}

void op_sandbox_usage(struct cayd *c, struct request *rq)
{
	struct sandbox *sb = sandbox_find_of_request(c, rq);

	if (!sb)
		return;
	if (!usage_is_counted(sb))
		sandbox_refuse_state(rq, sb);
	else if (http_accepts_media_type(rq->head, "text/event-stream"))
		usage_follower_start(c, rq);
	else if (!usage_query_start(c, sb, rq, NULL))
		request_no_memory(rq);
}
