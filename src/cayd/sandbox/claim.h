/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_CLAIM_H
#define CAY_CAYD_SANDBOX_CLAIM_H
/*
 * claim - telling a new cay-init whose it is: the environment, user and directory
 * of the image under those of the request; one that was warm gets its limits, too.
 * sandbox_claim_finish() is told.
 */
#include "cayd/sandbox/sandbox.h"

void claim_start(struct sandbox *sb);
#endif
