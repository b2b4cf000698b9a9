/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_TRASH_H
#define CAY_KEEPER_TRASH_H
/*
 * trash - files of removed sandboxes and volumes
 *
 *	trash/<id>.<number>   what was boxes/<id> or volumes/<id>, being removed
 *	trash/<id>.<number>!  the same, after an attempt failed
 *
 * A sandbox chooses how many files it leaves, so `remove` only renames its directory to here,
 * which cannot be undone and leaves nothing that can be reached, and removes files for at most
 * TRASH_INLINE_NS.  One process of the keeper, at idle priority, removes the rest.
 *
 * An entry keeps its sandbox's id range until its disk is gone: with project quotas the range is
 * the number that the files are charged to.  So does one of a volume keep its number.
 */
#include "keeper/keeper-sandbox.h"

/* For the worker of `remove`: enough for an ordinary sandbox, so that no process is needed. */
#define TRASH_INLINE_NS (20 * NS_PER_MS)
#define TRASH_CGROUP "trash"

/* What the process reports before it exits. */
enum trash_report {
	TRASH_EMPTY = 'e',
	TRASH_MORE = 'm',  /* start another one now */
	TRASH_STUCK = 's', /* start another one later */
};

/* Move what has this name to the trash, and remove it if that is quick; its lock is
 * held.  Without room for the rename it is removed where it is.  *ret_left: the process has to
 * remove the rest. */
struct trash_item {
	int from, dir; /* the directory that has it, and itself, locked; dir < 0: it is absent */
	const char *name;
	const struct keeper_sandbox_record *record; /* of zeros: it is a volume, or has none */
};
[[nodiscard]] int trash_add(const struct keeper *k, const struct trash_item *item, bool *ret_left);
/* Whether files of this sandbox are in the trash. */
bool trash_has_sandbox(const struct keeper *k, const char *id);
/* Number of entries that could not be removed, and the sandbox of one of them. */
uint32_t trash_count_stuck(const struct keeper *k, struct id *ret);
/* The process: give every entry its turn. */
enum trash_report trash_empty(struct keeper *k);
#endif
