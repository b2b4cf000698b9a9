/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/jsonw.h"

static constexpr size_t SAMPLES = 2000;
static constexpr size_t BATCH = 50; /* calls between two looks at the clock */

static uint64_t batch_ps(const struct bench *b, void (*fn)(void *))
{
	uint64_t start = clk_boot_ns(&clk_system);

	for (size_t i = 0; i < b->batch; i++)
		fn(b->arg);
	return (clk_boot_ns(&clk_system) - start) * 1000 / b->batch;
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
	jw_object_begin(w, NULL);
	jw_str(w, "name", b->name);
	jw_str(w, "unit", "ns");
	jw_u64(w, "n", b->samples * b->batch);
	jw_u64(w, "p50_milli", ours[b->samples / 2]);
	jw_u64(w, "p95_milli", ours[b->samples * 95 / 100]);
	jw_u64(w, "p99_milli", ours[b->samples * 99 / 100]);
	jw_object_begin(w, "baseline");
	jw_str(w, "name", b->baseline_name);
	jw_u64(w, "p50_milli", base[b->samples / 2]);
	jw_end(w);
	jw_str(w, "note", b->note);
	jw_end(w);
}

static int run(const struct bench *b)
{
	auto_free uint64_t *ours = calloc(b->samples, sizeof(*ours));
	auto_free uint64_t *base = calloc(b->samples, sizeof(*base));
	auto_buf out = BUF_INIT(4096);
	struct jw w = jw_to(&out);

	if (!ours || !base)
		return -ENOMEM;
	for (size_t i = 0; i < b->samples / 10; i++) {
		(void)batch_ps(b, b->ours);
		(void)batch_ps(b, b->baseline);
	}
	for (size_t i = 0; i < b->samples; i++) {
		ours[i] = batch_ps(b, b->ours);
		base[i] = batch_ps(b, b->baseline);
	}
	qsort(ours, b->samples, sizeof(*ours), compare);
	qsort(base, b->samples, sizeof(*base), compare);
	write_row(&w, b, ours, base);
	if (jw_finish(&w) < 0)
		return -ENOBUFS;
	return puts(buf_str(&out)) < 0 ? -EIO : 0;
}

int bench_run(const struct bench *b)
{
	struct bench all = *b;

	all.samples = b->samples ? b->samples : SAMPLES;
	all.batch = b->batch ? b->batch : BATCH;
	return run(&all);
}
