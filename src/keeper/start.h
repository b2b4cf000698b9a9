/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_START_H
#define CAY_KEEPER_START_H
/* start - the steps of the start verb that probes take too */
#include "base/err.h"
#include "keeper/stage.h"
#include "oci/template.h"

/* A /proc of the worker's own to change settings of namespaces by.  In a shared one
 * the names of all namespaces' settings are on one list, 3 ms to walk with 5,000
 * sandboxes, and stay on it as long as the namespace.  To be made while root. */
[[nodiscard]] int start_proc(struct cay_err *err);
/* Put the calling worker into a new network namespace with `lo` alone. */
[[nodiscard]] int start_network(int proc, struct cay_err *err);
/* Write STAGE_BUNDLE/<name>/config.json; returns the open directory. */
[[nodiscard]] int start_bundle(const struct stage *stage, const struct oci *o, struct cay_err *err);
/* Mount a detached cgroup directory where the runtime looks for one. */
[[nodiscard]] int start_show_cgroup(int tree, struct cay_err *err);
#endif
