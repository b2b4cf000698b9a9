/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_DRAIN_H
#define CAY_CAYD_SANDBOX_DRAIN_H
/*
 * drain - every sandbox ends before cayd does, where control.drain says so
 *
 * Asked for while nothing can be created any more.  What is not removed within
 * DRAIN_MS is ending by the journal: the next start goes on with it.
 */
#include "cayd/core/cayd.h"

#define DRAIN_MS 60000

/* Whether stopping means it; the settings are read again, so that a node can be
 * drained without being restarted first. */
bool drain_is_configured(struct cayd *c);
/* End them all and stop the loop when they are gone, or it is time. */
void drain_start(struct cayd *c);
#endif
