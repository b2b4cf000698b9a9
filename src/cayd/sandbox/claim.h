/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_CLAIM_H
#define CAY_CAYD_SANDBOX_CLAIM_H
/*
 * claim - give a new sandbox its environment, user and directory
 *
 * Those of the image, overridden by those of the request; a warm sandbox also gets its
 * limits.  Ends in sandbox_claim_finish().
 */
#include "cayd/sandbox/sandbox.h"

void claim_start(struct sandbox *sb);
/* Start the interpreters that a warm sandbox keeps loaded, before its claim. */
void claim_prepare_kernels(struct sandbox *sb);
#endif
