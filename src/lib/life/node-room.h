/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_LIFE_NODE_ROOM_H
#define CAY_LIFE_NODE_ROOM_H
/* node-room - whether this machine has room for one more sandbox, and which to evict.  Limits are
 * what a sandbox may use, not its actual use: a node full of idle sandboxes is not full.  So the
 * check is on free resources, of which a reserve is kept for the machine itself. */
#include "life/life.h"

/* Resources a machine can run out of: symbol, rest of the message after "this node has". */
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

/* Free or reserved resources; ADMIT_UNKNOWN: no check. */
struct node_room {
	uint64_t of[ADMIT_NUM];
};
#define ADMIT_UNKNOWN UINT64_MAX

/* CAY_E_CAPACITY; err names the resource. */
[[nodiscard]] int node_room_require(const struct node_room *free, const struct node_room *kept,
				    struct cay_err *err);
/* Default disk reserve: a twentieth, at most 1 GiB. */
uint64_t node_room_disk_reserve(uint64_t size);
/* Whether `l` may be ended to make room, in preference to `than` (NULL: any): it runs, has
 * no request inside, and has been idle longer. */
bool node_room_is_better_victim(const struct life *l, const struct life *than);
#endif
