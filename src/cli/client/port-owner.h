/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CLIENT_PORT_OWNER_H
#define CAY_CLI_CLIENT_PORT_OWNER_H
/*
 * listener - whose a port of this machine is
 *
 * While cay-edge is away anybody may listen where it does, and would be told the key of
 * whoever asks.  The kernel says which user a listening socket belongs to.
 */
#include "base/err.h"
#include "base/str.h"

/* Those of a text like /proc/net/tcp that listen on the port: how many, or -EACCES when one
 * of them is of a user who is not in the list. */
[[nodiscard]] int port_owner_check_table(struct slice table, unsigned port, const unsigned *uids,
					 size_t n);
/* Every one on that port is root's, ours or cay-edge's; and there is one. */
[[nodiscard]] int port_owner_check_trusted(unsigned port, struct cay_err *err);
#endif
