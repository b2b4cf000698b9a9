/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_BOX_H
#define CAY_KEEPER_BOX_H
/*
 * box - a sandbox as this machine has it
 *
 *	boxes/<id>/          the anchor: made first, removed last, locked by workers
 *	boxes/<id>/box       struct box_record
 *	boxes/<id>/disk      upper: what it changed; work: overlayfs's own; all in the
 *	                     foreign id range
 *	ranges/<n>           a link to the id that has the n-th id range
 *	box/<id>             (paths.run) where PID 1 listens
 *	<tenant>/<id>        in each cgroup hierarchy
 *
 * The id is in every name, so `remove` finds all of it without any record.
 */
#include "keeper/keeper.h"

struct box_record {
	uint32_t magic;
	uint32_t range;
	uint64_t generation;
	struct id tenant;
	uint8_t image[32];
};
static_assert(sizeof(struct box_record) == 64);

struct box {
	struct id id;
	char name[ID_TEXT_LEN + 1];
	int dir; /* holds the lock */
	struct box_record record;
	struct cgroup cgroup; /* v2 is -EBADF when there is none */
};

#define auto_box CAY_CLEANUP(box_fini) struct box
#define BOX_INIT ((struct box){ .dir = -EBADF, .cgroup = CGROUP_INIT })

/* Lock and open; CAY_E_NOT_FOUND when there is none or its generation is another.
 * One that was never finished has no generation and a record of zeros: only
 * `remove` can use it.  b is BOX_INIT before, and to be finished also on failure. */
[[nodiscard]] int box_open(const struct keeper *k, const struct id *id, uint64_t generation,
			   struct box *b, struct cay_err *err);
void box_fini(struct box *b);
/* The record in boxes/<id>; all zero when the maker died before it was whole. */
[[nodiscard]] int box_record_read(int dir, struct box_record *ret);
/* Host id of root inside. */
static inline uint32_t box_live(const struct box *b)
{
	return VERB_RANGE_BASE + b->record.range * VERB_RANGE_IDS;
}

/* When a process started, by the kernel's clock; 0 when it is gone. */
uint64_t box_start_of(pid_t pid);

/* How long the processes of one may take to go. */
#define BOX_KILL_MS 5000
#define DIGEST_HEX 64
/* "sha256/<hex>" below images/. */
void image_name(const uint8_t digest[static 32], char ret[static DIGEST_HEX + 8]);
#endif
