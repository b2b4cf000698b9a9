/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_PROC_PORT_CONNECT_H
#define CAY_INIT_PROC_PORT_CONNECT_H
/*
 * connect - a request that becomes a connection to a port inside
 *
 * Loopback is dialled, IPv4 and then IPv6; then the request is answered by 101 and its
 * bytes are the port's, both ways.  What they are nobody here looks at.
 *
 * Bounded: CONNECTS_MAX at once, so that previews never take the connections commands
 * need; CONNECT_MS to get through.
 */
#include "init/core/init.h"

#define PORT_CONNECTIONS_MAX 128
#define PORT_CONNECT_MS 5000

void op_port_connect(struct init *in, struct request *rq);
#endif
