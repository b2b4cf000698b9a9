/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CLIENT_CLIENT_TLS_H
#define CAY_CLI_CLIENT_CLIENT_TLS_H
/*
 * secure - TLS over a connected socket, as a client; OpenSSL
 *
 * TLS 1.2 and 1.3.  The other side's certificate must lead to somebody who is believed
 * and be for the host that was asked for: by name, or by an IP address of its own when
 * the host is one.  There is no way to leave that out.
 *
 * Nothing blocks: what OpenSSL waits for is told by client_tls_poll_events(), and bytes it holds
 * already, which poll() cannot see, by client_tls_has_buffered().
 */
#include <sys/types.h>

#include "base/err.h"
#include "cli/client/url.h"

/* Who is believed: made once, used by every connection. */
struct client_tls_trust;
struct client_tls;

/* ca: a file of certificates (PEM), or "": those of the system. */
[[nodiscard]] int client_tls_trust_create(const char *ca, struct client_tls_trust **ret,
					  struct cay_err *err);
void client_tls_trust_free(struct client_tls_trust *t);

/* fd is the caller's and does not block. */
[[nodiscard]] int client_tls_create(const struct client_tls_trust *t, int fd, const struct url *to,
				    struct client_tls **ret, struct cay_err *err);
/* NULL is fine.  Says goodbye when that does not block. */
void client_tls_free(struct client_tls *s);

/* Why there is no secure connection; client-dial.c has the hints. */
enum client_tls_failure {
	CLIENT_TLS_OTHER,
	CLIENT_TLS_PLAIN,      /* what answered is not TLS */
	CLIENT_TLS_UNKNOWN_CA, /* signed by nobody who is believed */
	CLIENT_TLS_EXPIRED,
	CLIENT_TLS_NOT_YET_VALID, /* not valid yet */
	CLIENT_TLS_WRONG_HOST,    /* for other hosts */
	CLIENT_TLS_NUM_FAILURES
};

/* 0: it stands; -EAGAIN: after client_tls_poll_events(). */
[[nodiscard]] int client_tls_handshake(struct client_tls *s, enum client_tls_failure *ret_why,
				       struct cay_err *err);
/* Bytes moved; 0: the other side said it ends; -EAGAIN; -ECONNRESET: it just ended. */
[[nodiscard]] ssize_t client_tls_read(struct client_tls *s, void *to, size_t n);
[[nodiscard]] ssize_t client_tls_write(struct client_tls *s, const void *from, size_t n);
/* What the last call that had -EAGAIN waits for. */
short client_tls_poll_events(const struct client_tls *s);
bool client_tls_has_buffered(const struct client_tls *s);
#endif
