/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_CORE_RING_H
#define CAY_INIT_CORE_RING_H
/*
 * ring - the last bytes of a stream, by absolute offset
 *
 * Offsets count from the first byte the stream ever had, so a reader that comes
 * back says where it stopped and sees exactly what it missed.  A ring holds
 * [start, end); it begins with nothing, takes RING_MIN with the first byte and
 * doubles up to its maximum while the budget of all rings has room.  Refused, it
 * stays as it is: the smallest ring still moves everything, in smaller steps.
 * Who asks for more than is left may be given what reclaim() frees.
 * Pure but for memory.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

#define RING_MIN KIB(4)
#define RING_MAX MIB(1)

struct ring_budget {
	size_t max, used;
	/* Give back somebody's memory; false when there is none to give. */
	bool (*reclaim)(struct ring_budget *b);
};

struct ring {
	uint8_t *data;
	size_t cap; /* 0 or a power of two */
	uint64_t start, end;
	size_t max;         /* of cap; 0: RING_MAX */
	bool ignore_budget; /* what comes must have room, whatever is left of the budget */
	struct ring_budget *budget;
};

static inline struct ring ring_empty(struct ring_budget *budget, uint64_t offset)
{
	return (struct ring){ .budget = budget, .start = offset, .end = offset };
}

/* Give the memory back; what was in it is gone, offsets stay. */
void ring_free_data(struct ring *r);

/* Where the next bytes go, and how many fit there without wrapping, 0 when none.
 * What is at or behind `keep` stays; what is before it may be overwritten, but
 * the ring grows first if it can.  With `half`, no more than half of the ring is
 * ever filled with what must stay, so that a reader may go back as far. */
size_t ring_reserve(struct ring *r, uint64_t keep, bool half, uint8_t **ret);
/* n bytes were put there. */
void ring_commit(struct ring *r, size_t n);
/* Copy bytes from offset on, which is not before start; how many there were. */
size_t ring_read(const struct ring *r, uint64_t offset, void *to, size_t n);
#endif
