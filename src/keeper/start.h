/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_START_H
#define CAY_KEEPER_START_H
/* start - the steps of the start verb that probes take too */
#include "base/err.h"
#include "keeper/stage.h"
#include "oci/template.h"

struct keeper;
struct box;

/* Put the calling worker into a new network namespace with `lo` alone. */
[[nodiscard]] int start_network(struct cay_err *err);
/* Write STAGE_BUNDLE/<name>/config.json; returns the open directory. */
[[nodiscard]] int start_bundle(const struct stage *stage, const struct oci *o, struct cay_err *err);
/* Let a running sandbox see its new limits; not undone, here too. */
[[nodiscard]] int start_show_limits(const struct keeper *k, const struct box *b, uint32_t cpu_milli,
				    struct cay_err *err);
/* Mount a detached cgroup directory where the runtime looks for one. */
[[nodiscard]] int start_show_cgroup(int tree, struct cay_err *err);
#endif
