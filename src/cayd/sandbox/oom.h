/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_OOM_H
#define CAY_CAYD_SANDBOX_OOM_H
/*
 * oom - whether a sandbox ended because of its memory limit
 *
 * Called when its PID 1 or its entrypoint was killed and cayd did not do it, while its cgroup
 * exists.  The kernel counts OOM kills but does not name the process, so the answer is
 * inferred.
 */
#include "cayd/sandbox/sandbox.h"

/* True: the evidence is in info.end and end_detail, which live as long as the sandbox. */
bool oom_detect(struct sandbox *sb);
#endif
