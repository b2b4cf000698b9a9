/* SPDX-License-Identifier: Apache-2.0 */
#include "init/core/ring.h"

#include <assert.h>
#include <string.h>

void ring_free_data(struct ring *r)
{
	free(r->data);
	if (r->budget)
		r->budget->used -= r->cap;
	r->data = NULL;
	r->cap = 0;
	r->start = r->end;
}

size_t ring_read(const struct ring *r, uint64_t offset, void *to, size_t n)
{
	size_t at, first;

	assert(offset >= r->start);
	if (offset >= r->end)
		return 0;
	if (n > r->end - offset)
		n = (size_t)(r->end - offset);
	at = (size_t)(offset & (r->cap - 1));
	first = n < r->cap - at ? n : r->cap - at;
	memcpy(to, r->data + at, first);
	memcpy((uint8_t *)to + first, r->data, n - first);
	return n;
}

static bool ring_budget_make_room(struct ring_budget *b, size_t n)
{
	while (b->used + n > b->max)
		if (!b->reclaim || !b->reclaim(b))
			return false;
	return true;
}

static bool ring_grow(struct ring *r)
{
	size_t cap = r->cap ? r->cap * 2 : RING_MIN;
	uint64_t at = r->start;
	uint8_t *data;

	/* without its first page a ring could not pass anything on */
	if (cap > (r->max ? r->max : RING_MAX) ||
	    (!ring_budget_make_room(r->budget, cap - r->cap) && r->cap && !r->ignore_budget))
		return false;
	data = malloc(cap);
	if (!data)
		return false;
	while (at < r->end) {
		size_t to = (size_t)(at & (cap - 1));

		at += ring_read(r, at, data + to, cap - to);
	}
	free(r->data);
	r->budget->used += cap - r->cap;
	r->data = data;
	r->cap = cap;
	return true;
}

static size_t ring_room(const struct ring *r, uint64_t keep, bool half)
{
	size_t limit = half ? r->cap / 2 : r->cap;
	uint64_t must = r->end - keep;

	return must < limit ? (size_t)(limit - must) : 0;
}

size_t ring_reserve(struct ring *r, uint64_t keep, bool half, uint8_t **ret)
{
	size_t at, n, unused;

	if (keep < r->start)
		keep = r->start;
	if (keep > r->end)
		keep = r->end;
	/* grow rather than overwrite bytes a reader may still request */
	while ((r->end - r->start == r->cap || !ring_room(r, keep, half)) && ring_grow(r))
		;
	n = ring_room(r, keep, half);
	if (!n)
		return 0;
	/* up to the unused part; then it is full, and grows or begins to overwrite */
	unused = r->cap - (size_t)(r->end - r->start);
	if (unused && n > unused)
		n = unused;
	at = (size_t)(r->end & (r->cap - 1));
	*ret = r->data + at;
	return n < r->cap - at ? n : r->cap - at;
}

void ring_commit(struct ring *r, size_t n)
{
	assert(n <= r->cap);
	r->end += n;
	if (r->end - r->start > r->cap)
		r->start = r->end - r->cap;
}
