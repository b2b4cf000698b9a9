/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_CORE_RING_H
#define CAY_INIT_CORE_RING_H
/*
 * ring - the last bytes of a stream, by absolute offset
 *
 * Offsets count from the first byte of the stream, so that a reader that reconnects names the
 * offset where it stopped and sees exactly which bytes it missed.  A ring holds [start, end).
 * It allocates RING_MIN with the first byte and doubles up to its maximum while the budget of
 * all rings has room; reclaim() may free memory for it.  A ring that cannot grow keeps its
 * size, and even the smallest passes all bytes on, in smaller steps.
 * Pure but for memory.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

#define RING_MIN KIB(4)
#define RING_MAX MIB(1)

struct ring_budget {
	size_t max, used;
	/* Free the memory of another ring; false when there is none to free. */
	bool (*reclaim)(struct ring_budget *b);
};

struct ring {
	uint8_t *data;
	size_t cap; /* 0 or a power of two */
	uint64_t start, end;
	size_t max;         /* limit of cap; 0: RING_MAX */
	bool ignore_budget; /* grow even when the budget is used up */
	struct ring_budget *budget;
};

static inline struct ring ring_empty(struct ring_budget *budget, uint64_t offset)
{
	return (struct ring){ .budget = budget, .start = offset, .end = offset };
}

/* Free the memory: the bytes are lost, offsets stay. */
void ring_free_data(struct ring *r);

/* Where the next bytes go (*ret) and how many fit there without wrapping; 0 when none.  Bytes
 * from `keep` on are never overwritten, bytes before it only when the ring cannot grow.  With
 * `half`, at most half of the ring is filled with bytes that must stay, so that a reader can
 * go back as far. */
size_t ring_reserve(struct ring *r, uint64_t keep, bool half, uint8_t **ret);
/* n bytes were written there. */
void ring_commit(struct ring *r, size_t n);
/* Copy bytes from offset on, which is not before start; returns how many. */
size_t ring_read(const struct ring *r, uint64_t offset, void *to, size_t n);
#endif
