/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TESTS_BENCH_H
#define CAY_TESTS_BENCH_H
/*
 * bench - one row of build/bench.json from two functions
 *
 * Ours and the baseline take turns in small batches, so that whatever else the
 * machine does hits both; the ratio is of the medians of one run.  A program
 * prints one JSON line per row, which dev/bench gathers.
 */
#include <stddef.h>

struct bench {
	const char *name;
	void (*ours)(void *arg);
	const char *baseline_name;
	void (*baseline)(void *arg);
	void *arg;
	const char *note;
	size_t samples, batch; /* 2000 of 50 calls each where 0; for what waits for a disk */
};

/* Measure and print; 0, or -errno. */
int bench_run(const struct bench *b);
#endif
