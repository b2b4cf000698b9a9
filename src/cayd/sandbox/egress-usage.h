/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_EGRESS_USAGE_H
#define CAY_CAYD_SANDBOX_EGRESS_USAGE_H
/*
 * egress-usage - what a sandbox uses of the network, as clients and the journal have it
 *
 * cay-egress counts (cayd/egress/egress-counts.h).  The journal gets the counts with the other
 * changes of a sandbox and when this program stops: an upgrade restarts both programs.
 */
#include "cayd/sandbox/sandbox.h"

struct egress_usage egress_usage_get(const struct sandbox *sb);
/* From the journal. */
void egress_usage_restore(struct sandbox *sb, const struct egress_usage *used);
/* The loop has ended: queue the counts that have changed for the journal. */
void egress_usage_save_all(struct cayd *c);
#endif
