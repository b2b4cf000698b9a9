/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/admin/bench-stats.h"

#include <assert.h>
#include <stdlib.h>

static int bench_stats_compare_ns(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t bench_stats_percentile(const struct bench_stats *s, size_t percent)
{
	return s->ns[(s->n * percent + 99) / 100 - 1];
}

struct bench_stats_summary bench_stats_summarise(struct bench_stats *s)
{
	assert(s->n > 0);
	qsort(s->ns, s->n, sizeof(*s->ns), bench_stats_compare_ns);
	return (struct bench_stats_summary){ s->ns[0], bench_stats_percentile(s, 50),
					     bench_stats_percentile(s, 99), s->ns[s->n - 1] };
}
