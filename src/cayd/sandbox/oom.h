/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_OOM_H
#define CAY_CAYD_SANDBOX_OOM_H
/*
 * oom - whether memory ended a sandbox, by what its cgroup says
 *
 * Asked when its PID 1 or its main program was killed and nobody here did it, while its
 * cgroup is there: the kernel counts those it killed for memory and does not name them,
 * so that the answer is inferred.
 */
#include "cayd/sandbox/sandbox.h"

/* True: the evidence is in b->info.end and in b->why, which lives as long as the box. */
bool oom_detect(struct sandbox *sb);
#endif
