/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_LISTENERS_H
#define CAY_CAYD_LISTENERS_H
/*
 * door - the two sockets control is reached by, and on whose behalf
 *
 *	control.sock         0600: the operator, in the default tenant
 *	edge/control.sock    0660 in a directory of 0750: cay-edge, which says with each
 *	                     request for whom it asks (ops/actor.h); cayd's group is
 *	                     who may
 *
 * The edge's word is not enough.  An actor with a key comes with the key itself, and is no
 * more than it.  Without one it is a token's, for one sandbox, or, where [jwt] keys is
 * set, another issuer's; an operator it is never.
 *
 * What an actor may not is refused before anything else of its request is read.
 */
#include "cayd/core/cayd.h"

[[nodiscard]] int listeners_open(struct cayd *c, struct cay_err *err);
/* Nobody is served any more. */
void listeners_close(struct cayd *c);
#endif
