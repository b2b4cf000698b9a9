/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_SAMPLE_H
#define CAY_CLI_SAMPLE_H
/* sample - durations that were measured, and what they say together */
#include <stddef.h>
#include <stdint.h>

#define SAMPLE_MAX 10000

struct sample {
	uint64_t *ns; /* room for SAMPLE_MAX at the most */
	size_t n;
};

struct sample_summary {
	uint64_t min, p50, p99, max;
};

/* Sorts them.  Percentiles are the nearest rank: a value that was measured. */
struct sample_summary sample_summarise(struct sample *s);
#endif
