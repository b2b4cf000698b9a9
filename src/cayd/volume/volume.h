/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_VOLUME_VOLUME_H
#define CAY_CAYD_VOLUME_VOLUME_H
/*
 * volume - directories of a tenant that outlive its sandboxes (ADR 0121)
 *
 *	volume.c         the table, and how one is created and deleted
 *	volume-users.c   which sandboxes have one, and whether another may
 *	volume-ops.c     the operations
 *
 * Its row is in the journal, its files are the keeper's:
 *
 *	row `creating` -> files by the keeper, empty or copied -> row `ready` -> reply
 *	row `deleting` -> files removed by the keeper -> no row -> reply
 *
 * Each of them is durable before the next.  A row that is not `ready` at the start is removed with
 * what there is of its files.
 *
 * A volume has one sandbox that may write to it, or any number that read it.  Who has it is not
 * kept in the journal: it is read from the sandboxes each time that one of them has changed.
 */
#include "cayd/sandbox/sandbox.h"
#include "wire/verb.h"

#define VOLUMES_MAX 2000 /* of the node */

struct volume {
	struct volume_info info; /* texts live in the arena */
	bool busy;               /* a call about it is under way */
	bool copies;             /* it is filled with the files of another one, which has */
	unsigned n_copies;       /* so many copies: no sandbox may get it to write */
	uint64_t ready_ns;       /* when it became ready, by the boot clock; 0: before the start */
	bool row_is_ready;       /* or may be: it has to say `deleting` before files go */
	bool limit_due;          /* the keeper may have another limit than the row */
	uint64_t limit_ns;       /* when it is set again */
	void (*fn)(void *arg, const struct volume *v, const struct cay_err *err);
	void *arg;
	uint64_t size_before; /* while it is resized */
	struct cayd *cayd;
	struct arena arena;
};

/* Called once, from the loop: the volume, or NULL and why there is none. */
typedef void volume_fn(void *arg, const struct volume *v, const struct cay_err *err);

[[nodiscard]] int volumes_open(struct cayd *c, struct cay_err *err);
[[nodiscard]] int volume_restore(struct cayd *c, const struct db_entry *e, struct cay_err *err);
/* NULL also for one that the actor may not have, or that is being deleted. */
struct volume *volume_find(const struct cayd *c, const struct actor *by, const struct id *id);
bool volume_is_visible_to(const struct volume *v, const struct actor *by);
/* Whoever may have it; NULL. */
struct volume *volume_find_any(const struct cayd *c, const struct id *id);
struct volume *volume_at(const struct cayd *c, size_t i);
/* Begin to create one; fn is not called if it fails here. */
[[nodiscard]] int volume_start(struct cayd *c, const struct id *tenant,
			       const struct volume_create *want, volume_fn *fn, void *arg,
			       struct cay_err *err);
/* Hooks: the request for the keeper about the copy that is made while sb is frozen; and its end. */
void volume_copy_fill(const struct cayd *c, const struct sandbox *sb, struct verb_volume_copy *q);
void volume_copied(struct cayd *c, struct sandbox *sb, const struct cay_err *outcome);
/* It has no user. */
void volume_remove(struct volume *v, volume_fn *fn, void *arg);
[[nodiscard]] int volume_resize(struct volume *v, uint64_t bytes, volume_fn *fn, void *arg,
				struct cay_err *err);
/* Hook: how many a tenant has, and their sizes. */
void volumes_count(const struct cayd *c, const struct id *tenant, uint64_t *ret_n,
		   uint64_t *ret_bytes);
/* Whether the users that were counted last are those of now; the caller counts them otherwise. */
bool volumes_have_users_of_now(struct cayd *c);
/* Set writer and readers of all volumes, if they may have changed. */
void volumes_count_users(struct cayd *c);
/* CAY_E_CONFLICT, with the sandbox that has it. */
int volume_fail_used(const struct volume *v, struct cay_err *err);
/* Whether the actor may have the volumes that a create names, at these places. */
[[nodiscard]] int volume_mounts_check(const struct cayd *c, const struct actor *by,
				      const struct sandbox_create *spec, struct cay_err *err);
/* Hook: whether a sandbox of the tenant may get these now. */
[[nodiscard]] int volume_mounts_admit(struct cayd *c, const struct id *tenant,
				      const struct field_list *mounts, struct cay_err *err);
/* Periodic: continue removals, set limits again after a start, remove those without a tenant. */
void volumes_sweep(struct cayd *c, uint64_t now);
#endif
