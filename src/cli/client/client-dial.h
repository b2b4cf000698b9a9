/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CLIENT_CLIENT_DIAL_H
#define CAY_CLI_CLIENT_CLIENT_DIAL_H
/*
 * dial - a connection to the daemon: its socket here, TCP, or TLS
 *
 * Which of them is the context's url to say.  What comes back is an fd that does not
 * block, and for TLS what the bytes go through.  A name is resolved by the system,
 * which has limits of its own; the rest ends at the deadline.  Addresses are tried one
 * after the other.
 */
#include "cli/client/client-tls.h"
#include "cli/client/context.h"
#include "cli/client/interrupt.h"

struct dial {
	char socket[108];               /* of this machine; when the context has no name */
	struct context context;         /* name "": none */
	struct client_tls_trust *trust; /* made when it is needed */
	bool checks_port_owner;         /* the token is for cay-edge of this machine alone */
	const char *hint;               /* what to do about the last failure, or NULL */
};

/* Whether another program than the local daemon is asked. */
static inline bool dial_is_remote(const struct dial *d)
{
	return d->context.name[0] != 0;
}

void dial_fini(struct dial *d);
[[nodiscard]] int dial_connect(struct dial *d, uint64_t deadline_ns, struct interrupt *intr,
			       int *ret_fd, struct client_tls **ret_tls, struct cay_err *err);
#endif
