/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_TLS_H
#define CAY_NET_TLS_H
/*
 * tls - the filter that makes a connection a TLS one; OpenSSL
 *
 * A library of its own (net_tls), so that cay-init does not link OpenSSL: a layer is
 * handed to server_start() or conn_open_fd() and they know nothing else of it.
 *
 * TLS 1.2 and 1.3 with OpenSSL's own choice of ciphers at security level 2, ALPN
 * "http/1.1" when the client asks for any, no renegotiation, no compression, no
 * early data.  OpenSSL never sees the socket: it reads what a read brought and
 * writes into the room's buffer, so an idle connection holds its SSL object and
 * nothing else (SSL_MODE_RELEASE_BUFFERS).
 *
 * A handshake has a deadline.  A peer that closes without close_notify is told as
 * an end that is not in good order: what came before may have been cut off.
 */
#include "net/conn.h"

struct tls_server_conf {
	const char *cert_file; /* PEM: the certificate, then those that lead to its root */
	const char *key_file;  /* PEM */
	uint64_t handshake_ms;
};

struct tls_client_conf {
	const char *ca_file; /* PEM: who is believed; NULL: those of the system */
	const char *host;    /* the name, or an address, the certificate must be for */
	uint64_t handshake_ms;
};

/* Must live as long as any connection made with it; tls_free() takes NULL. */
[[nodiscard]] int tls_server_new(const struct tls_server_conf *conf, struct conn_layer **ret,
				 struct cay_err *err);
[[nodiscard]] int tls_client_new(const struct tls_client_conf *conf, struct conn_layer **ret,
				 struct cay_err *err);
void tls_free(struct conn_layer *layer);
#endif
