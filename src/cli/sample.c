/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sample.h"

#include <assert.h>
#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t rank(const struct sample *s, size_t percent)
{
	return s->ns[(s->n * percent + 99) / 100 - 1];
}

struct sample_summary sample_summarise(struct sample *s)
{
	assert(s->n > 0);
	qsort(s->ns, s->n, sizeof(*s->ns), by_size);
	return (struct sample_summary){ s->ns[0], rank(s, 50), rank(s, 99), s->ns[s->n - 1] };
}
