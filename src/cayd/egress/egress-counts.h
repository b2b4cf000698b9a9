/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_EGRESS_EGRESS_COUNTS_H
#define CAY_CAYD_EGRESS_EGRESS_COUNTS_H
/*
 * egress-counts - what sandboxes use of the network, as cay-egress counts it
 *
 * When cay-egress attaches a sandbox it gets back the counts that are known here, so they go on
 * after a restart of either program; what a cay-egress that was killed counted in its last second
 * is lost.  The counts of the node are added up here: those of a new cay-egress begin at 0.
 */
#include "cayd/sandbox/sandbox.h"

[[nodiscard]] int egress_counts_open(struct cayd *c, struct cay_err *err);
/* The body of COUNTS. */
void egress_counts_receive(struct cayd *c, struct slice body);
/* The counts in APPLIED. */
void egress_counts_receive_one(struct sandbox *sb, const struct egress_counts *now);
/* cay-egress is gone: no connection is known to be open. */
void egress_counts_forget_open(struct cayd *c);
/* What all sandboxes have used since this program or cay-egress started. */
const struct egress_counts *egress_counts_get_totals(const struct cayd *c);
#endif
