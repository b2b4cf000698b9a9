/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_PROC_PORTS_H
#define CAY_INIT_PROC_PORTS_H
/*
 * ports - listening TCP sockets inside, from /proc/net
 *
 * This opens no connection: a server that accepts a single client would lose it.  The kernel
 * lists listening sockets before all others, so checking one port reads only those.  Finding
 * the process of a socket reads every open file; that happens in a child, for at most
 * PORTS_OWNERS_MS.
 */
#include "init/core/init.h"

#define PORTS_MAX 512
#define PORTS_TEXT_MAX KIB(128) /* of either file */
#define PORTS_OWNERS_MS 3000

struct listener {
	uint16_t port;
	bool v6;
	uint8_t address[16]; /* IPv4: the first four bytes */
	uint64_t uid, inode;
};

/* Rows of /proc/net/tcp (or tcp6) that listen, up to the first that does not.  *ret_more: the
 * text has no such row, so more may follow. */
[[nodiscard]] size_t listeners_parse(struct slice text, bool v6, struct listener *ret, size_t max,
				     bool *ret_more);
/* Whether it accepts connections to loopback. */
bool listener_is_on_loopback(const struct listener *l);
/* Whether a connection to that port on loopback finds a listener. */
bool port_is_open(uint16_t port);
/* In the child of a proc_query: a PortList as JSON to standard output; its exit status. */
int child_port_list(void *arg);
#endif
