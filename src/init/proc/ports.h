/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_PROC_PORTS_H
#define CAY_INIT_PROC_PORTS_H
/*
 * ports - who listens inside, from /proc/net
 *
 * Nobody is connected to: a server that takes one client would have had it.  The kernel
 * tells sockets that listen in front of all others, so finding out about one port reads
 * no more than those.  Whose a socket is takes a look at every open file; that is done in
 * a child, for PORTS_OWNERS_MS at the most.
 */
#include "init/core/init.h"

#define PORTS_MAX 512
#define PORTS_TEXT_MAX KIB(128) /* of either file */
#define PORTS_OWNERS_MS 3000

struct listener {
	uint16_t port;
	bool v6;
	uint8_t address[16]; /* of IPv4 the first four */
	uint64_t uid, inode;
};

/* Rows of /proc/net/tcp (or tcp6) that listen, up to the first that does not.  *ret_more:
 * there was none, what follows may have others. */
[[nodiscard]] size_t listeners_parse(struct slice text, bool v6, struct listener *ret, size_t max,
				     bool *ret_more);
/* Whether dialling loopback gets there. */
bool listener_is_on_loopback(const struct listener *l);
/* Whether somebody listens where dialling that port on loopback gets. */
bool port_is_open(uint16_t port);
/* In the child of a proc_query: a PortList as JSON to standard output; its exit status. */
int child_port_list(void *arg);
#endif
