/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_ENTRYPOINT_H
#define CAY_CAYD_SANDBOX_ENTRYPOINT_H
/*
 * entry - the main program of a sandbox: started once, and asked after now and then
 *
 * It is an exec like any other.  Whether it has ended is asked of PID 1, so that a
 * restarted cayd need not have been there.
 */
#include "cayd/sandbox/sandbox.h"

void entrypoint_start(struct sandbox *sb); /* sandbox_entrypoint_finish() is told */
void sandbox_entrypoint_finish(struct sandbox *sb, const struct cay_err *outcome);
void entrypoints_poll(struct cayd *c, uint64_t now);
#endif
