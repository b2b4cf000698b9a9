/* SPDX-License-Identifier: Apache-2.0 */
/* status - the node at a glance, for an operator */
#include <stdlib.h>

#include "cayd/core/handlers.h"
#include "cayd/core/keeper-link.h"
#include "cayd/create/create.h"
#include "cayd/edge/edge-push.h"
#include "cayd/image/image.h"
#include "cayd/sandbox/count.h"
#include "cayd/sandbox/sandbox.h"
#include "cayd/tenant/quota.h"
#include "cayd/tenant/tenant.h"
#include "life/create-queue.h"

static struct status_sandboxes status_count_sandboxes(const struct cayd *c)
{
	uint64_t n[SB_NUM_STATES] = {};

	for (const struct sandbox *sb = sandboxes_newest(c->sandboxes); sb; sb = sb->older)
		n[sb->life.state] += !sb->life.warm;
	return (struct status_sandboxes){ .pending = n[SB_PENDING] + n[SB_STARTING],
					  .running = n[SB_RUNNING],
					  .paused = n[SB_PAUSED],
					  .stopped = n[SB_STOPPED] + n[SB_STOPPING],
					  .ending = n[SB_ENDING],
					  .max = c->settings.max_sandboxes };
}

static void status_measure_machine(struct cayd *c, struct status *s)
{
	struct cay_err ignored = {};
	double load = 0;

	(void)!node_space_check(c, &ignored); /* measures */
	s->cores = c->node_space.cores;
	s->load_milli = getloadavg(&load, 1) == 1 && load > 0 ? (uint64_t)(load * 1000) : 0;
	s->memory_total = c->node_space.memory_total;
	s->memory_free = c->node_space.free.of[ADMIT_MEMORY];
	s->has_memory_free = s->memory_free != ADMIT_UNKNOWN;
	s->memory_promised =
		sandbox_counts_get_total(sandboxes_get_counts(c->sandboxes)).memory_bytes;
	s->memory_promise_max = quota_get_promise_max(c);
	s->has_memory_promise_max = s->memory_promise_max != 0;
	s->disk_total = c->node_space.disk_total;
	s->disk_free = c->node_space.free.of[ADMIT_DISK];
	s->has_disk_free = s->disk_free != ADMIT_UNKNOWN;
}

/* Newest first. */
static size_t status_list_errors(const struct log_recent *r, struct status_row rows[LOG_RECENT])
{
	size_t n = r->n < LOG_RECENT ? r->n : LOG_RECENT;

	for (size_t i = 0; i < n; i++) {
		const struct log_recent_row *from = &r->rows[(r->n - 1 - i) % LOG_RECENT];

		rows[i] = (struct status_row){ from->wall_ns, from->level, from->msg };
	}
	return n;
}

void op_system_status(struct cayd *c, struct request *rq)
{
	struct status_row rows[LOG_RECENT];
	struct status s = {
		.version = CAY_VERSION,
		.uptime_ms = (clk_boot_ns(c->clk) - c->started_ns) / NS_PER_MS,
		.keeper = keeper_is_up(c->keeper),
		.edges = edge_push_count_edges(c),
		.tenants = tenants_count(c),
		.creates_waiting = creates_get_queue(c)->n_waiting,
		.sandboxes = status_count_sandboxes(c),
	};

	while (image_at(c->images, s.images))
		s.images++;
	status_measure_machine(c, &s);
	s.errors = (struct field_list){ rows, status_list_errors(&c->recent, rows) };
	request_reply_json(rq, &status_table, &s);
}
