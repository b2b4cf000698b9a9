/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_LISTENERS_H
#define CAY_CAYD_LISTENERS_H
/*
 * listeners - the two sockets of control, and which actor each accepts
 *
 *	control.sock         0600: the operator, in the default tenant
 *	edge/control.sock    0660 in a directory of 0750, for cayd's group: cay-edge, which
 *	                     names the actor of each request (ops/actor.h)
 *
 * The edge is not trusted with names alone.  A request of a key carries the key's secret and
 * gets the key's scope.  Without a key it is a token, for one sandbox, or, where [jwt] keys
 * is set, a JWT of another issuer; it is never the operator.
 *
 * A request that its actor may not make is refused before its body is read.
 */
#include "cayd/core/cayd.h"

[[nodiscard]] int listeners_open(struct cayd *c, struct cay_err *err);
/* Stop accepting and serving requests. */
void listeners_close(struct cayd *c);
#endif
