/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_COUNTERS_H
#define CAY_EDGE_COUNTERS_H
/*
 * counters - counters of the edge, reported to control
 *
 * An edge has no socket for metrics: once a second it sends changes to control, which shows them.
 */
#include "daemon/metrics.h"
#include "net/server.h"
#include "wire/push.h"

struct edge;

struct edge_counters {
	struct metrics_edge now, reported;
	uint64_t next_cell; /* where the next round begins */
	int statm, fds;     /* of /proc/self; -EBADF: not reported */
};

/* Call before confinement, which blocks opening files. */
void edge_counters_open(struct edge_counters *c);
void edge_counters_count_answer(struct edge *e, const struct request *rq, int status,
				enum cay_code code);
/* Update the values that are sampled. */
void edge_counters_update(struct edge *e);
/* The next record to report; false when there is none. */
[[nodiscard]] bool edge_counters_next_report(struct edge_counters *c, struct push *ret);
/* Of a new control connection: report everything again. */
void edge_counters_mark_unreported(struct edge_counters *c);
#endif
