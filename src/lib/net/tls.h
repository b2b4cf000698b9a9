/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_TLS_H
#define CAY_NET_TLS_H
/*
 * tls - a connection filter for TLS, by OpenSSL
 *
 * A library of its own (net_tls), so that cay-init does not link OpenSSL: pass a layer to
 * server_start() or conn_open_fd().
 *
 * TLS 1.2 and 1.3 with OpenSSL's choice of ciphers at security level 2, ALPN "http/1.1" when
 * the client offers ALPN, no renegotiation, no compression, no early data.  OpenSSL never sees
 * the socket: it reads from the last read and writes into the shared buffer, so an idle
 * connection holds its SSL object and nothing else (SSL_MODE_RELEASE_BUFFERS).
 *
 * A handshake has a deadline.  One that fails by the certificate of the host ends with
 * CAY_E_FORBIDDEN.  A peer that closes without close_notify is reported as an
 * unclean end: the data before it may have been cut off.
 */
#include "net/conn-filter.h"

struct tls_server_conf {
	const char *cert_file; /* PEM: the certificate, then its chain */
	const char *key_file;  /* PEM */
	uint64_t handshake_ms;
};

struct tls_client_conf {
	const char *ca_file;      /* PEM: trusted CAs; NULL: the system's; "": none */
	const char *more_ca_file; /* PEM: CAs that are trusted as well, or NULL */
	const char *host;         /* name or address the certificate must match */
	uint64_t handshake_ms;
};

/* Must outlive every connection that uses it; tls_free() takes NULL. */
[[nodiscard]] int tls_server_new(const struct tls_server_conf *conf, struct conn_layer **ret,
				 struct cay_err *err);
[[nodiscard]] int tls_client_new(const struct tls_client_conf *conf, struct conn_layer **ret,
				 struct cay_err *err);
/* The same client for another name of a host; the layer it comes from must outlive it. */
[[nodiscard]] int tls_client_derive(const struct conn_layer *layer, const char *host,
				    struct conn_layer **ret);
/* A server without a certificate: each connection has one of its own. */
[[nodiscard]] int tls_server_new_bare(uint64_t handshake_ms, struct conn_layer **ret,
				      struct cay_err *err);
/* One connection of it; nothing here need outlive the attaching. */
struct tls_certified {
	struct conn_layer layer; /* tls_certified_attach */
	const struct conn_layer *server;
	struct x509_st *cert;
	struct evp_pkey_st *key;
};
[[nodiscard]] int tls_certified_attach(const struct conn_layer *layer, struct conn *c);
void tls_free(struct conn_layer *layer);
#endif
