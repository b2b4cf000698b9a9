/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/sandbox/usage-sample.h"

#include "cayd/core/deferred-reply.h"
#include "cayd/core/keeper-link.h"
#include "cgroup/cgroup.h"

#define SAMPLE_NS NS_PER_S
#define SAMPLE_PAUSE 10 /* times what the last one took */
#define PART 128        /* sandboxes that a thread reads before others may have it */

struct usage_sample_row {
	struct id sandbox, cgroup_tenant;
	uint64_t generation;
	struct cgroup_usage now;
	bool known;
};

struct usage_waiter {
	struct usage_waiter *next;
	struct request *rq; /* NULL: the client left */
};

struct usage_sampler {
	struct cayd *cayd;
	uv_work_t work;
	char path[VERB_CGROUP_MAX + 1]; /* of the cgroups */
	struct usage_sample_row *rows;
	size_t n, at;
	struct verb_list list;
	bool under_way;
	uint64_t begun_ns, recent_until_ns;
	uint64_t begun_hr_ns; /* of the last one that ended, as uv_hrtime() */
	struct usage_waiter *waiters;
};

static size_t usage_sample_part_end(const struct usage_sampler *s)
{
	return s->n - s->at < PART ? s->n : s->at + PART;
}

static void usage_sample_read_part(uv_work_t *work)
{
	struct usage_sampler *s = work->data;
	auto_cgroup top = CGROUP_INIT;

	if (cgroup_open_top(s->path, &top, NULL) < 0)
		return;
	for (size_t i = s->at; i < usage_sample_part_end(s); i++) {
		struct usage_sample_row *row = &s->rows[i];
		auto_cgroup at = CGROUP_INIT;

		row->known =
			cgroup_open_sandbox(&top, &row->cgroup_tenant, &row->sandbox, &at) >= 0 &&
			cgroup_read_usage(&at, &row->now, NULL) >= 0;
	}
}

/* Requests take turns again: what their replies cost is their tenants'. */
static void usage_sample_finish(struct usage_sampler *s)
{
	uint64_t now = clk_boot_ns(s->cayd->clk), pause = SAMPLE_PAUSE * (now - s->begun_ns);
	struct usage_waiter *first = s->waiters;

	free(s->rows);
	s->rows = NULL;
	s->under_way = false;
	s->recent_until_ns = now + (pause > SAMPLE_NS ? pause : SAMPLE_NS);
	s->waiters = NULL;
	for (struct usage_waiter *w = first, *next; w; w = next) {
		next = w->next;
		if (w->rq)
			request_take_turn_again(w->rq);
		free(w);
	}
}

static void on_usage_sample_listed(void *arg, const struct cay_err *outcome, const void *reply, int)
{
	struct usage_sampler *s = arg;
	struct verb_list_reply page = {};

	if (!outcome->code)
		memcpy(&page, reply, sizeof(page));
	for (uint32_t i = 0; i < page.n_rows; i++) {
		const struct verb_list_row *row = &page.rows[i];
		struct sandbox *sb = sandbox_find(s->cayd->sandboxes, &row->sandbox);

		if (!sb || sb->life.generation != row->generation)
			continue;
		sb->usage.disk_bytes = row->disk_bytes;
		sb->usage.disk_known = row->disk_bytes != UINT64_MAX;
	}
	if (!page.more || !page.n_rows) {
		usage_sample_finish(s);
		return;
	}
	s->list.after = page.rows[page.n_rows - 1].sandbox;
	keeper_call(s->cayd->keeper, VERB_LIST, &s->list, -EBADF, on_usage_sample_listed, s);
}

static void on_usage_sample_part(uv_work_t *work, int)
{
	struct usage_sampler *s = work->data;
	size_t end = usage_sample_part_end(s);

	for (; s->at < end; s->at++) {
		const struct usage_sample_row *row = &s->rows[s->at];
		struct sandbox *sb = sandbox_find(s->cayd->sandboxes, &row->sandbox);

		if (!sb || sb->life.generation != row->generation)
			continue;
		sb->usage.known = row->known;
		sb->usage.now = row->now;
	}
	if (s->at < s->n) {
		(void)uv_queue_work(&s->cayd->loop, work, usage_sample_read_part,
				    on_usage_sample_part);
	} else if (keeper_disk_kind(s->cayd->keeper) != VERB_DISK_NONE) {
		s->list = (struct verb_list){ .usage = 1 };
		keeper_call(s->cayd->keeper, VERB_LIST, &s->list, -EBADF, on_usage_sample_listed,
			    s);
	} else {
		usage_sample_finish(s);
	}
}

static int usage_sample_start(struct usage_sampler *s)
{
	struct sandboxes *all = s->cayd->sandboxes;

	s->rows = calloc(sandboxes_count_live(all) + 1, sizeof(*s->rows));
	if (!s->rows)
		return -ENOMEM;
	s->n = s->at = 0;
	for (struct sandbox *sb = sandboxes_newest(all); sb; sb = sb->older)
		if (sb->life.state == SB_RUNNING || sb->life.state == SB_PAUSED)
			s->rows[s->n++] = (struct usage_sample_row){
				.sandbox = sb->info.id,
				.cgroup_tenant = sb->cgroup_tenant,
				.generation = sb->life.generation,
			};
	keeper_cgroup_copy(s->cayd->keeper, s->path);
	s->begun_ns = clk_boot_ns(s->cayd->clk);
	s->begun_hr_ns = uv_hrtime();
	s->under_way = true;
	(void)uv_queue_work(&s->cayd->loop, &s->work, usage_sample_read_part, on_usage_sample_part);
	return 0;
}

static struct usage_sampler *usage_sampler_get(struct cayd *c)
{
	if (!c->usage_sampler) {
		c->usage_sampler = calloc(1, sizeof(*c->usage_sampler));
		if (!c->usage_sampler)
			return NULL;
		c->usage_sampler->cayd = c;
		c->usage_sampler->work.data = c->usage_sampler;
	}
	return c->usage_sampler;
}

bool usage_sample_is_recent(struct cayd *c, struct request *rq)
{
	struct usage_sampler *s = usage_sampler_get(c);
	struct usage_waiter *w;

	/* also when it has waited for its turn longer than a sample lasts */
	if (s && !s->under_way &&
	    (clk_boot_ns(c->clk) < s->recent_until_ns || s->begun_hr_ns >= rq->begun_ns))
		return true;
	w = s ? calloc(1, sizeof(*w)) : NULL;
	if (!w || (!s->under_way && usage_sample_start(s) < 0)) {
		free(w);
		request_no_memory(rq);
		return false;
	}
	*w = (struct usage_waiter){ s->waiters, rq };
	s->waiters = w;
	request_watch_client(&w->rq);
	return false;
}
