/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_EGRESS_EGRESS_LINK_H
#define CAY_CAYD_EGRESS_EGRESS_LINK_H
/* egress-link - the connection to cay-egress, which carries the connections of sandboxes */
#include "cayd/core/cayd.h"

bool egress_link_is_ready(const struct cayd *c);
#endif
