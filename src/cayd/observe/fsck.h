/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_OBSERVE_FSCK_H
#define CAY_CAYD_OBSERVE_FSCK_H
/*
 * fsck - the one checker: the journal compared with what the machine has
 *
 * Start is recovery: recovery_run() reads the journal, looks at the machine and lets life
 * decide what becomes of each sandbox.  The operation compares the same two again
 * while everything runs.  What the journal does not know is reported, never adopted
 * and never ended.
 */
#include "cayd/sandbox/sandbox.h"

/* Before the loop runs. */
[[nodiscard]] int recovery_run(struct cayd *c, struct cay_err *err);
/* The operations system.fsck and system.repair. */
void op_system_fsck(struct cayd *c, struct request *rq);
void op_system_repair(struct cayd *c, struct request *rq);
#endif
