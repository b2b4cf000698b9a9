/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_ENTRYPOINT_H
#define CAY_CAYD_SANDBOX_ENTRYPOINT_H
/*
 * entrypoint - the main program of a sandbox: started once, then polled
 *
 * It is an exec like any other.  PID 1 is asked whether it has ended, so a restarted cayd
 * misses nothing.
 */
#include "cayd/sandbox/sandbox.h"

void entrypoint_start(struct sandbox *sb); /* ends in sandbox_entrypoint_finish() */
void sandbox_entrypoint_finish(struct sandbox *sb, const struct cay_err *outcome);
void entrypoints_poll(struct cayd *c, uint64_t now);
#endif
