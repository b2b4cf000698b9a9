/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/tenant/admit.h"

#include "cayd/core/keeper-link.h"
#include "cayd/sandbox/count.h"
#include "cayd/sandbox/disk-watch.h"
#include "cayd/sandbox/limits.h"
#include "cayd/tenant/quota.h"
#include "cayd/tenant/tenant.h"

static unsigned tenant_count_placed(struct sandboxes *all, const struct id *tenant,
				    const char *group)
{
	return sandbox_counts_get(sandboxes_get_counts(all), group ? COUNT_GROUP : COUNT_TENANT,
				  tenant, group);
}

/* Which sandboxes can make room. */
struct admit_victims {
	const char *group; /* only those of this group; NULL: any */
	bool whole_group;  /* those of one group, one after the other: groups are too many */
};

static bool sandbox_is_in_group(const struct sandbox *sb, const char *group)
{
	return sb->info.group && str_eq(sb->info.group, group);
}

struct idle_group {
	const char *name;
	struct sandbox *latest; /* the last of it that was used */
	bool busy;
};

static void idle_group_add(struct idle_group *rows, size_t cap, struct sandbox *sb)
{
	struct slice name = slice_of(sb->info.group);
	size_t i = hash_bytes(0, name.p, name.n) & (cap - 1), tried = 0;

	for (; rows[i].name && !str_eq(rows[i].name, sb->info.group); i = (i + 1) & (cap - 1))
		if (++tried == cap)
			return;
	rows[i].name = sb->info.group;
	rows[i].busy |= !node_room_is_better_victim(&sb->life, NULL);
	if (!rows[i].latest || rows[i].latest->life.active_ns < sb->life.active_ns)
		rows[i].latest = sb;
}

/* A sandbox of the group that was used least recently and has no request inside; NULL: none. */
static struct sandbox *group_find_longest_idle(struct sandboxes *all, const struct id *tenant)
{
	size_t groups = sandbox_counts_get_usage(sandboxes_get_counts(all), tenant).groups, cap = 2;
	struct idle_group *rows;
	struct sandbox *best = NULL;

	while (cap < 2 * groups + 2)
		cap *= 2;
	rows = calloc(cap, sizeof(*rows));
	if (!rows)
		return NULL;
	for (struct sandbox *sb = sandbox_find_before(all, tenant, 0); sb;
	     sb = sandbox_next_of_tenant(sb))
		if (sb->info.group && sb->life.state < SB_ENDING)
			idle_group_add(rows, cap, sb);
	for (size_t i = 0; i < cap; i++)
		if (rows[i].name && !rows[i].busy &&
		    (!best || rows[i].latest->life.active_ns < best->life.active_ns))
			best = rows[i].latest;
	free(rows);
	return best;
}

static struct sandbox *sandbox_find_longest_idle(struct sandboxes *all, const struct id *tenant,
						 const struct admit_victims *of)
{
	struct sandbox *best = NULL;

	if (of->whole_group)
		return group_find_longest_idle(all, tenant);
	for (struct sandbox *sb = sandbox_find_before(all, tenant, 0); sb;
	     sb = sandbox_next_of_tenant(sb))
		if ((!of->group || sandbox_is_in_group(sb, of->group)) &&
		    node_room_is_better_victim(&sb->life, best ? &best->life : NULL))
			best = sb;
	return best;
}

static int node_sandbox_limit_check(struct cayd *c, struct cay_err *err)
{
	const struct settings *s = &c->settings;

	if (sandboxes_count_placed(c->sandboxes) >= s->max_sandboxes)
		return cay_fail(err, CAY_E_CAPACITY, "this node already has %llu sandboxes",
				(unsigned long long)s->max_sandboxes);
	return 0;
}

int admit_check_node(struct cayd *c, const struct grant *more, struct cay_err *err)
{
	int r = node_sandbox_limit_check(c, err);

	if (r >= 0)
		r = quota_check_node(c, &(struct grant){}, more, err);
	return r < 0 ? -ENOSR : node_space_check(c, err);
}

static int admit_check_numbers(const struct cayd *c, const struct id *tenant,
			       const struct sandbox_create *spec, struct admit_victims *ret_victims,
			       struct cay_err *err)
{
	struct tenant_usage has =
		sandbox_counts_get_usage(sandboxes_get_counts(c->sandboxes), tenant);
	struct quotas q = quota_get(c, tenant);

	if (has.sandboxes >= q.sandboxes)
		return cay_fail(err, CAY_E_LIMIT, "this tenant already has %llu sandboxes",
				(unsigned long long)has.sandboxes);
	ret_victims->whole_group = spec->group && q.has_groups && has.groups >= q.groups &&
				   !tenant_count_placed(c->sandboxes, tenant, spec->group);
	if (ret_victims->whole_group)
		return cay_fail(err, CAY_E_LIMIT, "this tenant already has %llu groups",
				(unsigned long long)has.groups);
	return 0;
}

static int admit_check_quota(struct cayd *c, const struct id *tenant,
			     const struct sandbox_create *spec, const struct sandbox *warm,
			     struct admit_victims *ret_victims, struct cay_err *err)
{
	const struct settings *s = &c->settings;
	struct grant less = warm ? warm->count.granted : (struct grant){}, more;
	struct limits limits;

	*ret_victims = (struct admit_victims){};
	if (limits_resolve(c, spec, &limits, err) < 0)
		return -ENOSR;
	more = grant_of_limits(&limits, NULL);
	if ((!warm && node_sandbox_limit_check(c, err) < 0) ||
	    admit_check_numbers(c, tenant, spec, ret_victims, err) < 0 ||
	    quota_check_grant(c, tenant, &(struct grant){}, &more, err) < 0 ||
	    quota_check_node(c, &less, &more, err) < 0)
		return -ENOSR;
	if (spec->group && s->max_group < s->max_sandboxes &&
	    tenant_count_placed(c->sandboxes, tenant, spec->group) >= s->max_group) {
		ret_victims->group = spec->group; /* only its sandboxes can make room */
		return cay_fail(err, CAY_E_LIMIT, "group '%s' already has %llu sandboxes",
				spec->group, (unsigned long long)s->max_group);
	}
	return node_space_check(c, err);
}

static int admit_decide(struct cayd *c, const struct id *tenant, const struct sandbox_create *spec,
			const struct sandbox *warm, bool act, struct cay_err *err)
{
	struct cay_err full = {};
	struct admit_victims victims;
	struct sandbox *sb;

	if (!tenant_is_for_builds(tenant) &&
	    !tenant_exists(c, tenant)) /* deleted while the request was read */
		return cay_fail(err, CAY_E_NOT_FOUND, "there is no such tenant");
	if (!keeper_is_up(c->keeper))
		return cay_fail(err, CAY_E_UNAVAILABLE, "cay-keeper is not running");
	if (!(keeper_runtimes(c->keeper) & 1u << spec->runtime))
		return cay_fail_field(err, CAY_E_UNSUPPORTED, "runtime",
				      "this runtime is not installed here or failed its probes");
	if (spec->storage != STORAGE_MEMORY &&
	    tenants_require_disk_quota(c, tenants_count(c), err) < 0)
		return -ENOTSUP;
	while (admit_check_quota(c, tenant, spec, warm, &victims, &full) < 0) {
		sb = spec->on_full == ON_FULL_EVICT_IDLE
			     ? sandbox_find_longest_idle(c->sandboxes, tenant, &victims)
			     : NULL;
		if (!sb) {
			*err = full;
			return -ENOSR;
		}
		if (!act)
			return 0;
		sandbox_end(sb, END_EVICTED,
			    "it was idle, and its tenant needed room for another sandbox");
		node_space_expire(c);
	}
	return 0;
}

int admit_check(struct cayd *c, const struct id *tenant, const struct sandbox_create *spec,
		const struct sandbox *warm, struct cay_err *err)
{
	return admit_decide(c, tenant, spec, warm, false, err);
}

int admit_check_and_evict(struct cayd *c, const struct id *tenant,
			  const struct sandbox_create *spec, const struct sandbox *warm,
			  struct cay_err *err)
{
	return admit_decide(c, tenant, spec, warm, true, err);
}

int admit_and_create(struct cayd *c, const struct id *tenant, const struct sandbox_create *spec,
		     const struct idempotency_key *key, const struct sandbox *warm,
		     struct sandbox **ret, struct cay_err *err)
{
	int r = sandbox_create_check(c->sandboxes, tenant, spec, key, ret, err);

	if (r < 0 || *ret)
		return r;
	r = c->hooks->volumes_admit(c, tenant, &spec->volumes, err);
	if (r >= 0)
		r = admit_check_and_evict(c, tenant, spec, warm, err);
	return r < 0 ? r : sandbox_create(c->sandboxes, tenant, spec, key, ret, err);
}

int admit_check_start(struct cayd *c, struct sandbox *sb, uint64_t *ret_max_ns, struct cay_err *err)
{
	const struct id *tenant = &sb->info.tenant;
	struct limits now = quota_bound_start(c, tenant, &sb->info.limits);
	struct limits wanted = quota_bound_start(c, tenant, &sb->resize.wanted);
	struct grant more = grant_of_limits(&now, sb->resize.has_wanted ? &wanted : NULL);
	struct quotas q = quota_get(c, tenant);

	if (life_is_used_up(&sb->life)) {
		(void)cay_fail(err, CAY_E_STATE, "its time to live is over");
		cay_err_hint(err, "give it more with sandbox.extend, 'cay extend', and start it "
				  "then; or delete it");
		return -ESRCH;
	}
	if (c->hooks->volumes_admit(c, tenant, &sb->info.volumes, err) < 0)
		return -EBUSY;
	if (sb->info.hold && disk_watch_is_short(c))
		return cay_fail(err, CAY_E_CAPACITY, "%s", sb->info.hold);
	if (!keeper_is_up(c->keeper))
		return cay_fail(err, CAY_E_UNAVAILABLE, "cay-keeper is not running");
	if (!(keeper_runtimes(c->keeper) & 1u << sb->info.runtime))
		return cay_fail(err, CAY_E_UNSUPPORTED,
				"its runtime is not installed here or failed its probes");
	if (tenants_require_disk_quota(c, tenants_count(c), err) < 0)
		return -ENOTSUP;
	if (tenant_count_placed(c->sandboxes, tenant, NULL) > q.sandboxes) /* it is one of them */
		return cay_fail(err, CAY_E_LIMIT, "this tenant may have only %llu sandboxes",
				(unsigned long long)q.sandboxes);
	if (quota_check_grant(c, tenant, &sb->count.granted, &more, err) < 0 ||
	    quota_check_node(c, &sb->count.granted, &more, err) < 0 || node_space_check(c, err) < 0)
		return -ENOSR;
	sb->info.limits = now;
	sb->resize.wanted = wanted;
	*ret_max_ns = q.max_ttl_ms * NS_PER_MS;
	return 0;
}
