/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/sandbox/sandbox.h"

#include <assert.h>

#include "cayd/core/keeper-link.h"
#include "cayd/core/list.h"
#include "cayd/image/image.h"
#include "cayd/sandbox/count.h"
#include "cayd/sandbox/disk-watch.h"
#include "cayd/sandbox/egress-usage.h"
#include "cayd/sandbox/ended.h"
#include "cayd/sandbox/kept-keys.h"
#include "cayd/sandbox/limits.h"
#include "cayd/sandbox/record.h"
#include "cayd/sandbox/resize.h"
#include "cayd/sandbox/revoked.h"
#include "cayd/sandbox/services-check.h"
#include "cayd/sandbox/spec.h"
#include "text/hex.h"

#define BUCKETS 16384
#define POOL_MAX KIB(256)
#define FAILED_KEPT_NS (UINT64_C(3600) * NS_PER_S)

struct sandboxes {
	struct cayd *cayd;
	const struct sandbox_observer *observers;
	size_t n_observers;
	struct sandbox *by_id[BUCKETS], *by_name[BUCKETS], *by_key[BUCKETS];
	struct sandbox *newest, *oldest;
	struct sandbox_counts *counts;
	struct sandbox_due due;
	struct ended_records ended;
	uint64_t end_counts[END_NUM_REASONS];
	uint64_t blame_counts[BLAME_NUM];
	uint64_t seq;
	uint64_t volume_changes; /* see sandboxes_get_volume_changes() */
	unsigned n, n_ended, n_ending;
	uint32_t next_uid_range;
	uint8_t uid_ranges[VERB_RANGE_MAX / 8 + 1];
};

static struct sandbox **sandbox_id_bucket(struct sandboxes *all, const struct id *id)
{
	return &all->by_id[hash_bytes(0, id, sizeof(*id)) % BUCKETS];
}

static size_t sandbox_text_bucket(const char *text)
{
	return hash_bytes(0, text, strlen(text)) % BUCKETS;
}

int sandboxes_open(struct cayd *c, const struct sandbox_observer *observers, size_t n_observers,
		   struct cay_err *err)
{
	c->sandboxes = calloc(1, sizeof(*c->sandboxes));
	if (!c->sandboxes || !(c->sandboxes->counts = sandbox_counts_create()))
		return cay_no_memory(err);
	c->sandboxes->cayd = c;
	c->sandboxes->observers = observers;
	c->sandboxes->n_observers = n_observers;
	return 0;
}

void sandbox_notify_observers(struct sandbox *sb, enum sandbox_notice notice)
{
	const struct sandboxes *all = sb->cayd->sandboxes;

	for (size_t i = 0; i < all->n_observers; i++)
		if (all->observers[i].notice == notice)
			all->observers[i].fn(sb);
}

static int uid_range_claim(struct sandboxes *all, uint32_t *ret)
{
	for (uint32_t i = 0; i <= VERB_RANGE_MAX; i++) {
		uint32_t at = (all->next_uid_range + i) % (VERB_RANGE_MAX + 1);

		if (all->uid_ranges[at / 8] & 1u << at % 8)
			continue;
		all->uid_ranges[at / 8] |= (uint8_t)(1u << at % 8);
		all->next_uid_range = at + 1;
		*ret = at;
		return 0;
	}
	return -ENOSR;
}

void uid_range_reserve(struct sandboxes *all, uint32_t range)
{
	all->uid_ranges[range / 8] |= (uint8_t)(1u << range % 8);
}

static void uid_range_release(struct sandboxes *all, uint32_t range)
{
	all->uid_ranges[range / 8] &= (uint8_t)~(1u << range % 8);
}

int sandbox_replace_uid_range(struct sandbox *sb)
{
	struct sandboxes *all = sb->cayd->sandboxes;
	uint32_t old = sb->uid_range;
	int r = uid_range_claim(all, &sb->uid_range);

	/* it was its own: the disk that it had before a rollback is being removed */
	if (r >= 0 && sb->life.rolled_back)
		uid_range_release(all, old);
	return r;
}

struct sandbox *sandbox_find(struct sandboxes *all, const struct id *id)
{
	struct sandbox *sb = *sandbox_id_bucket(all, id);

	while (sb && !id_eq(&sb->info.id, id))
		sb = sb->next_by_id;
	return sb;
}

static bool sandbox_is_of_tenant(const struct sandbox *sb, const struct id *tenant)
{
	return id_eq(&sb->info.tenant, tenant);
}

struct sandbox *sandbox_find_of_actor(struct sandboxes *all, const struct actor *by,
				      const struct id *id)
{
	struct sandbox *sb = sandbox_find(all, id);

	return sb && sandbox_is_of_tenant(sb, &by->tenant) && actor_has_group(by, sb->info.group)
		       ? sb
		       : NULL;
}

/* A sandbox that is ending does not hold its name any more. */
static struct sandbox *sandbox_find_by_name(struct sandboxes *all, const struct id *tenant,
					    const char *name)
{
	struct sandbox *sb = all->by_name[sandbox_text_bucket(name)];

	while (sb && (!sandbox_is_of_tenant(sb, tenant) || !str_eq(sb->info.name, name) ||
		      sb->info.state >= SB_ENDING))
		sb = sb->next_by_name;
	return sb;
}

static struct sandbox *sandbox_find_by_key(struct sandboxes *all, const struct id *tenant,
					   struct slice key)
{
	struct sandbox *sb = key.n ? all->by_key[hash_bytes(0, key.p, key.n) % BUCKETS] : NULL;

	while (sb &&
	       (!sandbox_is_of_tenant(sb, tenant) || !slice_eq(slice_of(sb->idempotency_key), key)))
		sb = sb->next_by_key;
	return sb;
}

void sandboxes_retry_now(struct cayd *c)
{
	uint64_t now = clk_boot_ns(c->clk);

	for (struct sandbox *sb = c->sandboxes->newest; sb; sb = sb->older) {
		if (sb->life.retry_ns != LIFE_NEVER)
			sb->life.retry_ns = now;
		resize_retry(sb);
	}
}

bool sandboxes_use_image(const struct sandboxes *all, const uint8_t digest[static 32])
{
	for (const struct sandbox *sb = all->newest; sb; sb = sb->older)
		if (!life_is_finished(&sb->life) &&
		    (memcmp(sb->image, digest, 32) == 0 ||
		     (memcmp(sb->rollback.image_before, digest, 32) == 0 &&
		      (sb->unsaved || sb->save_error.code))))
			return true;
	return false;
}

struct sandbox *sandboxes_newest(struct sandboxes *all)
{
	return all->newest;
}

struct sandbox *sandbox_find_before(struct sandboxes *all, const struct id *tenant, uint64_t before)
{
	struct sandbox *sb = all->newest;

	while (sb && ((before && sb->seq >= before) || !sandbox_is_of_tenant(sb, tenant)))
		sb = sb->older;
	return sb;
}

struct sandbox *sandbox_next_of_tenant(const struct sandbox *sb)
{
	struct sandbox *older = sb->older;

	while (older && !sandbox_is_of_tenant(older, &sb->info.tenant))
		older = older->older;
	return older;
}

static struct sandbox *sandbox_skip_to_name(struct sandbox *sb, const struct id *tenant,
					    const char *name, uint64_t before)
{
	while (sb && ((before && sb->seq >= before) || !sandbox_is_of_tenant(sb, tenant) ||
		      !str_eq(sb->info.name, name)))
		sb = sb->next_by_name;
	return sb;
}

struct sandbox *sandbox_find_named_before(struct sandboxes *all, const struct id *tenant,
					  const char *name, uint64_t before)
{
	return sandbox_skip_to_name(all->by_name[sandbox_text_bucket(name)], tenant, name, before);
}

struct sandbox *sandbox_next_of_name(const struct sandbox *sb)
{
	return sandbox_skip_to_name(sb->next_by_name, &sb->info.tenant, sb->info.name, 0);
}

unsigned sandboxes_count_live_of(const struct sandboxes *all, const struct id *tenant)
{
	unsigned n = 0;

	for (const struct sandbox *sb = all->newest; sb; sb = sb->older)
		n += !life_is_finished(&sb->life) && sandbox_is_of_tenant(sb, tenant);
	return n;
}

struct sandbox_due *sandboxes_get_due(struct sandboxes *all)
{
	return &all->due;
}

const uint64_t *sandboxes_get_end_counts(const struct sandboxes *all)
{
	return all->end_counts;
}

const uint64_t *sandboxes_get_blame_counts(const struct sandboxes *all)
{
	return all->blame_counts;
}

const struct sandbox_counts *sandboxes_get_counts(const struct sandboxes *all)
{
	return all->counts;
}

void sandbox_recount(struct sandbox *sb)
{
	sandbox_counts_update(sb->cayd->sandboxes->counts, sb);
}

unsigned sandboxes_count_placed(const struct sandboxes *all)
{
	return all->n - all->n_ended - all->n_ending;
}

unsigned sandboxes_count_live(const struct sandboxes *all)
{
	return all->n - all->n_ended;
}

/* Clients see it in cursors.  It grows with the clock, since a count would tell each tenant how
 * many sandboxes others create. */
static uint64_t sandboxes_next_seq(struct sandboxes *all)
{
	uint64_t now = clk_wall_ns(all->cayd->clk) / 1000;

	all->seq = now > all->seq ? now : all->seq + 1;
	return all->seq;
}

/* Index it by name and key, and as the newest. */
static void sandbox_index_names(struct sandboxes *all, struct sandbox *sb)
{
	struct sandbox **at;

	if (sb->info.name) {
		at = &all->by_name[sandbox_text_bucket(sb->info.name)];
		sb->next_by_name = *at;
		*at = sb;
	}
	if (sb->idempotency_key) {
		at = &all->by_key[sandbox_text_bucket(sb->idempotency_key)];
		sb->next_by_key = *at;
		*at = sb;
	}
	sb->older = all->newest;
	sb->newer = NULL;
	if (all->newest)
		all->newest->newer = sb;
	else
		all->oldest = sb;
	all->newest = sb;
}

static void sandbox_unlink_order(struct sandboxes *all, struct sandbox *sb)
{
	*(sb->newer ? &sb->newer->older : &all->newest) = sb->older;
	*(sb->older ? &sb->older->newer : &all->oldest) = sb->newer;
}

static void sandbox_index_insert(struct sandboxes *all, struct sandbox *sb)
{
	struct sandbox **at = sandbox_id_bucket(all, &sb->info.id);

	sb->next_by_id = *at;
	*at = sb;
	sandbox_index_names(all, sb);
	all->volume_changes += sb->info.volumes.n > 0;
	all->n++;
	all->n_ended += life_is_finished(&sb->life);
	all->n_ending += sb->life.state == SB_ENDING;
	sandbox_counts_update(all->counts, sb);
}

static void sandbox_free(struct sandbox *sb)
{
	free(sb->revoked);
	sandbox_exports_free(sb->exports);
	sandbox_egress_free(sb->egress);
	free(sb->ca);
	sandbox_answers_free(sb->answers);
	arena_fini(&sb->arena);
	arena_fini(&sb->labels_arena);
	free(sb);
}

static void sandbox_forget(struct sandboxes *all, struct sandbox *sb)
{
	LIST_UNLINK(*sandbox_id_bucket(all, &sb->info.id), sb, next_by_id);
	if (sb->info.name)
		LIST_UNLINK(all->by_name[sandbox_text_bucket(sb->info.name)], sb, next_by_name);
	if (sb->idempotency_key)
		LIST_UNLINK(all->by_key[sandbox_text_bucket(sb->idempotency_key)], sb, next_by_key);
	sandbox_unlink_order(all, sb);
	ended_remove(&all->ended, sb);
	all->n--;
	all->n_ended--;
	kept_key_add(sb);
	db_sandbox_delete(all->cayd->db, &sb->info.id, NULL, NULL);
	sandbox_free(sb);
}

void sandboxes_forget_expired(struct cayd *c, uint64_t now)
{
	struct sandboxes *all = c->sandboxes;
	struct sandbox *sb = all->oldest;

	while (sb) {
		struct sandbox *newer = sb->newer;

		if (life_is_finished(&sb->life) && now >= sb->forget_boot_ns &&
		    !sandbox_is_in_use(sb))
			sandbox_forget(all, sb);
		sb = newer;
	}
	while ((sb = ended_find_excess(&all->ended, c->settings.max_sandboxes)))
		sandbox_forget(all, sb);
}

bool sandbox_is_in_use(const struct sandbox *sb)
{
	return sb->holds || sb->waiters;
}

void sandbox_release(struct sandbox *sb)
{
	assert(sb->holds);
	sb->holds--;
}

void sandbox_describe_lease(const struct sandbox *sb, struct sandbox_info *to)
{
	const struct life *l = &sb->life;
	struct cayd *c = sb->cayd;

	to->has_lease = l->lease_ns != LIFE_NEVER;
	to->lease_ms = to->has_lease ? l->lease_ns / NS_PER_MS : 0;
	to->has_lease_until = to->has_lease && !life_is_finished(l) && !life_is_at_rest(l);
	to->lease_until_ns =
		clk_wall_ns(c->clk) + (l->renewed_ns + l->lease_ns - clk_boot_ns(c->clk));
}

/* A hold is no activity. */
static uint64_t sandbox_active_wall(const struct sandbox *sb)
{
	uint64_t boot = clk_boot_ns(sb->cayd->clk), at = sb->life.active_ns;

	return clk_wall_ns(sb->cayd->clk) - (boot - (at < boot ? at : boot));
}

/* Times are computed for the moment: life uses the boot clock, clients see the wall clock. */
const struct sandbox_info *sandbox_describe(struct sandbox *sb)
{
	uint64_t boot = clk_boot_ns(sb->cayd->clk), wall = clk_wall_ns(sb->cayd->clk);
	const struct life *l = &sb->life;

	sandbox_describe_lease(sb, &sb->info);
	sb->info.has_expires =
		l->expires_ns != LIFE_NEVER && !life_is_finished(l) && !life_is_at_rest(l);
	if (sb->info.has_expires)
		sb->info.expires_ns = wall + (l->expires_ns - boot);
	sb->info.has_held =
		(l->state == SB_RUNNING || l->state == SB_PAUSED) && l->active_ns > boot;
	sb->info.dozing = life_is_dozing(l);
	sb->info.held_ns = sb->info.has_held ? wall + (l->active_ns - boot) : 0;
	if (!life_is_finished(l) && !life_is_at_rest(l))
		sb->info.active_ns = sandbox_active_wall(sb);
	return &sb->info;
}

/* How long an ended sandbox can still be read; one that failed, long enough to find out why. */
static uint64_t sandbox_record_ns(const struct cayd *c, bool failed)
{
	uint64_t kept = c->settings.record_ttl_ms * NS_PER_MS;

	return failed && kept < FAILED_KEPT_NS ? FAILED_KEPT_NS : kept;
}

/* Nothing of a run is taken for part of the next one. */
static void sandbox_forget_run(struct sandbox *sb, unsigned before)
{
	if (before == SB_RUNNING || before == SB_PAUSED)
		sb->info.active_ns = sandbox_active_wall(sb);
	sb->info.end = (struct end){ .used = sb->info.end.used };
	sb->info.entry = NULL;
	sb->end_is_of_node = sb->ca_is_given = sb->ca_is_due = false;
	sb->entrypoint_poll.ended = false;
	sb->usage.known = false;
	sb->disk_watch.before += sb->disk_watch.written - sb->disk_watch.base;
	sb->disk_watch.written = sb->disk_watch.base = 0;
}

void sandbox_state_changed(struct sandbox *sb, unsigned before)
{
	struct sandboxes *all = sb->cayd->sandboxes;

	if (sb->life.state == SB_STOPPING)
		sandbox_forget_run(sb, before);
	if (sb->life.state == SB_STOPPED || sb->life.state == SB_STARTING)
		sb->failure = (struct cay_err){}; /* who started it has been answered */
	sb->reclaim.asked = false;
	sb->reclaim.settle_ns = 0;
	sb->reclaim.in_swap = sb->reclaim.in_swap && !life_is_at_rest(&sb->life);
	sb->changed_boot_ns = clk_boot_ns(sb->cayd->clk);
	sb->info.state = sb->life.state;
	if (sb->life.state != SB_PAUSED && !life_is_at_rest(&sb->life))
		sb->info.hold = NULL;
	sb->info.changed_ns = clk_wall_ns(sb->cayd->clk);
	sandbox_notify_observers(sb, SANDBOX_STATE_CHANGED);
	all->n_ending += sb->life.state == SB_ENDING;
	all->n_ending -= before == SB_ENDING;
	all->volume_changes += sb->info.volumes.n > 0;
	sandbox_counts_update(all->counts, sb);
	if (!life_is_finished(&sb->life) || before >= SB_TERMINATED)
		return;
	if (sandbox_describe(sb)->has_end && !sb->life.warm)
		all->end_counts[sb->info.end.reason]++;
	if (sb->info.has_end && !sb->life.warm)
		all->blame_counts[sb->info.end.blame]++;
	uid_range_release(all, sb->uid_range);
	sandbox_drop_private(sb); /* before its row is written */
	ended_add(&all->ended, sb);
	all->n_ended++;
	sb->forget_boot_ns =
		sb->changed_boot_ns +
		(sb->life.warm ? 0 : sandbox_record_ns(sb->cayd, sb->life.state == SB_FAILED));
}

uint64_t sandboxes_get_volume_changes(const struct sandboxes *all)
{
	return all->volume_changes;
}

static struct sandbox *sandbox_alloc(struct sandboxes *all)
{
	struct sandbox *sb = calloc(1, sizeof(*sb));

	if (!sb)
		return NULL;
	sb->cayd = all->cayd;
	sb->pidfd = -EBADF;
	sb->epoch = SANDBOX_FIRST_EPOCH;
	sb->arena = ARENA_INIT(POOL_MAX);
	return sb;
}

/* The sandbox an earlier request with this key or name has created. */
static int sandbox_find_existing(struct sandboxes *all, const struct id *tenant,
				 const struct sandbox_create *spec,
				 const struct idempotency_key *key, struct sandbox **ret,
				 struct cay_err *err)
{
	int r;

	*ret = sandbox_find_by_key(all, tenant, key->key);
	if (*ret && !str_eq((*ret)->idempotency_hash, key->body_hash))
		return cay_fail(err, CAY_E_KEY_REUSED,
				"this idempotency key was used for another request");
	if (*ret)
		return 0;
	r = kept_key_check(all->cayd, tenant, key, err);
	if (r < 0)
		return r;
	*ret = spec->name ? sandbox_find_by_name(all, tenant, spec->name) : NULL;
	return *ret ? sandbox_check_same_spec(*ret, spec, err) : 0;
}

int sandbox_create_check(struct sandboxes *all, const struct id *tenant,
			 const struct sandbox_create *spec, const struct idempotency_key *key,
			 struct sandbox **ret, struct cay_err *err)
{
	int r = sandbox_find_existing(all, tenant, spec, key, ret, err);
	struct limits settled;

	if (r < 0 || *ret)
		return r;
	r = image_check_create(all->cayd->images, tenant, spec, err);
	if (r >= 0 && spec->public_ports && !all->cayd->settings.edge_public_ports)
		r = cay_fail_field(err, CAY_E_UNSUPPORTED, "public_ports",
				   "ports cannot be public: edge.public_ports of this node is no");
	if (r >= 0)
		r = labels_check(&spec->labels, err);
	if (r >= 0)
		r = services_check(&spec->services, "services", err);
	if (r >= 0)
		r = warm_kernels_check(&spec->kernels, "kernels", err);
	if (r >= 0)
		r = storage_spec_check(spec, err);
	if (r >= 0)
		r = rest_spec_check(spec, err);
	if (r >= 0)
		r = limits_resolve(all->cayd, spec, &settled, err);
	return r;
}

static int sandbox_insert_new(struct sandboxes *all, const struct id *tenant,
			      const struct sandbox_create *spec, const struct idempotency_key *key,
			      bool warm, struct sandbox **ret, struct cay_err *err)
{
	struct sandbox *sb = sandbox_alloc(all);
	int r;

	if (!sb)
		return cay_no_memory(err);
	memcpy(sb->image, image_find_for_create(all->cayd->images, tenant, spec)->digest,
	       sizeof(sb->image));
	r = sandbox_init_from_spec(sb, spec, key, tenant);
	if (r >= 0)
		r = uid_range_claim(all, &sb->uid_range);
	if (r < 0) {
		sandbox_free(sb);
		if (r == -E2BIG)
			return cay_fail(err, CAY_E_TOO_LARGE,
					"its variables, services and entrypoint are more than the "
					"journal keeps of one sandbox");
		return cay_fail_sys(err, CAY_E_CAPACITY, -r, "create a sandbox");
	}
	sb->seq = sandboxes_next_seq(all);
	if (warm) { /* its deadlines begin with the claim */
		sb->life = life_new(&sb->info.id, sb->life.born_ns, LIFE_NEVER, LIFE_NEVER,
				    LIFE_NEVER);
		sb->life.warm = true;
	}
	sandbox_index_insert(all, sb);
	image_mark_used(all->cayd->images, sb->image);
	*ret = sb;
	return 0;
}

int sandbox_create(struct sandboxes *all, const struct id *tenant,
		   const struct sandbox_create *spec, const struct idempotency_key *key,
		   struct sandbox **ret, struct cay_err *err)
{
	int r = sandbox_insert_new(all, tenant, spec, key, false, ret, err);

	if (r >= 0)
		(void)sandbox_apply_event(*ret, &(struct life_event){ .kind = LIFE_ACCEPTED });
	return r;
}

int sandbox_create_warm(struct sandboxes *all, const struct sandbox_create *spec,
			struct sandbox **ret, struct cay_err *err)
{
	if (!image_find_for_create(all->cayd->images, &warm_tenant, spec))
		return cay_fail(err, CAY_E_NOT_FOUND, "there is no image '%s'", spec->image);
	return sandbox_insert_new(all, &warm_tenant, spec, &(struct idempotency_key){}, true, ret,
				  err);
}

int sandbox_claim_warm(struct sandbox *sb, const struct id *tenant,
		       const struct sandbox_create *spec, const struct idempotency_key *key)
{
	struct sandboxes *all = sb->cayd->sandboxes;
	struct life_event ev = { .kind = LIFE_CLAIM, .terms = sandbox_life_terms(sb->cayd, spec) };
	struct limits was = sb->info.limits;

	sandbox_counts_remove(all->counts, sb);
	if (sandbox_assign_spec(sb, spec, key, tenant) < 0) {
		sb->info.name = sb->idempotency_key = NULL; /* it is not indexed by them */
		sandbox_counts_update(all->counts, sb);
		return -ENOMEM;
	}
	sandbox_counts_update(all->counts, sb);
	sb->claim.limits_to_set |= limits_changed_bits(&was, &sb->info.limits);
	sandbox_unlink_order(all, sb);
	sb->seq = sandboxes_next_seq(all);
	sandbox_index_names(all, sb);
	(void)sandbox_apply_event(sb, &ev);
	return 0;
}

static int sandbox_restore_egress(struct sandbox *sb, const struct sandbox_record *record)
{
	const struct egress_record *e = &record->egress;

	if (!record->has_egress)
		return 0;
	if (e->has_used)
		egress_usage_restore(sb, &e->used);
	if (sandbox_set_answers(sb, &e->answers) < 0)
		return -ENOMEM;
	return sandbox_set_egress(sb, e->has_own ? &e->own : NULL,
				  e->has_template ? &e->template : NULL, e->generation);
}

static void sandbox_restore_rest(struct sandbox *sb, const struct sandbox_record *record)
{
	const struct sandbox_info *from = &record->sandbox;
	uint64_t rest_ns =
		rest_bound_ms(sb->cayd, from->has_rest_ttl ? from->rest_ttl_ms : 0) * NS_PER_MS;

	life_set_rest(
		&sb->life,
		&(struct life_terms){
			.expire_stops = from->on_expire == ON_EXPIRE_STOP,
			.idle_stops = from->has_stop_after,
			.idle_is_work = from->idle_by == IDLE_BY_WORK,
			.ttl_ns = record->has_ttl ? record->ttl_ms * NS_PER_MS : LIFE_NEVER,
			.rest_ns = rest_ns,
			.doze_ns = from->has_pause_after ? from->pause_after_ms * NS_PER_MS : 0 });
	sb->reclaim.in_swap = from->has_pause_after;
	sb->life.rolled_back = record->rolled_back;
	sb->life.dozes = record->dozes;
	if (rest_ns && record->has_rest_left && record->rest_left_ms * NS_PER_MS < rest_ns)
		sb->life.rest_left_ns = record->rest_left_ms * NS_PER_MS;
}

int sandbox_restore(struct sandboxes *all, const struct life *life,
		    const struct sandbox_record *record, uint64_t seq, struct sandbox **ret,
		    struct cay_err *err)
{
	const struct sandbox_info *from = &record->sandbox;
	struct sandbox *sb = sandbox_alloc(all);

	if (!sb)
		return cay_no_memory(err);
	sb->life = *life;
	life_reset_transient(&sb->life);
	life_set_lease(&sb->life, clk_boot_ns(all->cayd->clk),
		       from->has_lease ? from->lease_ms * NS_PER_MS : 0);
	sandbox_restore_rest(sb, record);
	/* a claim that the crash cut off may have changed them */
	sb->claim.limits_to_set = life->warm ? LIMIT_ALL : 0;
	sb->info = *from;
	sb->info.state = life->state;
	sb->seq = seq;
	sb->uid_range = (uint32_t)record->range;
	sb->cgroup_tenant = record->home.noun ? record->home : from->tenant;
	sb->resize.wanted = record->wanted;
	sb->resize.has_wanted = record->has_wanted;
	if (record->has_epoch)
		sb->epoch = (uint32_t)record->epoch;
	sb->info.image = sandbox_copy_text(sb, from->image);
	sb->info.template = sandbox_copy_text(sb, from->template);
	/* all are set, also those added since the row was written */
	sb->info.limits.given = sb->resize.wanted.given = 0;
	sb->info.name = sandbox_copy_text(sb, from->name);
	sb->info.group = sandbox_copy_text(sb, from->group);
	sb->info.timezone = sandbox_copy_text(sb, from->timezone);
	sb->info.entry = sandbox_copy_text(sb, from->entry);
	sb->info.hold = from->hold ? disk_watch_hold_text : NULL;
	sb->info.end.detail = sandbox_copy_text(sb, from->end.detail);
	sb->info.end.signal = sandbox_copy_text(sb, from->end.signal);
	sb->idempotency_key = sandbox_copy_text(sb, record->key);
	sb->idempotency_hash = sandbox_copy_text(sb, record->key_body);
	sb->forget_boot_ns = clk_boot_ns(all->cayd->clk) +
			     sandbox_record_ns(all->cayd, life->state == SB_FAILED);
	if (!id_eq(&from->id, &life->id) || record->range > VERB_RANGE_MAX || !sb->info.image ||
	    (sb->idempotency_key && !sb->idempotency_hash) ||
	    hex_decode(record->image_digest, strlen(record->image_digest), sb->image, 32) < 0 ||
	    sandbox_set_labels(sb, &from->labels) < 0 ||
	    sandbox_copy_map(sb, &record->env, &sb->env) < 0 ||
	    sandbox_copy_texts(sb, &from->writable, &sb->info.writable) < 0 ||
	    sandbox_copy_texts(sb, &record->entrypoint, &sb->entrypoint) < 0 ||
	    field_list_copy(&volume_mount_table, &from->volumes, &sb->arena, &sb->info.volumes) <
		    0 ||
	    field_list_copy(&service_spec_table, &record->services, &sb->arena, &sb->services) <
		    0 ||
	    field_list_copy(&warm_kernel_table, &record->kernels, &sb->arena, &sb->kernels) < 0 ||
	    revoked_restore(sb, &record->revoked) < 0 ||
	    sandbox_set_exports(sb, &record->exports) < 0 ||
	    sandbox_restore_egress(sb, record) < 0) {
		sandbox_free(sb);
		return cay_fail(err, CAY_E_INVALID, "the journal has an invalid sandbox");
	}
	if (life->state >= SB_ENDING && !from->has_end) { /* the row was edited by hand */
		sb->info.has_end = true;
		sb->info.end.reason = life->reason;
		sb->info.end.detail = sandbox_copy_text(sb, "the journal has no details");
		end_judge(&sb->info.end, END_OF_SANDBOX);
	}
	if (life->state >= SB_ENDING && life->reason == END_START_FAILED)
		(void)cay_fail(&sb->failure, CAY_E_RUNTIME, "%s",
			       sb->info.end.detail ? sb->info.end.detail : "it failed to start");
	if (life_is_finished(life)) /* the row may be of an older program, with all of them */
		sandbox_drop_private(sb);
	else
		uid_range_reserve(all, sb->uid_range);
	sandbox_notify_observers(sb, SANDBOX_RESTORED);
	if (all->seq < seq)
		all->seq = seq;
	sandbox_index_insert(all, sb);
	if (life_is_finished(life))
		ended_add(&all->ended, sb);
	*ret = sb;
	return 0;
}
