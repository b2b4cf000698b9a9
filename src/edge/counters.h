/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_COUNTERS_H
#define CAY_EDGE_COUNTERS_H
/*
 * count - what an edge counts of itself, and control has not heard yet
 *
 * It has no socket that could be asked: control hears what has changed once a second,
 * and tells it with its own metrics.
 */
#include "daemon/metrics.h"
#include "net/server.h"
#include "wire/push.h"

struct edge;

struct edge_counters {
	struct metrics_edge now, reported;
	uint64_t next_cell; /* where the next round begins */
	int statm, fds;     /* of /proc/self; -EBADF: not told */
};

/* Before it is confined, and before nobody may look at it. */
void edge_counters_open(struct edge_counters *c);
/* conf->answered of the servers. */
bool edge_counters_count_answer(struct request *rq, int status, enum cay_code code, bool whole,
				void *arg);
/* Bring what is not counted as it happens up to date. */
void edge_counters_update(struct edge *e);
/* The next record that control has not heard; false when it has heard all. */
[[nodiscard]] bool edge_counters_next_report(struct edge_counters *c, struct push *ret);
/* Another control: it has heard nothing. */
void edge_counters_mark_unreported(struct edge_counters *c);
#endif
