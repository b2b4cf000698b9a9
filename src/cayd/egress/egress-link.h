/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_EGRESS_EGRESS_LINK_H
#define CAY_CAYD_EGRESS_EGRESS_LINK_H
/* egress-link - the connection to cay-egress, which carries the connections of sandboxes */
#include "cayd/core/cayd.h"

struct deferred_reply;
struct sandbox;

bool egress_link_is_ready(const struct cayd *c);
/* Its policy has changed in memory and in the journal.  deferred_reply_finish() is called once with
 * the outcome, when cay-egress has judged its open connections again; reply NULL: nobody waits. */
void egress_policy_changed(struct cayd *c, struct sandbox *sb, struct deferred_reply *reply);
#endif
