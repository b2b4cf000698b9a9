/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/sandbox/oom.h"

#include <stdio.h>

#include "cayd/core/keeper-link.h"
#include "cgroup/cgroup.h"

/* Blocks briefly: a few cgroup files, and only when a sandbox ends badly. */
static bool oom_read_usage(const struct sandbox *sb, struct cgroup_usage *ret)
{
	auto_cgroup top = CGROUP_INIT, at = CGROUP_INIT;
	char path[VERB_CGROUP_MAX + 1];

	keeper_cgroup_copy(sb->cayd->keeper, path);
	return cgroup_open_top(path, &top, NULL) >= 0 &&
	       cgroup_open_sandbox(&top, &sb->cgroup_tenant, &sb->info.id, &at) >= 0 &&
	       cgroup_read_usage(&at, ret, NULL) >= 0;
}

bool oom_is_of_node(const struct sandbox *sb)
{
	struct cgroup_usage now = {};

	return oom_read_usage(sb, &now) && now.oom_kills && !now.limit_hits;
}

bool oom_detect(struct sandbox *sb, enum end_reason *ret)
{
	struct end *e = &sb->info.end;
	struct cgroup_usage now = {};
	char why[128];
	int n;

	if (!oom_read_usage(sb, &now) || !now.oom_kills)
		return false;
	e->inferred = true;
	e->has_memory_limit = e->has_memory_peak = true;
	e->memory_limit_bytes = sb->info.limits.memory_bytes;
	e->memory_peak_bytes = now.memory_peak;
	*ret = now.limit_hits ? END_OOM : END_NODE_OOM;
	n = snprintf(why, sizeof(why), "%smemory limit %llu, peak %llu",
		     now.limit_hits ? "" : "the machine had no memory left; ",
		     (unsigned long long)e->memory_limit_bytes,
		     (unsigned long long)e->memory_peak_bytes);
	sb->end_detail = n > 0 && n < (int)sizeof(why) ? sandbox_copy_text(sb, why) : NULL;
	return true;
}
