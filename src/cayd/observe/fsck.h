/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_OBSERVE_FSCK_H
#define CAY_CAYD_OBSERVE_FSCK_H
/*
 * fsck - compare the journal with the machine
 *
 * Start is recovery: recovery_run() reads the journal, lists the machine and lets life decide
 * what becomes of each sandbox.  The operation makes the same comparison while everything runs.
 * A sandbox that the journal lacks is foreign: it is reported, and ended only when the operator
 * says so.
 */
#include "cayd/sandbox/sandbox.h"

/* Before the loop runs. */
[[nodiscard]] int recovery_run(struct cayd *c, struct cay_err *err);
#endif
