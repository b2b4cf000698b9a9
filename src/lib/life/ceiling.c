/* SPDX-License-Identifier: Apache-2.0 */
#include "life/ceiling.h"

#include <assert.h>

#define MEMORY_PART 2
#define DISK_PART 2

static const struct {
	const char *setting;
	size_t limit_at;
} ceiling_rows[CEILING_NUM] = {
	[CEILING_MEMORY] = { "sandbox.memory", offsetof(struct limits, memory_bytes) },
	[CEILING_CPU] = { "sandbox.cpu", offsetof(struct limits, cpu_milli) },
	[CEILING_PIDS] = { "sandbox.pids", offsetof(struct limits, pids) },
	[CEILING_NOFILE] = { "sandbox.nofile", offsetof(struct limits, nofile) },
	[CEILING_SHM] = { "sandbox.shm", offsetof(struct limits, shm_bytes) },
	[CEILING_OUTPUT] = { "sandbox.output", offsetof(struct limits, output_bytes) },
	[CEILING_DISK] = { "sandbox.disk", offsetof(struct limits, disk_bytes) },
	[CEILING_INODES] = { "sandbox.inodes", offsetof(struct limits, disk_inodes) },
};

static uint64_t *ceiling_limit_at(struct limits *l, enum ceiling_kind kind)
{
	return (uint64_t *)(void *)((char *)l + ceiling_rows[kind].limit_at);
}

static uint64_t ceiling_get_limit(const struct limits *l, enum ceiling_kind kind)
{
	return *(const uint64_t *)(const void *)((const char *)l + ceiling_rows[kind].limit_at);
}

static const struct field *ceiling_get_field(enum ceiling_kind kind)
{
	const struct field *f = &limits_table.rows[kind];

	assert(f->offset == ceiling_rows[kind].limit_at);
	return f;
}

static uint64_t ceiling_or_else(uint64_t setting, uint64_t other)
{
	return setting ? setting : other;
}

void ceilings_set_node(const struct settings *s, const struct ceiling_machine *machine,
		       struct ceiling_set *ret)
{
	*ret = (struct ceiling_set){
		.max = { [CEILING_MEMORY] = ceiling_or_else(s->sandbox_memory,
							    machine->memory_total / MEMORY_PART),
			 [CEILING_CPU] =
				 ceiling_or_else(s->sandbox_cpu, UINT64_C(1000) * machine->cores),
			 [CEILING_PIDS] = s->sandbox_pids,
			 [CEILING_NOFILE] = s->sandbox_nofile,
			 [CEILING_OUTPUT] = s->sandbox_output,
			 [CEILING_DISK] =
				 ceiling_or_else(s->sandbox_disk, machine->disk_total / DISK_PART),
			 [CEILING_INODES] = s->sandbox_inodes }
	};
	ret->max[CEILING_SHM] = ceiling_or_else(s->sandbox_shm, ret->max[CEILING_MEMORY]);
	/* a machine without memory or a disk to speak of: no ceiling is below what a schema allows
	 */
	for (unsigned kind = 0; kind < CEILING_NUM; kind++)
		if (ret->max[kind] < ceiling_get_field(kind)->min)
			ret->max[kind] = ceiling_get_field(kind)->min;
}

void ceilings_lower(struct ceiling_set *set, const struct ceilings *tenant)
{
	const struct {
		bool has;
		uint64_t max;
	} rows[CEILING_NUM] = {
		[CEILING_MEMORY] = { tenant->has_memory, tenant->memory_bytes },
		[CEILING_CPU] = { tenant->has_cpu, tenant->cpu_milli },
		[CEILING_PIDS] = { tenant->has_pids, tenant->pids },
		[CEILING_NOFILE] = { tenant->has_nofile, tenant->nofile },
		[CEILING_SHM] = { tenant->has_shm, tenant->shm_bytes },
		[CEILING_OUTPUT] = { tenant->has_output, tenant->output_bytes },
		[CEILING_DISK] = { tenant->has_disk_bytes, tenant->disk_bytes },
		[CEILING_INODES] = { tenant->has_disk_inodes, tenant->disk_inodes },
	};

	for (unsigned kind = 0; kind < CEILING_NUM; kind++)
		if (rows[kind].has && rows[kind].max < set->max[kind]) {
			set->max[kind] = rows[kind].max;
			set->is_of_tenant[kind] = true;
		}
}

struct ceilings ceilings_describe(const struct ceiling_set *set)
{
	const uint64_t *max = set->max;

	return (struct ceilings){ max[CEILING_MEMORY],
				  max[CEILING_CPU],
				  max[CEILING_PIDS],
				  max[CEILING_NOFILE],
				  max[CEILING_SHM],
				  max[CEILING_OUTPUT],
				  max[CEILING_DISK],
				  max[CEILING_INODES],
				  true,
				  true,
				  true,
				  true,
				  true,
				  true,
				  true,
				  true };
}

static int ceiling_refuse(const struct ceiling_set *set, enum ceiling_kind kind, bool in_create,
			  struct cay_err *err)
{
	static const char *const in_limits[CEILING_NUM] = {
		"limits.memory_bytes", "limits.cpu_milli",   "limits.pids",
		"limits.nofile",       "limits.shm_bytes",   "limits.output_bytes",
		"limits.disk_bytes",   "limits.disk_inodes",
	};
	const char *name = ceiling_get_field(kind)->name;

	return cay_fail_field(err, CAY_E_INVALID, in_create ? in_limits[kind] : name,
			      "'%s' is at most %llu here, by %s%s", name,
			      (unsigned long long)set->max[kind],
			      set->is_of_tenant[kind] ? "a ceiling of this tenant" : "the setting ",
			      set->is_of_tenant[kind] ? "" : ceiling_rows[kind].setting);
}

int ceilings_bound_create(const struct ceiling_set *set, struct sandbox_create *spec,
			  struct cay_err *err)
{
	for (unsigned kind = 0; kind < CEILING_NUM; kind++) {
		uint64_t *limit = ceiling_limit_at(&spec->limits, kind);

		if (*limit <= set->max[kind])
			continue;
		if (spec->limits.given >> kind & 1)
			return ceiling_refuse(set, kind, true, err);
		*limit = set->max[kind];
	}
	spec->disk_ceiling = set->max[CEILING_DISK];
	spec->inode_ceiling = set->max[CEILING_INODES];
	return 0;
}

int ceilings_bound_volume(const struct ceiling_set *set, bool given, uint64_t *bytes,
			  struct cay_err *err)
{
	uint64_t max = set->max[CEILING_DISK];
	bool of_tenant = set->is_of_tenant[CEILING_DISK];

	if (*bytes <= max)
		return 0;
	if (given)
		return cay_fail_field(
			err, CAY_E_INVALID, "size_bytes",
			"'size_bytes' is at most %llu here, by %s%s", (unsigned long long)max,
			of_tenant ? "the ceiling 'disk_bytes' of this tenant" : "the setting ",
			of_tenant ? "" : ceiling_rows[CEILING_DISK].setting);
	*bytes = max;
	return 0;
}

void ceilings_bound_start(const struct ceiling_set *set, struct limits *limits)
{
	for (unsigned kind = 0; kind < CEILING_NUM; kind++) {
		uint64_t *limit = ceiling_limit_at(limits, kind);

		/* its files may take more than that already, and count while it is stopped */
		if (kind == CEILING_DISK || kind == CEILING_INODES)
			continue;
		if (*limit > set->max[kind])
			*limit = set->max[kind];
	}
}

int ceilings_check_change(const struct ceiling_set *set, const struct limits *was,
			  const struct limits *now, struct cay_err *err)
{
	for (unsigned kind = 0; kind < CEILING_NUM; kind++) {
		uint64_t limit = ceiling_get_limit(now, kind);

		if (limit > ceiling_get_limit(was, kind) && limit > set->max[kind])
			return ceiling_refuse(set, kind, false, err);
	}
	return 0;
}
