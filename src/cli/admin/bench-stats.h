/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_ADMIN_BENCH_STATS_H
#define CAY_CLI_ADMIN_BENCH_STATS_H
/* bench-stats - measured durations and their percentiles */
#include <stddef.h>
#include <stdint.h>

#define BENCH_STATS_MAX 10000

struct bench_stats {
	uint64_t *ns; /* room for at most BENCH_STATS_MAX */
	size_t n;
};

struct bench_stats_summary {
	uint64_t min, p50, p99, max;
};

/* Sorts s.  Percentiles are by nearest rank, so each is a measured value. */
struct bench_stats_summary bench_stats_summarise(struct bench_stats *s);
#endif
