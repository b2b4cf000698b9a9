/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_ADMIN_BENCH_STATS_H
#define CAY_CLI_ADMIN_BENCH_STATS_H
/* sample - durations that were measured, and what they say together */
#include <stddef.h>
#include <stdint.h>

#define BENCH_STATS_MAX 10000

struct bench_stats {
	uint64_t *ns; /* room for SAMPLE_MAX at the most */
	size_t n;
};

struct bench_stats_summary {
	uint64_t min, p50, p99, max;
};

/* Sorts them.  Percentiles are the nearest rank: a value that was measured. */
struct bench_stats_summary bench_stats_summarise(struct bench_stats *s);
#endif
