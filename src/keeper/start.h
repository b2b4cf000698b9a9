/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_START_H
#define CAY_KEEPER_START_H
/* start - steps of the start verb that probes share */
#include "base/err.h"
#include "keeper/mount-stage.h"
#include "oci/oci-config.h"

struct keeper;
struct sandbox;

/* Put the calling worker into a new network namespace with only `lo`. */
[[nodiscard]] int keeper_start_make_netns(struct cay_err *err);
/* Write STAGE_BUNDLE/<name>/config.json; returns the open directory. */
[[nodiscard]] int keeper_start_write_bundle(const struct mount_stage *stage,
					    const struct oci_config *o, struct cay_err *err);
/* Show a running sandbox its new limits; irreversible for the calling worker. */
[[nodiscard]] int keeper_start_update_proc_view(const struct keeper *k, const struct sandbox *sb,
						uint32_t cpu_milli, struct cay_err *err);
/* Mount a detached cgroup directory where the runtime expects one. */
[[nodiscard]] int keeper_start_mount_cgroup(int tree, struct cay_err *err);
#endif
