/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_EXEC_PORT_FORWARD_H
#define CAY_CLI_EXEC_PORT_FORWARD_H
/*
 * port-forward - forward local TCP connections to a port of a sandbox
 *
 * Listens on loopback only, IPv4 and IPv6.  Each connection gets one port.connect to the daemon.  A
 * half-close is passed on over plain connections; over TLS the end of one side ends both.
 *
 * Bounded: FORWARD_MAX connections, FORWARD_BUF bytes each way.  Connecting blocks the other
 * connections, so it may take FORWARD_REACH_MS at most, and the reply as long again.
 */
#include "cli/client/api.h"

#define FORWARD_MAX 64
#define FORWARD_BUF KIB(32)
#define FORWARD_REACH_MS 10000

/* Called once it listens; a failure ends the forwarding. */
typedef int forward_ready_fn(uint16_t local, uint16_t port, struct cay_err *err);
/* Runs until it is interrupted.  local 0: choose a free port. */
[[nodiscard]] int port_forward_run(struct api *a, const struct id *sandbox, uint16_t local,
				   uint16_t port, forward_ready_fn *ready, struct cay_err *err);
#endif
