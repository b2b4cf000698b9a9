/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CLIENT_CLIENT_DIAL_H
#define CAY_CLI_CLIENT_CLIENT_DIAL_H
/*
 * client-dial - connect to the daemon: its unix socket, TCP, or TLS
 *
 * The context's url says which.  The fd does not block.  The system resolves names, with
 * its own time limits; everything else ends at the deadline (boot ns).  Addresses are tried one
 * after the other.
 */
#include "cli/client/client-tls.h"
#include "cli/client/context.h"
#include "cli/client/interrupt.h"

struct dial {
	char socket[108];               /* the local daemon's, used while the context has no name */
	struct context context;         /* name "": no context */
	struct client_tls_trust *trust; /* created on first use */
	bool checks_port_owner;         /* send the token to a local cay-edge only */
	const char *hint;               /* what to do about the last failure, or NULL */
};

/* Whether calls go to a context's url instead of the local socket. */
static inline bool dial_is_remote(const struct dial *d)
{
	return d->context.name[0] != 0;
}

void dial_fini(struct dial *d);
[[nodiscard]] int dial_connect(struct dial *d, uint64_t deadline, struct interrupt *intr,
			       int *ret_fd, struct client_tls **ret_tls, struct cay_err *err);
/* Bytes moved without blocking; tls NULL: plain.  0: the peer's end; -EAGAIN: none. */
[[nodiscard]] ssize_t dial_read(int fd, struct client_tls *tls, void *to, size_t n);
[[nodiscard]] ssize_t dial_write(int fd, struct client_tls *tls, const void *from, size_t n);
#endif
