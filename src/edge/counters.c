/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/counters.h"

#include "base/path.h"
#include "edge/edge.h"

void edge_counters_open(struct edge_counters *c)
{
	auto_close int proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	c->statm = proc < 0 ? -EBADF : path_open(proc, "statm", O_RDONLY, 0);
	c->fds = proc < 0 ? -EBADF : path_open(proc, "fd", O_RDONLY | O_DIRECTORY, 0);
}

void edge_counters_count_answer(struct edge *e, const struct request *rq, int status,
				enum cay_code code)
{
	unsigned outcome = !status                  ? METRICS_CLIENT_LEFT
			   : !code && status >= 400 ? METRICS_INSIDE
						    : (unsigned)code;

	metrics_count_reply(&e->counters.now.replies, rq->match.op, outcome,
			    uv_hrtime() - rq->begun_ns);
	if (status && code)
		metrics_count_blame(&e->counters.now.replies, rq->blame);
}

void edge_counters_update(struct edge *e)
{
	struct edge_counters *c = &e->counters;
	struct stat st;

	c->now.conns = 0;
	for (unsigned i = 0; i < e->n_servers; i++)
		c->now.conns += server_count_connections(e->servers[i]);
	c->now.open = e->n_live_requests;
	c->now.log_lost = e->log.lost;
	(void)metrics_read_memory(c->statm, &c->now.memory);
	/* since Linux 6.2 the directory's size is the number of fds */
	if (c->fds >= 0 && fstat(c->fds, &st) >= 0)
		c->now.fds = (uint64_t)st.st_size;
}

bool edge_counters_next_report(struct edge_counters *c, struct push *ret)
{
	for (uint64_t n = 0; metrics_edge_cell(&c->now, n); n++) {
		uint64_t i = metrics_edge_cell(&c->now, c->next_cell) ? c->next_cell : 0;
		uint64_t value = *metrics_edge_cell(&c->now, i),
			 *told = metrics_edge_cell(&c->reported, i);

		c->next_cell = i + 1;
		if (value == *told)
			continue;
		*told = value;
		*ret = (struct push){ .kind = PUSH_COUNT, .number = (uint32_t)i, .time = value };
		return true;
	}
	return false;
}

void edge_counters_mark_unreported(struct edge_counters *c)
{
	c->reported = (struct metrics_edge){};
}
