/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CLIENT_CLIENT_TLS_H
#define CAY_CLI_CLIENT_CLIENT_TLS_H
/*
 * client-tls - TLS 1.2 and 1.3 over a connected socket, with OpenSSL
 *
 * The server's certificate must chain to a trusted CA and name the host, or the IP
 * address when the url has one.  There is no option to skip that.
 *
 * Nothing blocks: client_tls_poll_events() returns what OpenSSL waits for, and
 * client_tls_has_buffered() whether it holds bytes that poll() cannot see.
 */
#include <sys/types.h>

#include "base/err.h"
#include "cli/client/url.h"

/* Trusted CAs, shared by all connections. */
struct client_tls_trust;
struct client_tls;

/* ca: a file of certificates (PEM), or "": the system's. */
[[nodiscard]] int client_tls_trust_create(const char *ca, struct client_tls_trust **ret,
					  struct cay_err *err);
void client_tls_trust_free(struct client_tls_trust *t);

/* fd remains the caller's; it does not block. */
[[nodiscard]] int client_tls_create(const struct client_tls_trust *t, int fd, const struct url *to,
				    struct client_tls **ret, struct cay_err *err);
/* NULL is allowed.  Sends close_notify if that does not block. */
void client_tls_free(struct client_tls *s);

/* Why the handshake failed; client-dial.c has the hints. */
enum client_tls_failure {
	CLIENT_TLS_OTHER,
	CLIENT_TLS_PLAIN,      /* the server does not speak TLS */
	CLIENT_TLS_UNKNOWN_CA, /* not signed by a trusted CA */
	CLIENT_TLS_EXPIRED,
	CLIENT_TLS_NOT_YET_VALID,
	CLIENT_TLS_WRONG_HOST,
	CLIENT_TLS_NUM_FAILURES
};

/* 0: done; -EAGAIN: poll for client_tls_poll_events() and call again. */
[[nodiscard]] int client_tls_handshake(struct client_tls *s, enum client_tls_failure *why,
				       struct cay_err *err);
/* Bytes moved; 0: the peer sent close_notify; -EAGAIN; -ECONNRESET: it did not. */
[[nodiscard]] ssize_t client_tls_read(struct client_tls *s, void *to, size_t n);
[[nodiscard]] ssize_t client_tls_write(struct client_tls *s, const void *from, size_t n);
/* What the last call that returned -EAGAIN waits for. */
short client_tls_poll_events(const struct client_tls *s);
bool client_tls_has_buffered(const struct client_tls *s);
#endif
