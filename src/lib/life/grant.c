/* SPDX-License-Identifier: Apache-2.0 */
#include "life/grant.h"

#include "base/clock.h"

static uint64_t grant_higher(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

struct grant grant_of_limits(const struct limits *now, const struct limits *wanted)
{
	const struct limits *w = wanted ? wanted : now;

	return (struct grant){ .memory_bytes = grant_higher(now->memory_bytes, w->memory_bytes),
			       .cpu_milli = grant_higher(now->cpu_milli, w->cpu_milli),
			       .pids = grant_higher(now->pids, w->pids),
			       .disk_bytes = grant_higher(now->disk_bytes, w->disk_bytes) };
}

struct grant grant_replace(const struct grant *sum, const struct grant *less,
			   const struct grant *more)
{
	return (struct grant){ sum->memory_bytes - less->memory_bytes + more->memory_bytes,
			       sum->cpu_milli - less->cpu_milli + more->cpu_milli,
			       sum->pids - less->pids + more->pids,
			       sum->disk_bytes - less->disk_bytes + more->disk_bytes };
}

int grant_check_quotas(const struct quotas *quotas, const struct grant *sum,
		       const struct grant *less, const struct grant *more, struct cay_err *err)
{
	struct grant then = grant_replace(sum, less, more);
	const struct {
		const char *name;
		bool has;
		uint64_t most, now, then;
	} rows[] = {
		{ "memory_bytes", quotas->has_memory, quotas->memory_bytes, sum->memory_bytes,
		  then.memory_bytes },
		{ "cpu_milli", quotas->has_cpu, quotas->cpu_milli, sum->cpu_milli, then.cpu_milli },
		{ "pids", quotas->has_pids, quotas->pids, sum->pids, then.pids },
		{ "disk_bytes", quotas->has_disk, quotas->disk_bytes, sum->disk_bytes,
		  then.disk_bytes },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].has && rows[i].then > rows[i].most && rows[i].then > rows[i].now)
			return cay_fail(err, CAY_E_LIMIT,
					"the sandboxes of this tenant would have '%s' %llu "
					"together; its quota is %llu",
					rows[i].name, (unsigned long long)rows[i].then,
					(unsigned long long)rows[i].most);
	return 0;
}

int grant_check_node(uint64_t memory, uint64_t percent, const struct grant *sum,
		     const struct grant *less, const struct grant *more, struct cay_err *err)
{
	uint64_t most = memory / 100 * percent;
	struct grant then = grant_replace(sum, less, more);

	if (!percent || then.memory_bytes <= most || then.memory_bytes <= sum->memory_bytes)
		return 0;
	return cay_fail(err, CAY_E_CAPACITY,
			"the sandboxes of this node have %llu MiB of memory as limits; with "
			"node.overcommit %llu they can have %llu MiB",
			(unsigned long long)(sum->memory_bytes >> 20), (unsigned long long)percent,
			(unsigned long long)(most >> 20));
}

bool grant_take_turn(uint64_t *next_ns, uint64_t per_s, uint64_t now_ns)
{
	uint64_t step = NS_PER_S / per_s, at = *next_ns > now_ns ? *next_ns : now_ns;

	if (at + step > now_ns + NS_PER_S)
		return false;
	*next_ns = at + step;
	return true;
}
