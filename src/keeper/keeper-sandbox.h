/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_KEEPER_SANDBOX_H
#define CAY_KEEPER_KEEPER_SANDBOX_H
/*
 * keeper-sandbox - a sandbox on this machine
 *
 *	boxes/<id>/          the anchor: created first, renamed into the trash last, locked by
 *	                     workers
 *	boxes/<id>/box       struct keeper_sandbox_record
 *	boxes/<id>/disk      upper: its changes; work: of overlayfs; all in the foreign id range
 *	ranges/<n>           a link to the id of the sandbox that has the n-th id range
 *	box/<id>             (paths.run) the socket of PID 1
 *	<tenant>/<id>        in each cgroup hierarchy
 *
 * The id is in every name, so `remove` finds everything without a record.
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
	struct cgroup cgroup; /* v2 is -EBADF when absent */
};

#define auto_keeper_sandbox CAY_CLEANUP(keeper_sandbox_fini) struct sandbox
#define KEEPER_SANDBOX_INIT ((struct sandbox){ .dir = -EBADF, .cgroup = CGROUP_INIT })

/* Lock and open; CAY_E_NOT_FOUND when it does not exist or has another generation.  One whose
 * prepare never finished has no generation and a record of zeros: only `remove` can use it.  sb is
 * KEEPER_SANDBOX_INIT before, and must be finished also on failure. */
[[nodiscard]] int keeper_sandbox_open(const struct keeper *k, const struct id *id,
				      uint64_t generation, struct sandbox *sb, struct cay_err *err);
void keeper_sandbox_fini(struct sandbox *sb);
/* Open a directory, locked as flock() does: waits for other workers of it. */
[[nodiscard]] int keeper_lock_dir(int parent, const char *name, int lock);
/* The record in boxes/<id>; all zero when a crash left it incomplete. */
[[nodiscard]] int keeper_sandbox_read_record(int dir, struct keeper_sandbox_record *ret);
/* Host id of the sandbox's root. */
static inline uint32_t keeper_sandbox_host_root_id(const struct sandbox *sb)
{
	return VERB_RANGE_BASE + sb->record.range * VERB_RANGE_IDS;
}

/* Release the id range of a removed sandbox, or all links to it without a record. */
void id_range_release(const struct keeper *k, const char *id,
		      const struct keeper_sandbox_record *record);

/* Kill its processes, and remove what does not outlive them: socket, bundle, cgroups.  ret_spent is
 * left alone if there was no cgroup. */
[[nodiscard]] int keeper_sandbox_end_run(const struct keeper *k, const struct sandbox *b,
					 struct verb_remove_reply *ret_spent, struct cay_err *err);
/* Limit its disk; a 0 leaves the limit that it has. */
[[nodiscard]] int keeper_sandbox_limit_disk(const struct keeper *k, const struct sandbox *sb,
					    const struct verb_limits *q, struct cay_err *err);
/* Enter namespaces of PID 1 (CLONE_NEW*); -ESRCH when there is none. */
[[nodiscard]] int keeper_sandbox_enter(const struct sandbox *sb, int namespaces);
/* Start time of a process since boot; 0 when it does not exist. */
uint64_t pid_start_boot_ns(pid_t pid);

/* Time for killed processes to disappear. */
#define SANDBOX_KILL_MS 5000
#define SANDBOX_DISK "disk" /* in boxes/<id> */
#define DIGEST_HEX 64
/* "sha256/<hex>" below images/. */
void image_dir_name(const uint8_t digest[static 32], char ret[static DIGEST_HEX + 8]);
#endif
