/* SPDX-License-Identifier: Apache-2.0 */
#include "life/node-room.h"

#define DISK_PART 20
#define DISK_MOST (UINT64_C(1) << 30)

int node_room_require(const struct node_room *free, const struct node_room *kept,
		      struct cay_err *err)
{
#define SHORT(sym) (free->of[ADMIT_##sym] < kept->of[ADMIT_##sym])
#define X(sym, text, unit) \
	if (SHORT(sym)) \
		return cay_fail(err, CAY_E_CAPACITY, "this node has " text, \
				(unsigned long long)(free->of[ADMIT_##sym] / (unit)), \
				(unsigned long long)(kept->of[ADMIT_##sym] / (unit)));
	ADMIT_RESOURCES(X)
#undef X
#undef SHORT
	return 0;
}

uint64_t node_room_disk_reserve(uint64_t size)
{
	return size / DISK_PART < DISK_MOST ? size / DISK_PART : DISK_MOST;
}

bool node_room_is_better_victim(const struct life *l, const struct life *than)
{
	if ((l->state != SB_RUNNING && !life_is_dozing(l)) || l->n_requests ||
	    l->pending_effect != DO_NOTHING)
		return false;
	return !than || l->active_ns < than->active_ns;
}
