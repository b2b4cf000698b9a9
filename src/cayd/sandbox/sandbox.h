/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_SANDBOX_H
#define CAY_CAYD_SANDBOX_SANDBOX_H
/*
 * sandbox - the table of all sandboxes, and the requests that wait for one
 *
 * src/lib/life decides what becomes of a sandbox, transition.c carries it out.  A client that
 * leaves stops waiting; the work goes on.  Records of ended sandboxes are kept for
 * limits.record_ttl.
 */
#include "cayd/core/cayd.h"
#include "cayd/sandbox/observer.h"
#include "cgroup/cgroup.h"
#include "life/grant.h"
#include "life/life.h"
#include "ops/idempotency-key.h"
#include "wire/egress-message.h"
#include "wire/push.h"

#define SANDBOX_FIRST_EPOCH 1
#define SANDBOX_FIRST_GENERATION 1 /* of its egress policy */
#define LABELS_MAX 64
#define LABELS_ARENA_MAX KIB(64)

/* Where its connections may go, as clients wrote it. */
struct sandbox_egress {
	struct egress_spec own, template; /* texts live in the arena */
	bool has_own, has_template;
	uint64_t generation;
	struct arena arena;
};

#define ANSWERS_MAX 64
/* Answers that were remembered, where its policies ask (egress/asks.h). */
struct sandbox_answers {
	struct egress_remembered *v; /* in the arena, oldest first */
	size_t n;
	struct egress_spec spec; /* the same as a policy */
	struct arena arena;
};

/* Paths of it that anyone with their URL can download (ADR 0085). */
struct sandbox_exports {
	struct export_record *v; /* in the arena, oldest first; a path has one */
	size_t n;
	uint8_t tags[PUSH_EXPORTS_MAX][PUSH_EXPORT_TAG]; /* as edges know them */
	struct arena arena;
};

struct sandbox {
	struct life life;
	struct sandbox_info info; /* texts live in the arena, labels in theirs */
	struct field_map env;
	struct field_texts entrypoint;
	struct field_list services;                     /* struct service_spec */
	struct field_list kernels;                      /* struct warm_kernel */
	const char *idempotency_key, *idempotency_hash; /* the hash is of the request */
	struct cay_err failure;                         /* why it could not be started */
	uint64_t seq;                                   /* grows with each create */
	uint32_t uid_range;
	uint8_t image[32];               /* digest */
	uint32_t epoch;                  /* tokens of an older epoch are void */
	struct revoked_token *revoked;   /* REVOKED_MAX of them, or NULL */
	struct sandbox_exports *exports; /* NULL: it had none since cayd started */
	struct id cgroup_tenant;         /* whose cgroup holds it: a claim does not move it */
	struct sandbox_egress *egress;   /* NULL: nowhere, and its template has no policy */
	char *ca;                        /* of its inspected connections, or NULL */
	bool ca_is_given;                /* to PID 1 */
	bool ca_is_due;                  /* when it runs again */
	struct id egress_tenant;         /* has the bound of its policy; none: its own tenant */
	struct sandbox_answers *answers; /* NULL: none */
	uint64_t attached_to;            /* the connection to cay-egress that has its listeners */
	bool peers_pending;              /* connections of its group to it are being reset */
	bool other_boot;                 /* the journal has it from before the machine started */

	/* sandbox.c, waiters.c, transition.c */
	struct cayd *cayd;
	struct sandbox *next_by_id, *next_by_name, *next_by_key, *newer, *older;
	char entry_text[ID_TEXT_LEN + 1]; /* of info.entry, which each start sets again */
	const char *end_detail;           /* set before the event that ends it */
	bool end_is_of_node;              /* the same: the machine had no memory left */
	uint64_t changed_boot_ns;
	uint64_t forget_boot_ns; /* when its record may be forgotten */
	unsigned holds;          /* calls under way that have this pointer */
	struct {
		uint64_t after_ns; /* after a start that failed, no request starts it before this */
		unsigned failures; /* since the last that did not */
	} wake;
	unsigned unsaved;          /* of them, writes that replies or effects wait for */
	struct cay_err save_error; /* the journal lacks its row; the write is repeated */
	uv_poll_t *pid1_poll;
	int pidfd;
	struct sandbox_waiter *waiters;
	struct arena arena, labels_arena;

	/* each the state of the module of its name */
	struct {
		struct limits wanted; /* journaled; the keeper has yet to set them */
		bool has_wanted, under_way;
	} resize;
	struct {
		struct id id; /* of the snapshot that is made of it, or of a copy of its volume; no
				 noun: none */
		uint64_t bytes;     /* of the copy */
		uint8_t parent[32]; /* of its layer */
	} snapshot;
	struct {
		uint8_t image_before[32]; /* in use until the journal has the other one */
	} rollback;
	struct {
		unsigned limits_to_set; /* LIMIT_ bits that may differ from those it started with */
	} claim;
	struct {
		bool asked;   /* its memory was given back, or is about to be, since it dozes */
		bool in_swap; /* some of it may still be there since an earlier doze */
		bool settling;
		uint64_t settle_ns; /* when its limit is divided again */
	} reclaim;
	struct {
		bool under_way, ended;
	} entrypoint_poll;
	struct {
		unsigned kinds;       /* its counts, a bit for each enum count_kind */
		struct grant granted; /* its part of the sums */
	} count;
	struct {
		bool disk_query_pending;
		bool known, disk_known; /* by the last sample (usage-sample.c) */
		struct cgroup_usage now;
		uint64_t disk_bytes;
	} usage;
	struct {
		struct egress_counts now; /* as cay-egress reported last */
		bool known, changed;      /* changed: the journal lacks something */
	} egress_counts;
	struct {
		uint64_t written, base; /* bytes: last seen, and when the disk became short */
		uint64_t before;        /* during this shortage, by counters that are gone */
		uint64_t since;         /* the shortage that base is of; 0: none */
	} disk_watch;
	struct {
		struct create_slot *slot; /* NULL unless a create waits for it */
	} create;
	struct {
		struct warm_pool *of; /* NULL unless it is warm */
		struct sandbox *next;
	} pool;
	struct {
		struct sandbox *newer, **at; /* of its tenant's ended ones */
		unsigned weight;             /* 0: it is not among them */
	} ended;
	struct {
		bool unwritten; /* its last event could not be written */
	} event;
};

/* When periodic work is next due (boot clock); each used by one module. */
struct sandbox_due {
	uint64_t save_retry_ns, entrypoint_poll_ns;
	uint64_t reclaim_ns;
	uint64_t swept_ns;   /* the last sweep */
	bool reclaiming;     /* a call of reclaim.c is under way */
	struct id reclaimed; /* the tenant that had its turn last */
};

enum sandbox_wait {
	WAIT_STARTED, /* it runs, or has failed to start */
	WAIT_STOPPED, /* it is, or something else became of it */
	WAIT_ENDED,
	WAIT_ENDING,  /* it ends; without cay-keeper no more can be waited for */
	WAIT_SAVED,   /* the journal has the change */
	WAIT_SETTLED, /* no effect is under way */
};

[[nodiscard]] int sandboxes_open(struct cayd *c, const struct sandbox_observer *observers,
				 size_t n_observers, struct cay_err *err);
/* Of any tenant: for cayd itself. */
struct sandbox *sandbox_find(struct sandboxes *all, const struct id *id);
/* For a request: NULL for a sandbox that its actor may not have. */
struct sandbox *sandbox_find_of_actor(struct sandboxes *all, const struct actor *by,
				      const struct id *id);
/* Set the group that a request names to its actor's; false if it names another and was refused. */
[[nodiscard]] bool request_bind_group(struct request *rq, const char **group);
/* Find the sandbox whose name the path has: the tenant's newest, which is the one that lives if
 * any does.  Before the request is admitted, so that all that follows is about its id. */
void sandbox_resolve_name(struct cayd *c, struct request *rq);
/* The sandbox in the path; NULL if the request was answered. */
struct sandbox *sandbox_find_of_request(struct cayd *c, struct request *rq);
/* CAY_E_STATE, with its state; of one that has ended, why it did and who is to blame for that. */
int sandbox_fail_state(const struct sandbox *sb, struct cay_err *err);
/* Refuse a request that needs it in another state. */
void sandbox_refuse_state(struct request *rq, struct sandbox *sb);
/* The tenant's newest sandbox with a seq below `before` (0: any); and the next older one. */
struct sandbox *sandbox_find_before(struct sandboxes *all, const struct id *tenant,
				    uint64_t before);
struct sandbox *sandbox_next_of_tenant(const struct sandbox *sb);
/* The same for those of one name, which are found without looking at the others. */
struct sandbox *sandbox_find_named_before(struct sandboxes *all, const struct id *tenant,
					  const char *name, uint64_t before);
struct sandbox *sandbox_next_of_name(const struct sandbox *sb);
/* Whether the request is valid; *ret is the tenant's sandbox that has this key or name. */
[[nodiscard]] int sandbox_create_check(struct sandboxes *all, const struct id *tenant,
				       const struct sandbox_create *spec,
				       const struct idempotency_key *key, struct sandbox **ret,
				       struct cay_err *err);
/* Create a sandbox that sandbox_create_check() has accepted in this turn of the loop. */
[[nodiscard]] int sandbox_create(struct sandboxes *all, const struct id *tenant,
				 const struct sandbox_create *spec,
				 const struct idempotency_key *key, struct sandbox **ret,
				 struct cay_err *err);
/* Create a sandbox without an owner; the caller applies LIFE_ACCEPTED. */
[[nodiscard]] int sandbox_create_warm(struct sandboxes *all, const struct sandbox_create *spec,
				      struct sandbox **ret, struct cay_err *err);
/* Give a warm sandbox to a tenant. -ENOMEM: it can only be ended. */
[[nodiscard]] int sandbox_claim_warm(struct sandbox *sb, const struct id *tenant,
				     const struct sandbox_create *spec,
				     const struct idempotency_key *key);
/* Restore a sandbox from the journal; texts are copied. */
[[nodiscard]] int sandbox_restore(struct sandboxes *all, const struct life *life,
				  const struct sandbox_record *record, uint64_t seq,
				  struct sandbox **ret, struct cay_err *err);
/* Reply with the sandbox once it has reached the condition. */
void sandbox_reply_when(struct sandbox *sb, struct request *rq, enum sandbox_wait until);
/* Call done once it has, which the caller may cancel before.  1: it has now, and done is not
 * called. The reply then is the sandbox, or the failure of what was waited for (its code may be
 * CAY_OK). */
struct sandbox_waiter;
typedef void sandbox_wait_fn(void *arg, struct sandbox *sb);
[[nodiscard]] int sandbox_wait(struct sandbox *sb, enum sandbox_wait until, sandbox_wait_fn *done,
			       void *arg, struct sandbox_waiter **ret);
void sandbox_wait_cancel(struct sandbox_waiter *w);
const struct cay_err *sandbox_wait_failure(const struct sandbox *sb, enum sandbox_wait until);
/* Reply with a finished page, which is freed; `unsaved`: only once the journal has what it shows.
 */
struct list_page;
void sandboxes_reply(struct cayd *c, struct request *rq, struct list_page *page, bool unsaved);
/* Its public form, with times of now. */
const struct sandbox_info *sandbox_describe(struct sandbox *sb);
/* Reply to the requests whose condition is reached. */
void sandbox_notify_waiters(struct sandbox *sb);
/* Refuse those that wait for its removal: cay-keeper has not been running for a while. */
void sandbox_refuse_removal_waiters(struct sandbox *sb);
/* Write audit records of requests that wait only for the journal. */
void sandbox_audit_waiters_early(struct sandbox *sb);
/* A copy of a text in its arena; NULL when the arena is full. */
const char *sandbox_copy_text(struct sandbox *sb, const char *text);
[[nodiscard]] int sandbox_copy_texts(struct sandbox *sb, const struct field_texts *in,
				     struct field_texts *ret);
[[nodiscard]] int sandbox_copy_map(struct sandbox *sb, const struct field_map *in,
				   struct field_map *ret);
/* Replace its labels by a copy of these; -ENOMEM leaves them as they are. */
[[nodiscard]] int sandbox_set_labels(struct sandbox *sb, const struct field_map *labels);
/* Replace its policies by copies of these, either of which may be NULL; -ENOMEM leaves them as they
 * are. */
[[nodiscard]] int sandbox_set_egress(struct sandbox *sb, const struct egress_spec *own,
				     const struct egress_spec *template, uint64_t generation);
void sandbox_egress_free(struct sandbox_egress *egress);
/* Replace its remembered answers by copies of these, without those that have ended; -ENOMEM leaves
 * them as they are. */
[[nodiscard]] int sandbox_set_answers(struct sandbox *sb, const struct field_list *answers);
/* Give a new one those that were remembered for its group. */
[[nodiscard]] int sandbox_inherit_answers(struct sandbox *sb);
void sandbox_answers_free(struct sandbox_answers *answers);
/* Of struct egress_remembered. */
struct field_list sandbox_list_answers(const struct sandbox *sb);
/* Replace its exports by copies of these; -ENOMEM leaves them as they are. */
[[nodiscard]] int sandbox_set_exports(struct sandbox *sb, const struct field_list *records);
void sandbox_exports_free(struct sandbox_exports *exports);
/* Of struct export_record; empty if there are none. */
struct field_list sandbox_list_exports(const struct sandbox *sb);
/* Append the target of its URL. */
[[nodiscard]] int export_target_format(const struct id *sandbox, const struct export_record *e,
				       struct buf *ret);
/* Where its relative paths begin: the working directory of its image, as PID 1 was told. */
const char *sandbox_workspace(const struct sandbox *sb);
/* Of an ended sandbox: drop what no reader needs (variables, services, entrypoint). */
void sandbox_drop_private(struct sandbox *sb);
/* Whether a client may set these labels. */
[[nodiscard]] int labels_check(const struct field_map *labels, struct cay_err *err);
[[nodiscard]] int sandbox_patch_labels(struct sandbox *sb, const struct field_map *patch,
				       struct cay_err *err);

/* Whether it dozes and a request wakes it; and whether a request may be given to its PID 1, where
 * it waits while the sandbox dozes: LIFE_ENTER wakes it. */
bool sandbox_wakes(const struct sandbox *sb);
bool sandbox_takes_requests(const struct sandbox *sb);
/* Whether its PID 1 replies without anybody else's doing: it runs, or is being woken. */
bool sandbox_pid1_replies(const struct sandbox *sb);
/* It was used now: as a request that comes and goes. */
void sandbox_touch(struct sandbox *sb);
/* Give a request to its PID 1; it takes requests.  paused: the body is. */
void sandbox_relay_start(struct cayd *c, struct request *rq, struct sandbox *sb, bool paused);

/* From transition.c: the state has changed; a call that held the pointer is over. */
void sandbox_state_changed(struct sandbox *sb, unsigned before);
void sandbox_release(struct sandbox *sb);
/* Whether a call or a waiting request has a pointer to it. */
bool sandbox_is_in_use(const struct sandbox *sb);
void sandboxes_forget_expired(struct cayd *c, uint64_t now);
/* The keeper is connected again: retry now what waits to be retried. */
void sandboxes_retry_now(struct cayd *c);
/* Whether a sandbox that has not ended uses this image. */
bool sandboxes_use_image(const struct sandboxes *all, const uint8_t digest[static 32]);
struct sandbox *sandboxes_newest(struct sandboxes *all);
unsigned sandboxes_count_live(const struct sandboxes *all);
/* Without those that are ending. */
unsigned sandboxes_count_placed(const struct sandboxes *all);
unsigned sandboxes_count_live_of(const struct sandboxes *all, const struct id *tenant);
/* Another number once a sandbox may have got volumes, or given them up. */
uint64_t sandboxes_get_volume_changes(const struct sandboxes *all);
struct sandbox_due *sandboxes_get_due(struct sandboxes *all);
/* How many ended by each reason since start; END_NUM_REASONS of them. */
const uint64_t *sandboxes_get_end_counts(const struct sandboxes *all);
/* The members of its lease. */
void sandbox_describe_lease(const struct sandbox *sb, struct sandbox_info *to);
const uint64_t *sandboxes_get_blame_counts(const struct sandboxes *all);
const struct sandbox_counts *sandboxes_get_counts(const struct sandboxes *all);
/* Its limits, or those it is about to get, have changed. */
void sandbox_recount(struct sandbox *sb);
void uid_range_reserve(struct sandboxes *all, uint32_t range);
/* Allocate another id range. The old one is in use by a sandbox that the journal lacks, so it stays
 * reserved, unless this one was rolled back. */
[[nodiscard]] int sandbox_replace_uid_range(struct sandbox *sb);

/* transition.c: apply an event; returns why life refuses it, or CAY_OK. */
enum cay_code sandbox_apply_event(struct sandbox *sb, const struct life_event *ev);
void sandbox_end(struct sandbox *sb, unsigned reason, const char *why);
void sandbox_claim_finish(struct sandbox *sb, const struct cay_err *outcome);
void sandbox_save(struct sandbox *sb, bool wait);
/* Watch PID 1 by its pidfd, which the sandbox owns from now on. */
[[nodiscard]] int sandbox_watch_pid1(struct sandbox *sb, int pidfd);
/* A deadline is reached. */
void sandbox_apply_deadline(struct sandbox *sb);
/* Apply deadlines; retry rows that could not be written. */
void sandboxes_sweep(struct cayd *c, uint64_t now);
#endif
