/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_RESIZE_H
#define CAY_CAYD_SANDBOX_RESIZE_H
/*
 * resize - change the limits of a running sandbox
 *
 * The wanted limits are in the journal, beside the present ones, before the keeper sets them;
 * then they become the present ones.  After a crash of cayd or the keeper they are set again,
 * which is harmless.
 */
#include "cayd/sandbox/sandbox.h"

/* Continue a change that a crash or a lost connection has cut off. */
void resize_retry(struct sandbox *sb);
#endif
