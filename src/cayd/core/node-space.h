/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_CORE_NODE_SPACE_H
#define CAY_CAYD_CORE_NODE_SPACE_H
/*
 * node-space - free memory, processes and disk of this machine, against what is reserved
 *
 * The rule is in life/node-room.h; this file measures.  A measurement is used for
 * NODE_SPACE_NS: creating a sandbox takes longer than that.
 */
#include "base/clock.h"
#include "base/err.h"
#include "life/node-room.h"

#define NODE_SPACE_NS (100 * NS_PER_MS)

struct cayd;

struct node_space {
	struct node_room free, reserved;
	uint64_t valid_until_ns;
	uint64_t memory_total, disk_total; /* bytes of the machine, of the disk at paths.state */
	unsigned cores;
};

/* Whether there is room for one more sandbox. */
[[nodiscard]] int node_space_check(struct cayd *c, struct cay_err *err);
/* The same for work that needs only disk. */
[[nodiscard]] int node_space_check_disk(struct cayd *c, struct cay_err *err);
/* Bytes of the disk at paths.state that are free now, and node.disk of them. */
[[nodiscard]] bool node_space_read_disk(const struct cayd *c, uint64_t *ret_free,
					uint64_t *ret_reserve);
/* Read what does not change while cayd runs. */
[[nodiscard]] int node_space_open(struct cayd *c, struct cay_err *err);
/* Measure again at the next check. */
void node_space_expire(struct cayd *c);
#endif
