/* SPDX-License-Identifier: Apache-2.0 */
/* broker-link - gives connected sockets to cay-broker, which does TLS with hosts
 *
 * One connection to its socket, opened when it is needed first and again after it was lost. */
#include <string.h>
#include <sys/socket.h>

#include "base/seqpacket.h"
#include "egress/egress.h"
#include "wire/broker-message.h"

/* A broker that was restarted does not have the other end: try once more. */
static int broker_send(struct egress *e, const struct broker_record *record, const int *fds)
{
	int r = -ENOTCONN;

	for (unsigned i = 0; i < 2 && r < 0 && r != -EAGAIN; i++) {
		if (e->broker_fd < 0) {
			e->broker_fd = seqpacket_connect(e->settings.run_dir, BROKER_FLOW_SOCKET);
			if (e->broker_fd < 0)
				return e->broker_fd;
			seqpacket_refuse_fds(e->broker_fd);
		}
		r = seqpacket_send_fds(e->broker_fd, record, sizeof(*record), fds, BROKER_NUM_FDS);
		if (r < 0 && r != -EAGAIN) {
			cay_closep(&e->broker_fd);
			e->broker_fd = -EBADF;
		}
	}
	return r;
}

int broker_give_socket(struct egress_sandbox *sb, const struct host_name *name, uint16_t port,
		       struct slice credential, int host)
{
	struct broker_record record;
	int pair[2], r;

	r = broker_record_init(&record, &sb->id, &sb->tenant, (struct slice){ name->text, name->n },
			       port, credential);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	r = broker_send(sb->egress, &record, (const int[BROKER_NUM_FDS]){ pair[1], host });
	cay_closep(&pair[1]);
	if (r < 0) {
		cay_closep(&pair[0]);
		log_warn(&sb->egress->log, "cannot reach cay-broker: %s", strerror(-r));
	}
	return r < 0 ? r : pair[0];
}
