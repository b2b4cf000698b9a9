/* SPDX-License-Identifier: Apache-2.0 */
#include "base/failpoint.h"
#include "keeper/keeper-sandbox.h"

/* stop: end its processes and keep the rest, also after a power loss; may be repeated.  An attacker
 * who owns cayd can end any sandbox, as by kill. */
int verb_stop(const struct keeper *k, const void *request, int, struct verb_result *result,
	      struct cay_err *err)
{
	const struct verb_sandbox *q = request;
	auto_keeper_sandbox b = KEEPER_SANDBOX_INIT;
	int r = keeper_sandbox_open(k, &q->sandbox, q->generation, &b, err);

	result->removed.cpu_ns = UINT64_MAX;
	if (r >= 0 && !b.record.magic)
		return cay_fail(err, CAY_E_STATE, "%s was not prepared", b.name);
	if (r >= 0)
		r = keeper_sandbox_end_run(k, &b, &result->removed, err);
	if (r >= 0 && syncfs(b.dir) < 0)
		r = cay_fail_sys(err, cay_code_from_disk_errno(errno), errno, "sync %s", b.name);
	return r < 0 ? r : failpoint_hit(FAULT_STOP_SYNCED);
}

/* restore: cgroups for the files that `stop` has kept, and the limit of the disk, which a change of
 * limits may have left half done.  The old cgroups are gone, because nothing can be started in a
 * cgroup that was killed (docs/adr/0014).  An attacker who owns cayd gets empty cgroups, and a disk
 * of any size, as by limits. */
int verb_restore(const struct keeper *k, const void *request, int, struct verb_result *,
		 struct cay_err *err)
{
	const struct verb_limits *q = request;
	auto_keeper_sandbox b = KEEPER_SANDBOX_INIT;
	int r = keeper_sandbox_open(k, &q->sandbox, q->generation, &b, err);

	if (r >= 0 && (!b.record.magic || b.cgroup.v2 >= 0))
		return cay_fail(err, CAY_E_STATE, "%s is not stopped", b.name);
	if (r >= 0)
		r = keeper_sandbox_limit_disk(k, &b, q, err);
	if (r >= 0)
		r = sandbox_cgroup_create(&k->cgroups, &b.record.tenant, &b.id,
					  keeper_sandbox_host_root_id(&b), &b.cgroup, err);
	return r < 0 ? r : failpoint_hit(FAULT_RESTORE_CGROUPS);
}
