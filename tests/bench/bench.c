/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/jsonw.h"

static constexpr size_t SAMPLES = 2000;
static constexpr size_t BATCH = 50; /* calls between two looks at the clock */

static uint64_t batch_ps(void (*fn)(void *), void *arg)
{
	uint64_t start = clk_boot_ns(&clk_system);

	for (size_t i = 0; i < BATCH; i++)
		fn(arg);
	return (clk_boot_ns(&clk_system) - start) * 1000 / BATCH;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Thousandths, because the JSON writer has whole numbers only and a nanosecond
 * is too coarse here; dev/bench divides. */
static void write_row(struct jw *w, const struct bench *b, const uint64_t *ours,
		      const uint64_t *base)
{
	jw_object(w, NULL);
	jw_str(w, "name", b->name);
	jw_str(w, "unit", "ns");
	jw_u64(w, "n", SAMPLES * BATCH);
	jw_u64(w, "p50_milli", ours[SAMPLES / 2]);
	jw_u64(w, "p95_milli", ours[SAMPLES * 95 / 100]);
	jw_u64(w, "p99_milli", ours[SAMPLES * 99 / 100]);
	jw_object(w, "baseline");
	jw_str(w, "name", b->baseline_name);
	jw_u64(w, "p50_milli", base[SAMPLES / 2]);
	jw_end(w);
	jw_str(w, "note", b->note);
	jw_end(w);
}

int bench_run(const struct bench *b)
{
	auto_free uint64_t *ours = calloc(SAMPLES, sizeof(*ours));
	auto_free uint64_t *base = calloc(SAMPLES, sizeof(*base));
	auto_buf out = BUF_INIT(4096);
	struct jw w = jw_to(&out);

	if (!ours || !base)
		return -ENOMEM;
	for (size_t i = 0; i < SAMPLES / 10; i++) {
		(void)batch_ps(b->ours, b->arg);
		(void)batch_ps(b->baseline, b->arg);
	}
	for (size_t i = 0; i < SAMPLES; i++) {
		ours[i] = batch_ps(b->ours, b->arg);
		base[i] = batch_ps(b->baseline, b->arg);
	}
	qsort(ours, SAMPLES, sizeof(*ours), compare);
	qsort(base, SAMPLES, sizeof(*base), compare);
	write_row(&w, b, ours, base);
	if (jw_done(&w) < 0)
		return -ENOBUFS;
	return puts(buf_str(&out)) < 0 ? -EIO : 0;
}
