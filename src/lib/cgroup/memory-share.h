/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CGROUP_MEMORY_SHARE_H
#define CAY_CGROUP_MEMORY_SHARE_H
/*
 * memory-share - how much memory each tenant may take of what all sandboxes have
 *
 * When memory is short, the tenant that uses most has at least an equal part of it.  That one meets
 * a ceiling of its own before the limit of all, where the kernel would choose among all processes.
 * Every other tenant may grow into the margin, more slowly the less is left of it, and then the
 * largest has to give (docs/adr/0061).  Pure: numbers in, numbers out.
 */
#include <stddef.h>
#include <stdint.h>

#define MEMORY_SHARE_NONE UINT64_MAX

struct memory_share {
	uint64_t need;    /* in use, without cache */
	uint64_t ceiling; /* result; below need: processes have to go */
	uint64_t slow;    /* result: from here on it has to wait; MEMORY_SHARE_NONE: nowhere */
};

/* A limit of v2 counts no swap.  What a sandbox has in swap is taken from its memory, and both
 * together are never more than its limit and a slack, which it needs to exchange one for the other.
 */
struct memory_split {
	uint64_t memory, swap;
};

struct memory_split memory_split_limit(uint64_t limit, uint64_t in_swap);

uint64_t memory_share_margin(uint64_t all);
/* Bytes that may be given out: all free ones but the margin. */
uint64_t memory_share_room(uint64_t all, uint64_t used);
/* all: the limit of all together; used: what they need, at least the sum of the shares. */
void memory_shares_settle(struct memory_share *s, size_t n, uint64_t all, uint64_t used);
/* When to look again: before every CPU together could have filled half of the free memory. */
uint64_t memory_shares_interval_ns(uint64_t all, uint64_t used, unsigned cpus);
#endif
