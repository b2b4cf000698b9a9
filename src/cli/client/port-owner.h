/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CLIENT_PORT_OWNER_H
#define CAY_CLI_CLIENT_PORT_OWNER_H
/*
 * port-owner - which user listens on a local port
 *
 * While cay-edge is not running, any user may listen on its port and would receive the key
 * of the next client.  The kernel reports the owner of each listening socket.
 */
#include "base/err.h"
#include "base/str.h"

/* Count the sockets listening on the port in a text like /proc/net/tcp; -EACCES when one
 * belongs to a user not in uids. */
[[nodiscard]] int port_owner_check_table(struct slice table, unsigned port, const unsigned *uids,
					 size_t n);
/* At least one socket listens there, and all belong to root, to us or to cay-edge. */
[[nodiscard]] int port_owner_check_trusted(unsigned port, struct cay_err *err);
#endif
