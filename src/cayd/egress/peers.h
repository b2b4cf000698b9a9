/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_EGRESS_PEERS_H
#define CAY_CAYD_EGRESS_PEERS_H
/*
 * peers - connections between the sandboxes of a group
 *
 * NAME.group.cay.internal is the sandbox of that name, or id, in the tenant and group of the one
 * that connects.  Both policies say so: the one that connects has a rule for the name and port,
 * which cay-egress judges, the other one exposes the port.  cay-egress asks for each connection;
 * cayd connects to the port through PID 1 of the other, and gives cay-egress that socket.
 */
#include "cayd/egress/egress-link.h"
#include "cayd/sandbox/sandbox.h"
#include "egress/host-name.h"

/* A question of cay-egress. */
void peers_receive(struct cayd *c, const struct egress_message *m, struct slice body);
/* The ports that the policies of a sandbox expose. */
void sandbox_get_exposed(const struct sandbox *sb, struct egress_exposed *ret);
/* Whether a sandbox would be connected to that port of another by this name of a group, and why
 * in words. */
[[nodiscard]] int peer_explain(struct sandbox *from, const struct host_name *name, uint16_t port,
			       bool *ret_exposed, struct buf *reason);
/* Its policy has changed: as egress_policy_changed(), after connections to ports that it no longer
 * exposes are reset. */
void peers_policy_changed(struct sandbox *sb, egress_link_fn *fn, void *arg);
/* Observer: connections to one that ends or stops are reset before the reply. */
void peers_forget_ended(struct sandbox *sb);
#endif
