/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_EXEC_PORT_FORWARD_H
#define CAY_CLI_EXEC_PORT_FORWARD_H
/*
 * forward - connections made here, each carried to a port of a sandbox
 *
 * Listens on loopback alone, and on both of it.  A connection is carried by one of its own
 * to the daemon (port.connect).  An end is passed on as an end where the way is plain; TLS
 * has none, there the end of one side ends both.
 *
 * Bounded: FORWARD_MAX connections at once, FORWARD_BUF bytes each way, FORWARD_REACH_MS for
 * the way to the port, which the others wait for.
 */
#include "cli/client/api.h"

#define FORWARD_MAX 64
#define FORWARD_BUF KIB(32)
#define FORWARD_REACH_MS 10000

/* Says that it listens; a failure ends it. */
typedef int forward_ready_fn(uint16_t local, uint16_t port, struct cay_err *err);
/* Until it is interrupted.  local 0: any that is free; ready is told which it is. */
[[nodiscard]] int port_forward_run(struct api *a, const struct id *sandbox, uint16_t local,
				   uint16_t port, forward_ready_fn *ready, struct cay_err *err);
#endif
