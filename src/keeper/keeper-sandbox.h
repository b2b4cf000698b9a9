/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_KEEPER_SANDBOX_H
#define CAY_KEEPER_KEEPER_SANDBOX_H
/*
 * box - a sandbox as this machine has it
 *
 *	boxes/<id>/          the anchor: made first, removed last, locked by workers
 *	boxes/<id>/box       struct keeper_sandbox_record
 *	boxes/<id>/disk      upper: what it changed; work: overlayfs's own; all in the
 *	                     foreign id range
 *	ranges/<n>           a link to the id that has the n-th id range
 *	box/<id>             (paths.run) where PID 1 listens
 *	<tenant>/<id>        in each cgroup hierarchy
 *
 * The id is in every name, so `remove` finds all of it without any record.
 */
#include "keeper/keeper.h"

struct keeper_sandbox_record {
	uint32_t magic;
	uint32_t range;
	uint64_t generation;
	struct id tenant;
	uint8_t image[32];
};
static_assert(sizeof(struct keeper_sandbox_record) == 64);

struct sandbox {
	struct id id;
	char name[ID_TEXT_LEN + 1];
	int dir; /* holds the lock */
	struct keeper_sandbox_record record;
	struct cgroup cgroup; /* v2 is -EBADF when there is none */
};

#define auto_keeper_sandbox CAY_CLEANUP(keeper_sandbox_fini) struct sandbox
#define KEEPER_SANDBOX_INIT ((struct sandbox){ .dir = -EBADF, .cgroup = CGROUP_INIT })

/* Lock and open; CAY_E_NOT_FOUND when there is none or its generation is another.
 * One that was never finished has no generation and a record of zeros: only
 * `remove` can use it.  b is BOX_INIT before, and to be finished also on failure. */
[[nodiscard]] int keeper_sandbox_open(const struct keeper *k, const struct id *id,
				      uint64_t generation, struct sandbox *sb, struct cay_err *err);
void keeper_sandbox_fini(struct sandbox *sb);
/* The record in boxes/<id>; all zero when the maker died before it was whole. */
[[nodiscard]] int keeper_sandbox_read_record(int dir, struct keeper_sandbox_record *ret);
/* Host id of root inside. */
static inline uint32_t keeper_sandbox_host_root_id(const struct sandbox *sb)
{
	return VERB_RANGE_BASE + sb->record.range * VERB_RANGE_IDS;
}

/* When a process started, by the kernel's clock; 0 when it is gone. */
uint64_t pid_start_boot_ns(pid_t pid);

/* How long the processes of one may take to go. */
#define SANDBOX_KILL_MS 5000
#define DIGEST_HEX 64
/* "sha256/<hex>" below images/. */
void image_dir_name(const uint8_t digest[static 32], char ret[static DIGEST_HEX + 8]);
#endif
