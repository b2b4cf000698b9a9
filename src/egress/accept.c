/* SPDX-License-Identifier: Apache-2.0 */
/* accept - new connections of a sandbox, and how many it may begin */
#include <netinet/in.h>
#include <sys/socket.h>

#include "egress/flow.h"

#define DNS_PORT 53

bool egress_sandbox_pace_flow(struct egress_sandbox *sb)
{
	return pace_take(&sb->flow_pace, clk_boot_ns(sb->egress->clk), sb->limits.new_per_s,
			 2 * sb->limits.new_per_s);
}

/* There is always a descriptor left to accept and refuse with: a listener that cannot be read would
 * keep the loop busy. */
static bool egress_sandbox_may_begin_flow(struct egress_sandbox *sb)
{
	const struct egress *e = sb->egress;

	return sb->n_flows < sb->limits.flows && e->n_flows < e->flows_max &&
	       !egress_sandbox_is_used_up(sb) &&
	       e->tenants[egress_sandbox_tenant_slot(sb)].n_flows <= e->flows_max / 4 &&
	       egress_sandbox_pace_flow(sb);
}

/* One at a time: the loop calls again while there are more, and others get their turn. */
void egress_sandbox_accept_flow(struct egress_sandbox *sb)
{
	auto_close int fd =
		accept4(egress_sandbox_fd(sb, STEER_TCP), NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct sockaddr_in dialled = {};
	socklen_t n = sizeof(dialled);
	bool may;

	if (fd < 0)
		return;
	may = egress_sandbox_may_begin_flow(sb) &&
	      getsockname(fd, (struct sockaddr *)&dialled, &n) == 0;
	if (may && dialled.sin_port == htons(DNS_PORT)) {
		egress_sandbox_answer_connection(sb, cay_take_fd(&fd));
	} else if (!may || !flow_start(sb, &dialled, &fd)) {
		socket_reset_on_close(fd);
		egress_sandbox_count_refusal(sb, "too_many");
	}
}
