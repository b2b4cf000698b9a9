/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup/memory-share.h"

#include "base/mem.h"

#define MARGIN_PART 16
#define MARGIN_LEAST MIB(16)
#define MARGIN_MOST MIB(2048)
/* A CPU that only touches new pages: 1 to 2 GiB/s measured. */
#define CPU_BYTES_PER_MS (MIB(2048) / 1000)
#define INTERVAL_LEAST_MS 10
#define INTERVAL_MOST_MS 1000
#define NS_PER_MS_U64 UINT64_C(1000000)
#define SLACK_PART 8
#define SLACK_MOST MIB(64)

/* Without slack, nothing that is in swap could come back while both parts are full.  With it they
 * follow step by step, each time that this is asked. */
struct memory_split memory_split_limit(uint64_t limit, uint64_t in_swap)
{
	uint64_t slack = limit / SLACK_PART < SLACK_MOST ? limit / SLACK_PART : SLACK_MOST;
	uint64_t taken = in_swap > slack ? in_swap - slack : 0, most = limit - slack;

	return (struct memory_split){
		.memory = limit - (taken < most ? taken : most),
		.swap = !in_swap         ? 0
			: in_swap < most ? in_swap + slack
					 : limit,
	};
}

uint64_t memory_share_margin(uint64_t all)
{
	uint64_t margin = all / MARGIN_PART;

	if (margin < MARGIN_LEAST)
		return MARGIN_LEAST;
	return margin > MARGIN_MOST ? MARGIN_MOST : margin;
}

static uint64_t memory_share_free(uint64_t all, uint64_t used)
{
	return used < all ? all - used : 0;
}

uint64_t memory_share_room(uint64_t all, uint64_t used)
{
	uint64_t margin = memory_share_margin(all), free = memory_share_free(all, used);

	return free > margin ? free - margin : 0;
}

static size_t memory_shares_find_largest(const struct memory_share *s, size_t n)
{
	size_t at = 0;

	for (size_t i = 1; i < n; i++)
		if (s[i].need > s[at].need)
			at = i;
	return at;
}

void memory_shares_settle(struct memory_share *s, size_t n, uint64_t all, uint64_t used)
{
	uint64_t margin = memory_share_margin(all), free = memory_share_free(all, used);
	uint64_t room = memory_share_room(all, used), spare = free - room; /* of the margin */
	struct memory_share *largest = s + memory_shares_find_largest(s, n);

	for (size_t i = 0; i < n; i++) {
		s[i].slow = s[i].need + room + spare / 4;
		s[i].ceiling = s[i].need + room + spare / 4 * 3;
	}
	if (!n)
		return;
	largest->slow = MEMORY_SHARE_NONE;
	largest->ceiling = largest->need + room;
	if (free < margin / 4 * 3) {
		uint64_t excess = margin - free;

		largest->ceiling = largest->need > excess ? largest->need - excess : 0;
	}
}

uint64_t memory_shares_interval_ns(uint64_t all, uint64_t used, unsigned cpus)
{
	uint64_t room = memory_share_room(all, used);
	uint64_t ms = room / 2 / (CPU_BYTES_PER_MS * (cpus ? cpus : 1));

	if (ms < INTERVAL_LEAST_MS)
		ms = INTERVAL_LEAST_MS;
	return (ms > INTERVAL_MOST_MS ? INTERVAL_MOST_MS : ms) * NS_PER_MS_U64;
}
