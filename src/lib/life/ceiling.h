/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_LIFE_CEILING_H
#define CAY_LIFE_CEILING_H
/*
 * ceiling - the highest limits that one sandbox may have
 *
 * A limit is granted, not chosen: a request above the ceiling is refused by the name of its
 * field, and a default above it is lowered.  Ceilings come from the settings of section `sandbox`
 * and from the tenant's row; the lower one counts.
 */
#include "ops/settings.h"
#include "ops/types.h"

/* In the order of limits_table. */
enum ceiling_kind {
	CEILING_MEMORY,
	CEILING_CPU,
	CEILING_PIDS,
	CEILING_NOFILE,
	CEILING_SHM,
	CEILING_OUTPUT,
	CEILING_DISK,
	CEILING_INODES,
	CEILING_NUM
};

struct ceiling_set {
	uint64_t max[CEILING_NUM];
	bool is_of_tenant[CEILING_NUM]; /* else of a setting */
};

/* Bytes and cores of this machine, for settings that are 0. */
struct ceiling_machine {
	uint64_t memory_total, disk_total;
	unsigned cores;
};

void ceilings_set_node(const struct settings *s, const struct ceiling_machine *machine,
		       struct ceiling_set *ret);
/* The tenant's own ceilings; the lower ones count. */
void ceilings_lower(struct ceiling_set *set, const struct ceilings *tenant);
/* As the API shows them. */
struct ceilings ceilings_describe(const struct ceiling_set *set);
/* CAY_E_INVALID for a limit of the request or its template that is too high.  Limits that neither
 * gives are lowered. */
[[nodiscard]] int ceilings_bound_create(const struct ceiling_set *set, struct sandbox_create *spec,
					struct cay_err *err);
/* The same for the size of a volume, which is a disk too; given: the request has it. */
[[nodiscard]] int ceilings_bound_volume(const struct ceiling_set *set, bool given, uint64_t *bytes,
					struct cay_err *err);
/* Lower limits that were granted under higher ceilings. */
void ceilings_bound_start(const struct ceiling_set *set, struct limits *limits);
/* CAY_E_INVALID for a limit that is raised above its ceiling. */
[[nodiscard]] int ceilings_check_change(const struct ceiling_set *set, const struct limits *was,
					const struct limits *now, struct cay_err *err);
#endif
