/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_OOM_H
#define CAY_CAYD_SANDBOX_OOM_H
/*
 * oom - whether a sandbox ended because memory ran out: its limit, or the machine's
 *
 * Called when its PID 1 or its entrypoint was killed and cayd did not do it, while its cgroup
 * exists.  The kernel counts OOM kills but does not name the process, so the answer is
 * inferred.
 */
#include "cayd/sandbox/sandbox.h"

/* True: the evidence is in info.end and end_detail, which live as long as the sandbox.  *ret is
 * END_OOM when it was its own limit, else END_NODE_OOM. */
bool oom_detect(struct sandbox *sb, enum end_reason *ret);
/* Whether processes of the sandbox were killed, and none for its own limit. */
bool oom_is_of_node(const struct sandbox *sb);
#endif
