/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_CLAIM_H
#define CAY_CAYD_CLAIM_H
/*
 * claim - telling a new cay-init whose it is: environment, user, directory
 *
 * Env never crosses to the keeper; it goes here, over the sandbox's socket, in one
 * request.  Of the answer only the status counts, within a deadline: what is on
 * the other end may already be hostile.
 */
#include "cayd/box.h"

#define CLAIM_MS 10000

typedef void claim_fn(void *arg, const struct cay_err *outcome);

/* done is called once, from the loop, with the box. */
void claim_start(struct box *b, claim_fn *done);
#endif
