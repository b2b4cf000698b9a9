/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_DRAIN_H
#define CAY_CAYD_SANDBOX_DRAIN_H
/*
 * drain - end every sandbox before cayd stops, if control.drain is set
 *
 * Called when the listeners are closed, so that no sandbox can be created.  A sandbox that is
 * not removed within DRAIN_MS is `ending` in the journal; the next start goes on with it.
 */
#include "cayd/core/cayd.h"

#define DRAIN_MS 60000

/* Whether to drain. Reads the settings again, so that a node can be drained without a restart. */
bool drain_is_configured(struct cayd *c);
/* End all sandboxes; stop the loop when they are gone or DRAIN_MS have passed. */
void drain_start(struct cayd *c);
#endif
