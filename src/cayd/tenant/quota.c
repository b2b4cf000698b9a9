/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/tenant/quota.h"

#include "cayd/sandbox/count.h"
#include "cayd/tenant/tenant.h"
#include "life/ceiling.h"

static uint64_t quota_lower(uint64_t setting, bool has, uint64_t quota)
{
	return has && quota < setting ? quota : setting;
}

/* The tenant's number, else the setting's, which is none when it is 0. */
static void quota_set_default(bool *has, uint64_t *quota, uint64_t setting)
{
	if (*has || !setting)
		return;
	*has = true;
	*quota = setting;
}

struct quotas quota_get(const struct cayd *c, const struct id *tenant)
{
	const struct tenant_info *row = tenant_get_info(c, tenant);
	const struct settings *s = &c->settings;
	struct quotas q = row && row->has_quotas ? row->quotas : (struct quotas){};

	if (!row) /* warm sandboxes and builds: the node's limits only */
		return (struct quotas){ .sandboxes = s->max_sandboxes,
					.uploads_bytes = s->uploads_size,
					.max_ttl_ms = s->max_ttl_ms };
	q.sandboxes = quota_lower(s->max_tenant, q.has_sandboxes, q.sandboxes);
	q.max_ttl_ms = quota_lower(s->max_ttl_ms, q.has_max_ttl, q.max_ttl_ms);
	q.uploads_bytes = q.has_uploads ? q.uploads_bytes : s->uploads_size;
	q.snapshots = q.has_snapshots ? q.snapshots : s->max_snapshots;
	q.volumes = q.has_volumes ? q.volumes : s->max_volumes;
	q.has_sandboxes = q.has_max_ttl = q.has_uploads = q.has_snapshots = q.has_volumes = true;
	quota_set_default(&q.has_groups, &q.groups, s->tenant_groups);
	quota_set_default(&q.has_memory, &q.memory_bytes, s->tenant_memory);
	quota_set_default(&q.has_cpu, &q.cpu_milli, s->tenant_cpu);
	quota_set_default(&q.has_pids, &q.pids, s->tenant_pids);
	quota_set_default(&q.has_disk, &q.disk_bytes, s->tenant_disk);
	quota_set_default(&q.has_creates, &q.creates_per_s, s->tenant_creates);
	return q;
}

uint64_t quota_get_memory(const struct cayd *c, const struct id *tenant)
{
	struct quotas q = quota_get(c, tenant);

	return q.has_memory ? q.memory_bytes : 0;
}

static void quota_get_ceilings(const struct cayd *c, const struct id *tenant,
			       struct ceiling_set *ret)
{
	const struct tenant_info *row = tenant_get_info(c, tenant);
	struct ceiling_machine machine = { .memory_total = c->node_space.memory_total,
					   .disk_total = c->node_space.disk_total,
					   .cores = c->node_space.cores };

	ceilings_set_node(&c->settings, &machine, ret);
	if (row && row->has_ceilings)
		ceilings_lower(ret, &row->ceilings);
}

/* With its snapshots and volumes, which no sandbox has. */
static struct tenant_usage quota_get_usage(const struct cayd *c, const struct id *tenant)
{
	struct tenant_usage u =
		sandbox_counts_get_usage(sandboxes_get_counts(c->sandboxes), tenant);
	uint64_t bytes;

	c->hooks->snapshots_count(c, tenant, &u.snapshots, &bytes);
	u.disk_bytes += bytes;
	c->hooks->volumes_count(c, tenant, &u.volumes, &bytes);
	u.disk_bytes += bytes;
	return u;
}

void quota_describe(const struct cayd *c, const struct id *tenant, struct tenant_status *ret)
{
	struct ceiling_set set;

	quota_get_ceilings(c, tenant, &set);
	ret->quotas = quota_get(c, tenant);
	ret->ceilings = ceilings_describe(&set);
	ret->usage = quota_get_usage(c, tenant);
}

int quota_bound_create(const struct cayd *c, const struct id *tenant, struct sandbox_create *spec,
		       struct cay_err *err)
{
	struct ceiling_set set;

	quota_get_ceilings(c, tenant, &set);
	spec->max_ttl_ms = quota_get(c, tenant).max_ttl_ms;
	return ceilings_bound_create(&set, spec, err);
}

int quota_bound_volume(const struct cayd *c, const struct id *tenant, bool given, uint64_t *bytes,
		       struct cay_err *err)
{
	struct ceiling_set set;

	quota_get_ceilings(c, tenant, &set);
	return ceilings_bound_volume(&set, given, bytes, err);
}

uint64_t quota_get_volume_inodes(const struct cayd *c, const struct id *tenant)
{
	struct ceiling_set set;

	quota_get_ceilings(c, tenant, &set);
	return set.max[CEILING_INODES];
}

struct limits quota_bound_start(const struct cayd *c, const struct id *tenant,
				const struct limits *was)
{
	struct limits limits = *was;
	struct ceiling_set set;

	quota_get_ceilings(c, tenant, &set);
	ceilings_bound_start(&set, &limits);
	return limits;
}

/* Memory of the machine without node.memory. */
static uint64_t quota_get_node_memory(const struct cayd *c)
{
	uint64_t memory = c->node_space.memory_total, kept = c->settings.node_memory;

	return memory > kept ? memory - kept : 0;
}

uint64_t quota_get_promise_max(const struct cayd *c)
{
	return quota_get_node_memory(c) / 100 * c->settings.node_overcommit;
}

int quota_check_node(const struct cayd *c, const struct grant *less, const struct grant *more,
		     struct cay_err *err)
{
	struct grant total = sandbox_counts_get_total(sandboxes_get_counts(c->sandboxes));

	return grant_check_node(quota_get_node_memory(c), c->settings.node_overcommit, &total, less,
				more, err);
}

int quota_check_grant(const struct cayd *c, const struct id *tenant, const struct grant *less,
		      const struct grant *more, struct cay_err *err)
{
	struct tenant_usage u = quota_get_usage(c, tenant);
	struct grant sum = { u.memory_bytes, u.cpu_milli, u.pids, u.disk_bytes };
	struct quotas q = quota_get(c, tenant);

	return grant_check_quotas(&q, &sum, less, more, err);
}

int quota_check_change(struct cayd *c, const struct sandbox *sb, const struct limits *now,
		       struct cay_err *err)
{
	struct grant more = grant_of_limits(now, NULL);
	struct ceiling_set set;
	int r;

	quota_get_ceilings(c, &sb->info.tenant, &set);
	r = ceilings_check_change(&set, &sb->info.limits, now, err);
	if (r >= 0)
		r = quota_check_grant(c, &sb->info.tenant, &sb->count.granted, &more, err);
	return r < 0 ? r : quota_check_node(c, &sb->count.granted, &more, err);
}
