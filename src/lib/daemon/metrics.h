/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_DAEMON_METRICS_H
#define CAY_DAEMON_METRICS_H
/*
 * metrics - a daemon's own metrics, in Prometheus text format
 *
 * Replies are counted here, by operation; every other value is read on request, by a function
 * of the program for each row of metrics.def.  A row without a function, and a label that was
 * never counted, are not written.
 *
 * Bounded: the tables' rows, and the labels that the program's functions put.  Threading: none.
 */
#include "base/buf.h"
#include "base/err.h"
#include "ops/metric.h"
#include "ops/op.h"

#define METRICS_MEDIA "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_BUCKETS 16

/* How a request ended: a code of ours, or one of these. */
enum { METRICS_INSIDE = CAY_NUM_CODES, METRICS_CLIENT_LEFT, METRICS_OUTCOMES };

struct metrics {
	struct {
		uint64_t outcomes[METRICS_OUTCOMES];
		uint64_t buckets[METRICS_BUCKETS + 1]; /* not cumulative; the last: longer */
		uint64_t sum_ns;
	} ops[OP_NUM + 1]; /* the last: no operation */
	uint64_t blames[BLAME_NUM];
};

/* The counters an edge reports to cayd. */
enum metrics_refusal {
	METRICS_NO_CREDENTIAL,
	METRICS_NO_SCOPE,
	METRICS_PEER_RATE,
	METRICS_TENANT_RATE,
	METRICS_HOST,
	METRICS_ORIGIN,
	METRICS_REFUSALS
};
extern const char *const metrics_refusals[METRICS_REFUSALS];

struct metrics_edge {
	struct metrics replies;
	uint64_t refused[METRICS_REFUSALS];
	uint64_t conns, open, cut, log_lost, memory, fds;
};

/* The same as cells with numbers; NULL: there is none of that number. */
uint64_t *metrics_edge_cell(struct metrics_edge *m, uint64_t i);

/* op NULL: none was found. */
void metrics_count_reply(struct metrics *m, const struct op *op, unsigned outcome, uint64_t ns);
/* An error reply, too: who is to blame for it. */
void metrics_count_blame(struct metrics *m, enum blame blame);

struct metrics_out;
/* A value with the metric's label, NULL when it has none. */
void metrics_write_value(struct metrics_out *to, const char *label, uint64_t value);
/* For a metric with two labels; for one of several sources of replies, by the first label. */
void metrics_write_value2(struct metrics_out *to, const char *first, const char *second,
			  uint64_t value);
void metrics_write_replies(struct metrics_out *to, const char *first, const struct metrics *m);
/* The error replies among them, by blame; first is NULL for a metric without other labels. */
void metrics_write_blames(struct metrics_out *to, const char *first, const struct metrics *m);
void metrics_write_durations(struct metrics_out *to, const char *first, const struct metrics *m);
typedef void metrics_fn(void *arg, struct metrics_out *to);

[[nodiscard]] int metrics_write(const struct metrics *m, metrics_fn *const from[METRIC_NUM],
				void *arg, struct buf *out);

/* Bytes in memory, from an open /proc/self/statm (or -errno). */
[[nodiscard]] int metrics_read_memory(int statm, uint64_t *ret);
/* Of this process. */
metrics_fn metrics_write_memory, metrics_write_fds;
#endif
