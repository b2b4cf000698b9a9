/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_RESIZE_H
#define CAY_CAYD_SANDBOX_RESIZE_H
/*
 * resize - other limits for a sandbox that runs
 *
 * What it is to have is in the journal before the keeper hears of it, beside what it has; then
 * one becomes the other.  What a crash, of us or of the keeper, cuts off in between is
 * asked for again: setting limits twice is setting them once.
 */
#include "cayd/sandbox/sandbox.h"

/* The operation. */
void op_sandbox_limits(struct cayd *c, struct request *rq);
/* It is there and the keeper is, too: what was wanted of it may be left over. */
void resize_retry(struct sandbox *sb);
#endif
