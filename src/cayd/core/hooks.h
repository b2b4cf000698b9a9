/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_CORE_HOOKS_H
#define CAY_CAYD_CORE_HOOKS_H
/*
 * hooks - calls from a lower directory to a higher one (src/LAYERS)
 *
 * One table, defined in main.c, where each call has exactly one receiver.  Changes of a
 * sandbox have several, in an order that matters: sandbox/observer.h.
 */
#include <stdbool.h>
#include <stdint.h>

struct ask_info;
struct cay_err;
struct cayd;
struct field_list;
struct hold_event;
struct id;
struct image;
struct image_progress;
struct limits;
struct request;
struct sandbox;
struct snapshot_info;
struct template_info;
struct tenant_info;
struct verb_volume_copy;

struct cayd_hooks {
	/* cay-keeper has answered our hello after a reconnect. */
	void (*keeper_up)(struct cayd *c);
	/* Whether a sandbox or a template uses this image. */
	bool (*image_is_used)(const struct cayd *c, const struct image *image);
	/* Whether there is such a tenant. */
	bool (*tenant_exists)(const struct cayd *c, const struct id *tenant);
	/* A pull that this tenant waits for has got further. */
	void (*pull_progressed)(struct cayd *c, const struct id *tenant,
				const struct image_progress *now);
	/* The reply to rq waits only for the journal: its audit record can be written now. */
	void (*reply_waits_for_journal)(struct cayd *c, struct request *rq);
	/* rq->target is one of the sandboxes that rq has created: the audit log gets a record. */
	void (*one_of_many_created)(struct cayd *c, struct request *rq);
	/* A request of another operation starts this stopped sandbox: a record of that. */
	void (*sandbox_woken)(struct cayd *c, struct request *rq, const struct id *sandbox);
	/* A key was added, changed, revoked or removed; called before the reply. */
	void (*key_changed)(struct cayd *c, const struct id *key);
	/* Streams that are open may belong to a key or a tenant that is no longer valid. */
	void (*access_revoked)(struct cayd *c);
	/* The keys that sign tokens have changed. */
	void (*token_keys_changed)(struct cayd *c);
	/* Whether a sandbox may get these limits instead of those it has. */
	int (*limits_check)(struct cayd *c, const struct sandbox *sb, const struct limits *now,
			    struct cay_err *err);
	/* The tenant is gone from the journal: remove its files. */
	void (*tenant_deleted)(struct cayd *c, const struct id *tenant);
	/* Whether the egress policies of a tenant can be enforced, for the sandboxes it has. */
	int (*tenant_policies_check)(struct cayd *c, const struct tenant_info *next,
				     struct cay_err *err);
	/* egress_max of the tenant has changed.  fn, which may be NULL, is called once, when no
	 * open connection is left that it denies, or with the reason why one may be. */
	void (*tenant_policy_changed)(struct cayd *c, const struct id *tenant,
				      void (*fn)(void *arg, const struct cay_err *outcome),
				      void *arg);
	/* Whether a sandbox may connect to anything; and let it, by the policy it has now.  fn is
	 * called once, from the loop or at once. */
	bool (*sandbox_has_network)(const struct sandbox *sb);
	void (*sandbox_attach_network)(struct sandbox *sb,
				       void (*fn)(void *arg, const struct cay_err *outcome),
				       void *arg);
	/* A sandbox asks to connect to something, or that was answered. */
	void (*ask_changed)(struct cayd *c, const struct id *tenant, const struct ask_info *ask,
			    bool answered);
	/* The node holds a sandbox, or lets it go on. */
	void (*sandbox_held)(struct cayd *c, const struct hold_event *e);
	/* The keeper has made the copy sb->snapshot, or has failed: of its files, or of those of
	 * the volume that it may write to. */
	void (*snapshot_copied)(struct cayd *c, struct sandbox *sb, const struct cay_err *outcome);
	/* The request for the latter. */
	void (*volume_copy_fill)(const struct cayd *c, const struct sandbox *sb,
				 struct verb_volume_copy *q);
	/* How many snapshots a tenant has, and their bytes. */
	void (*snapshots_count)(const struct cayd *c, const struct id *tenant, uint64_t *ret_n,
				uint64_t *ret_bytes);
	/* How many volumes a tenant has, and their sizes. */
	void (*volumes_count)(const struct cayd *c, const struct id *tenant, uint64_t *ret_n,
			      uint64_t *ret_bytes);
	/* Whether a sandbox of the tenant may get these volumes now (struct volume_mount). */
	int (*volumes_admit)(struct cayd *c, const struct id *tenant,
			     const struct field_list *mounts, struct cay_err *err);
	/* A snapshot is ready, or was deleted. */
	void (*snapshot_changed)(struct cayd *c, const struct snapshot_info *s);
	/* The name of a template that names this snapshot, or one of this tenant; NULL. */
	const char *(*template_naming)(const struct cayd *c, const struct id *owned);
	/* The journal has the change; `change` is an enum template_change. */
	void (*template_changed)(struct cayd *c, const struct template_info *t, unsigned change);
};
#endif
