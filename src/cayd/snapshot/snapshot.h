/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SNAPSHOT_SNAPSHOT_H
#define CAY_CAYD_SNAPSHOT_SNAPSHOT_H
/*
 * snapshot - the files of sandboxes, kept to create others from (ADR 0111)
 *
 *	snapshot.c       the table, and how one is made and removed
 *	snapshot-ops.c   the operations
 *	pack.h           what a sandbox changed, and the files of a snapshot, for a client
 *
 * Its row is in the journal, its files are a layer of the image store:
 *
 *	row `creating` -> copy by the keeper -> row of the layer -> row `ready` -> reply
 *
 * Each of them is durable before the next.  A row that is found `creating` at the start was cut
 * off: its layer, or what there is of it, is removed, and then the row.  A `ready` one is deleted
 * by removing its row; its layer goes when nothing is over it (image/prune.c).
 */
#include "cayd/sandbox/sandbox.h"

#define SNAPSHOTS_MAX 2000 /* of the node */

struct snapshot {
	struct snapshot_info info; /* texts live in the arena */
	bool fork;
	struct egress_spec template_egress; /* bounds sandboxes of it */
	bool has_template_egress;
	uint8_t digest[32], parent[32]; /* of its layer; of the image below, while it is created */
	uint64_t reserved_bytes;        /* while it is created: the most that it can have */
	bool busy;                      /* a call about it is under way, or it waits */
	bool waiting;                   /* for a worker of the keeper, */
	uint64_t wait_until_ns;         /* and no longer than this */
	void (*fn)(void *arg, const struct snapshot *s, const struct cay_err *err);
	void *arg;
	struct cayd *cayd;
	struct arena arena;
};

/* Called once, from the loop: the snapshot, or NULL and why there is none. */
typedef void snapshot_fn(void *arg, const struct snapshot *s, const struct cay_err *err);

[[nodiscard]] int snapshots_open(struct cayd *c, struct cay_err *err);
[[nodiscard]] int snapshot_restore(struct cayd *c, const struct db_entry *e, struct cay_err *err);
/* Begin a snapshot; fn is not called if it fails here.  fork: it is not of a client. */
[[nodiscard]] int snapshot_start(struct cayd *c, struct sandbox *sb,
				 const struct snapshot_create *want, bool fork, snapshot_fn *fn,
				 void *arg, struct cay_err *err);
/* Hook: the keeper has made the copy, or has failed. */
void snapshot_copied(struct cayd *c, struct sandbox *sb, const struct cay_err *outcome);
/* Whether the actor may have it, and it is not being deleted. */
bool snapshot_is_visible_to(const struct snapshot *s, const struct actor *by);
/* NULL also for one that is not. */
struct snapshot *snapshot_find(const struct cayd *c, const struct actor *by, const struct id *id);
/* The one in the path of a request, not of a fork; NULL: the request was answered. */
struct snapshot *snapshot_find_of_request(const struct cayd *c, struct request *rq);
/* Whoever may have it; NULL. */
struct snapshot *snapshot_find_any(const struct cayd *c, const struct id *id);
const struct snapshot *snapshot_at(const struct cayd *c, size_t i);
/* fn, which may be NULL, when its row is gone; it gets the snapshot for the last time. */
void snapshot_remove(struct snapshot *s, snapshot_fn *fn, void *arg);
/* The same for the one of a fork, by its id; none is fine. */
void snapshot_remove_fork(struct cayd *c, const struct id *id);
/* Whether the row of its layer is missing, so that nothing can be created from it; and remove such
 * a one. */
bool snapshot_is_hollow(const struct snapshot *s);
void snapshot_remove_hollow(struct cayd *c, const struct id *id);
/* Let a create begin with its files, and be bound as it is; false: it has lost them. */
bool snapshot_give_files(const struct snapshot *s, struct sandbox_create *spec);
/* The same with the snapshot that the create names. */
[[nodiscard]] int snapshot_apply(const struct cayd *c, const struct actor *by,
				 struct sandbox_create *spec, struct cay_err *err);
bool snapshots_use_image(const struct cayd *c, const uint8_t digest[static 32]);
/* Observer: the layer below a sandbox that has ended may have no other user. */
void snapshot_sandbox_changed(struct sandbox *sb);
/* Hook: how many a tenant has, and their bytes. */
void snapshots_count(const struct cayd *c, const struct id *tenant, uint64_t *ret_n,
		     uint64_t *ret_bytes);
/* Copy those that wait for a worker of the keeper, if there is one now. */
void snapshots_copy_waiting(struct cayd *c);
/* Periodic: remove those that were cut off, have expired, or have no tenant any more. */
void snapshots_sweep(struct cayd *c, uint64_t now);
#endif
