/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_PROC_PORT_DIAL_H
#define CAY_INIT_PROC_PORT_DIAL_H
/*
 * port-dial - a connection to a port on loopback, IPv4 and then IPv6, for a request
 */
#include "init/core/init.h"

/* fd is connected and the callee's, or err has the reason.  rq is NULL when the client left
 * first; then there is neither. */
typedef void port_dial_fn(struct init *in, struct request *rq, uint16_t port, int fd,
			  const struct cay_err *err);

/* Calls done exactly once, perhaps before it returns. */
void port_dial_start(struct init *in, struct request *rq, uint16_t port, uint64_t timeout_ms,
		     port_dial_fn *done);
#endif
