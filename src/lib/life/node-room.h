/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_LIFE_NODE_ROOM_H
#define CAY_LIFE_NODE_ROOM_H
/*
 * admit - whether this machine has room for one more, and who could make it
 *
 * Limits are what a sandbox may use, not what it does: a node full of idle ones is not
 * full.  So it is asked what is free now, and some of that is the machine's own.
 */
#include "life/life.h"

/* What a machine can run out of: symbol, how the message goes on behind "this node has". */
#define ADMIT_RESOURCES(X) \
	X(MEMORY, "%llu MiB of memory free, %llu are kept", 1 << 20) \
	X(PIDS, "%llu processes free, %llu are kept", 1) \
	X(DISK, "%llu MiB of disk free, %llu are kept", 1 << 20) \
	X(INODES, "%llu files free on its disk, %llu are kept", 1)

enum node_resource {
#define X(sym, ...) ADMIT_##sym,
	ADMIT_RESOURCES(X)
#undef X
		ADMIT_NUM
};

/* What there is, or what is kept; ADMIT_UNKNOWN is enough of anything. */
struct node_room {
	uint64_t of[ADMIT_NUM];
};
#define ADMIT_UNKNOWN UINT64_MAX

/* CAY_E_CAPACITY, and err says of what. */
[[nodiscard]] int node_room_require(const struct node_room *free, const struct node_room *kept,
				    struct cay_err *err);
/* Of the disk when nobody has said: a twentieth, and not more than 1 GiB. */
uint64_t node_room_disk_reserve(uint64_t size);
/* Whether `l` may be ended to make room, and rather than `than` (NULL: anybody): it runs,
 * nobody is inside, and it was left alone for longer. */
bool node_room_is_better_victim(const struct life *l, const struct life *than);
#endif
