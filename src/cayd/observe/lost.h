/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_OBSERVE_LOST_H
#define CAY_CAYD_OBSERVE_LOST_H
/*
 * lost - a node whose journal lost its past
 *
 * An empty or older journal would make every tenant, key and sandbox unknown, and the node would
 * serve as if it were new.  Instead control serves only the operator's socket, refuses every
 * operation and says why, and changes nothing, until the operator puts back a copy of db/ or
 * accepts the loss with `cay fsck --end-foreign`.  Then it ends; the service manager starts it
 * again, and that start takes the journal as it is and ends the sandboxes that no row owns.
 */
#include "cayd/core/cayd.h"

/* Open the journal; if it lost its past, cayd->lost says so and there is none. */
[[nodiscard]] int journal_open(struct cayd *c, struct cay_err *err);
/* Every request of a node that lost its journal. */
request_fn lost_request_handle;
#endif
