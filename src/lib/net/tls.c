/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls.h"

#include <assert.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "net/conn-filter.h"

#define RECORD_MAX KIB(16)
/* one write of the owner, with the head and tag of every record */
#define CIPHER_MAX MIB(9)
#define EARLY_MAX KIB(64)
#define OUR_BIO 200          /* a fixed number: BIO_get_new_index() would run out */
#define CIPHER_KEPT KIB(128) /* a larger buffer is freed after use */

static const unsigned char tls_alpn[] = "\x08http/1.1";

struct tls_layer {
	struct conn_layer conn; /* first */
	SSL_CTX *ctx;
	BIO_METHOD *bio;
	uint64_t handshake_ms;
	bool client, by_address;
	bool derived; /* ctx and bio are of another layer */
	char *host;
};

struct tls {
	struct conn *conn;
	SSL *ssl;
	uv_timer_t timer;       /* deadline of the handshake; then resumes input */
	struct slice wire;      /* read, not decrypted */
	struct buf unprocessed; /* the same, while the owner does not read */
	struct buf early;       /* written by the owner before the handshake ends */
	bool ready, wire_ended, peer_done, failed, finish_early;
	bool busy; /* inside OpenSSL, or the owner called from here */
};

/* OpenSSL reads from and writes to a BIO instead of a socket. */
static int tls_bio_read(BIO *b, char *p, int n)
{
	struct tls *t = BIO_get_data(b);
	size_t k = (size_t)n < t->wire.n ? (size_t)n : t->wire.n;

	BIO_clear_retry_flags(b);
	if (n <= 0)
		return 0;
	if (!k) {
		if (!t->wire_ended)
			BIO_set_retry_read(b);
		return t->wire_ended ? 0 : -1;
	}
	memcpy(p, t->wire.p, k);
	t->wire.p += k;
	t->wire.n -= k;
	return (int)k;
}

static int tls_bio_write(BIO *b, const char *p, int n)
{
	struct tls *t = BIO_get_data(b);

	BIO_clear_retry_flags(b);
	return n > 0 && buf_append(&t->conn->shared->cipher, p, (size_t)n) < 0 ? -1 : n;
}

static long tls_bio_ctrl(BIO *b, int cmd, long, void *)
{
	const struct tls *t = BIO_get_data(b);

	return cmd == BIO_CTRL_FLUSH || (cmd == BIO_CTRL_EOF && t->wire_ended && !t->wire.n);
}

/* Send OpenSSL's output. */
static int tls_send_cipher(struct tls *t)
{
	struct buf *b = &t->conn->shared->cipher;
	uv_buf_t v = uv_buf_init(b->data, (unsigned)b->len);
	int r = b->len ? conn_wire_write(t->conn, &v, 1) : 0;

	buf_clear(b);
	if (b->cap > CIPHER_KEPT) {
		buf_fini(b);
		b->max = CIPHER_MAX;
	}
	return r;
}

static void tls_fail(struct tls *t, enum cay_code code, const char *what)
{
	struct cay_err err = {};

	t->failed = true;
	(void)uv_timer_stop(&t->timer);
	(void)cay_fail(&err, code, "%s", what);
	conn_notify_end(t->conn, &err);
}

static void tls_fail_with_openssl_error(struct tls *t)
{
	unsigned long e = ERR_peek_error();
	long verified = SSL_get_verify_result(t->ssl);
	const char *why = e ? ERR_reason_error_string(e) : NULL;

	if (verified != X509_V_OK)
		why = X509_verify_cert_error_string(verified);
	ERR_clear_error();
	/* send the alert, if there is one */
	(void)tls_send_cipher(t);
	tls_fail(t, verified != X509_V_OK ? CAY_E_FORBIDDEN : CAY_E_UNAVAILABLE,
		 why ? why : "not TLS");
}

static int tls_write_plain(struct tls *t, const char *p, size_t n)
{
	size_t done = 0;

	/* without renegotiation a write never waits for a read */
	if (n && SSL_write_ex(t->ssl, p, n, &done) != 1) {
		t->failed = true;
		ERR_clear_error();
		buf_clear(&t->conn->shared->cipher); /* the buffer is shared */
		return -EPIPE;
	}
	return 0;
}

static void tls_do_handshake(struct tls *t)
{
	int r;

	ERR_clear_error();
	r = SSL_do_handshake(t->ssl);
	if (r != 1 && SSL_get_error(t->ssl, r) == SSL_ERROR_WANT_READ) {
		if (tls_send_cipher(t) < 0 || t->wire_ended)
			tls_fail(t, CAY_E_UNAVAILABLE, "the peer left during the handshake");
		return;
	}
	if (r != 1) {
		tls_fail_with_openssl_error(t);
		return;
	}
	t->ready = true;
	(void)uv_timer_stop(&t->timer);
	r = tls_write_plain(t, t->early.data, t->early.len);
	buf_fini(&t->early);
	if (r < 0 || tls_send_cipher(t) < 0) {
		tls_fail(t, CAY_E_UNAVAILABLE, "the peer left");
		return;
	}
	if (t->finish_early)
		t->conn->filter->shutdown(t->conn);
	if (t->conn->events->ready)
		t->conn->events->ready(t->conn);
}

/* Fill the buffer: one call of the owner for many records.  False when there is no more input. */
static bool tls_decrypt_input(struct tls *t)
{
	char *plain = t->conn->shared->plain;
	size_t n = 0, got;
	int e = SSL_ERROR_NONE;

	ERR_clear_error();
	while (n < CONN_READ && e == SSL_ERROR_NONE) {
		int r = SSL_read_ex(t->ssl, plain + n, CONN_READ - n, &got);

		if (r == 1)
			n += got;
		else
			e = SSL_get_error(t->ssl, r);
	}
	/* replies of TLS itself: a key update, an alert */
	if (t->conn->shared->cipher.len && tls_send_cipher(t) < 0)
		e = e == SSL_ERROR_WANT_READ ? SSL_ERROR_SYSCALL : e;
	if (n)
		t->conn->events->read(t->conn, (struct slice){ plain, n });
	if (e == SSL_ERROR_NONE)
		return true;
	if (e == SSL_ERROR_ZERO_RETURN) {
		t->peer_done = true;
		conn_notify_end(t->conn, NULL);
	} else if (t->wire_ended) {
		ERR_clear_error();
		tls_fail(t, CAY_E_UNAVAILABLE,
			 "the peer closed the connection without close_notify");
	} else if (e != SSL_ERROR_WANT_READ) {
		tls_fail_with_openssl_error(t);
	}
	return false;
}

static bool tls_is_finished(const struct tls *t)
{
	return t->failed || t->peer_done || t->conn->closing;
}

static void tls_process_input(struct tls *t)
{
	if (t->busy)
		return;
	t->busy = true;
	if (!tls_is_finished(t) && !t->ready)
		tls_do_handshake(t);
	while (!tls_is_finished(t) && t->ready && t->conn->want_read && tls_decrypt_input(t))
		;
	t->busy = false;
	if (!tls_is_finished(t))
		conn_wire_set_reading(t->conn, !t->wire_ended && (!t->ready || t->conn->want_read));
}

static void tls_filter_input(struct conn *c, struct slice wire)
{
	struct tls *t = c->filter_data;

	assert(!t->unprocessed.len); /* the socket is not read while some is left */
	if (!wire.n) {
		t->wire_ended = true;
		conn_wire_set_reading(c, false);
	}
	t->wire = wire;
	tls_process_input(t);
	wire = t->wire;
	t->wire = (struct slice){};
	t->unprocessed.max = CONN_READ;
	if (wire.n && !tls_is_finished(t) && buf_append(&t->unprocessed, wire.p, wire.n) < 0)
		tls_fail(t, CAY_E_NO_MEMORY, "out of memory");
}

static void on_tls_resume_timer(uv_timer_t *timer)
{
	struct conn *c = timer->data;
	struct tls *t = c->filter_data;

	if (tls_is_finished(t) || !c->want_read)
		return;
	t->wire = (struct slice){ t->unprocessed.data, t->unprocessed.len };
	tls_process_input(t);
	if (t->unprocessed.len)
		buf_consume(&t->unprocessed, t->unprocessed.len - t->wire.n);
	if (!t->unprocessed.len)
		buf_fini(&t->unprocessed);
	t->wire = (struct slice){};
}

/* Deliver kept input from the loop: the caller may be inside a read of another connection, which
 * uses the same buffer. */
static void tls_filter_update_reading(struct conn *c)
{
	struct tls *t = c->filter_data;

	if (!t->ready || tls_is_finished(t) || t->busy)
		return;
	if (!c->want_read)
		conn_wire_set_reading(c, false);
	else if (t->unprocessed.len || SSL_has_pending(t->ssl) || t->wire_ended)
		(void)uv_timer_start(&t->timer, on_tls_resume_timer, 0, 0);
	else
		conn_wire_set_reading(c, true);
}

/* Join small pieces: each would be a record, with a head and a tag. */
static int tls_write_joined(struct tls *t, const uv_buf_t *v, unsigned n)
{
	char *joined = t->conn->shared->plain + CONN_READ;
	size_t len = 0;
	int r = 0;

	for (unsigned i = 0; i < n && r >= 0; i++) {
		if (len + v[i].len > RECORD_MAX) {
			r = tls_write_plain(t, joined, len);
			len = 0;
		}
		if (r >= 0 && v[i].len > RECORD_MAX) {
			r = tls_write_plain(t, v[i].base, v[i].len);
		} else if (r >= 0 && v[i].len) {
			memcpy(joined + len, v[i].base, v[i].len);
			len += v[i].len;
		}
	}
	return r < 0 ? r : tls_write_plain(t, joined, len);
}

static int tls_filter_output(struct conn *c, const uv_buf_t *v, unsigned n)
{
	struct tls *t = c->filter_data;
	int r = 0;

	if (t->failed || c->closing)
		return -EPIPE;
	if (t->ready) {
		ERR_clear_error();
		r = n == 1 ? tls_write_plain(t, v->base, v->len) : tls_write_joined(t, v, n);
		return r < 0 ? r : tls_send_cipher(t);
	}
	for (unsigned i = 0; i < n && r >= 0; i++)
		r = buf_append(&t->early, v[i].base, v[i].len);
	return r;
}

static void tls_filter_shutdown(struct conn *c)
{
	struct tls *t = c->filter_data;

	if (!t->ready) {
		t->finish_early = true;
		return;
	}
	if (!t->failed) {
		ERR_clear_error();
		(void)SSL_shutdown(t->ssl);
		ERR_clear_error();
		(void)tls_send_cipher(t);
	}
	conn_wire_shutdown(c);
}

static void tls_filter_close(struct conn *c)
{
	struct tls *t = c->filter_data;

	uv_close((uv_handle_t *)&t->timer, on_conn_handle_closed);
}

static void tls_filter_free(struct conn *c)
{
	struct tls *t = c->filter_data;

	SSL_free(t->ssl);
	buf_fini(&t->unprocessed);
	buf_fini(&t->early);
	free(t);
}

static void on_tls_handshake_timeout(uv_timer_t *timer)
{
	const struct conn *c = timer->data;

	tls_fail(c->filter_data, CAY_E_TIMEOUT, "the handshake took too long");
}

/* A client starts the handshake, from the loop like every event of its owner. */
static void on_tls_client_start_handshake(uv_timer_t *timer)
{
	const struct conn *c = timer->data;
	struct tls *t = c->filter_data;
	const struct tls_layer *l = SSL_get_app_data(t->ssl);

	(void)uv_timer_start(timer, on_tls_handshake_timeout, l->handshake_ms, 0);
	tls_process_input(t);
}

static int tls_set_expected_host(SSL *ssl, const struct tls_layer *l)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(ssl);

	if (l->by_address)
		return X509_VERIFY_PARAM_set1_ip_asc(param, l->host);
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(ssl, l->host) && SSL_set_tlsext_host_name(ssl, l->host) == 1;
}

static int tls_create_ssl(struct tls *t, const struct tls_layer *l)
{
	BIO *bio;

	t->ssl = SSL_new(l->ctx);
	bio = t->ssl ? BIO_new(l->bio) : NULL;
	if (!bio)
		return -ENOMEM;
	BIO_set_data(bio, t);
	BIO_set_init(bio, 1);
	SSL_set_bio(t->ssl, bio, bio);
	if (SSL_set_app_data(t->ssl, (void *)(uintptr_t)l) != 1 ||
	    (l->client && tls_set_expected_host(t->ssl, l) != 1))
		return -ENOMEM;
	if (l->client)
		SSL_set_connect_state(t->ssl);
	else
		SSL_set_accept_state(t->ssl);
	return 0;
}

static int tls_filter_attach(const struct conn_layer *layer, struct conn *c)
{
	static const struct conn_filter filter = { .input = tls_filter_input,
						   .output = tls_filter_output,
						   .update_reading = tls_filter_update_reading,
						   .shutdown = tls_filter_shutdown,
						   .close = tls_filter_close,
						   .free = tls_filter_free };
	const struct tls_layer *l = (const struct tls_layer *)(const void *)layer;
	struct tls *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	c->shared->cipher.max = CIPHER_MAX;
	if (!c->shared->plain)
		c->shared->plain = malloc(CONN_READ + RECORD_MAX);
	r = c->shared->plain ? tls_create_ssl(t, l) : -ENOMEM;
	ERR_clear_error();
	if (r < 0) {
		SSL_free(t->ssl);
		free(t);
		return r;
	}
	t->conn = c;
	t->early.max = EARLY_MAX;
	(void)uv_timer_init(c->shared->loop, &t->timer);
	t->timer.data = c;
	c->open++;
	c->filter = &filter;
	c->filter_data = t;
	(void)uv_timer_start(&t->timer,
			     l->client ? on_tls_client_start_handshake : on_tls_handshake_timeout,
			     l->client ? 0 : l->handshake_ms, 0);
	conn_wire_set_reading(c, true);
	return 0;
}

static int tls_report_bad_file(struct cay_err *err, const char *what, const char *file)
{
	unsigned long e = ERR_peek_last_error();
	const char *why = e ? ERR_reason_error_string(e) : NULL;
	int r = cay_fail(err, CAY_E_INVALID, "%s '%s': %s", what, file, why ? why : "not usable");

	ERR_clear_error();
	return r;
}

static int on_tls_key_password(char *, int, int, void *)
{
	return 0; /* else OpenSSL prompts at the terminal */
}

static int on_tls_alpn_select(SSL *, const unsigned char **ret, unsigned char *ret_n,
			      const unsigned char *in, unsigned n, void *)
{
	unsigned char *chosen;

	if (SSL_select_next_proto(&chosen, ret_n, tls_alpn, sizeof(tls_alpn) - 1, in, n) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*ret = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static void tls_layer_free(struct tls_layer *l)
{
	if (!l)
		return;
	if (!l->derived) {
		SSL_CTX_free(l->ctx);
		BIO_meth_free(l->bio);
	}
	free(l->host);
	free(l);
}

static struct tls_layer *tls_layer_new(bool client, uint64_t handshake_ms)
{
	struct tls_layer *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	*l = (struct tls_layer){ .conn = { .attach = tls_filter_attach },
				 .client = client,
				 .handshake_ms = handshake_ms,
				 .ctx = SSL_CTX_new(client ? TLS_client_method()
							   : TLS_server_method()),
				 .bio = BIO_meth_new(BIO_TYPE_SOURCE_SINK | OUR_BIO, "conn") };
	if (!l->ctx || !l->bio || BIO_meth_set_read(l->bio, tls_bio_read) != 1 ||
	    BIO_meth_set_write(l->bio, tls_bio_write) != 1 ||
	    BIO_meth_set_ctrl(l->bio, tls_bio_ctrl) != 1 ||
	    SSL_CTX_set_min_proto_version(l->ctx, TLS1_2_VERSION) != 1 ||
	    SSL_CTX_set_cipher_list(l->ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1) {
		tls_layer_free(l);
		return NULL;
	}
	(void)SSL_CTX_set_options(l->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	(void)SSL_CTX_set_mode(l->ctx, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_default_passwd_cb(l->ctx, on_tls_key_password);
	(void)SSL_CTX_set_session_cache_mode(l->ctx, SSL_SESS_CACHE_OFF);
	return l;
}

int tls_server_new(const struct tls_server_conf *conf, struct conn_layer **ret, struct cay_err *err)
{
	struct tls_layer *l = tls_layer_new(false, conf->handshake_ms);
	int r = 0;

	if (!l)
		return cay_no_memory(err);
	if (SSL_CTX_use_certificate_chain_file(l->ctx, conf->cert_file) != 1)
		r = tls_report_bad_file(err, "certificate", conf->cert_file);
	else if (SSL_CTX_use_PrivateKey_file(l->ctx, conf->key_file, SSL_FILETYPE_PEM) != 1 ||
		 SSL_CTX_check_private_key(l->ctx) != 1)
		r = tls_report_bad_file(err, "key", conf->key_file);
	if (r < 0) {
		tls_layer_free(l);
		return r;
	}
	SSL_CTX_set_alpn_select_cb(l->ctx, on_tls_alpn_select, NULL);
	*ret = &l->conn;
	return 0;
}

int tls_server_new_bare(uint64_t handshake_ms, struct conn_layer **ret, struct cay_err *err)
{
	struct tls_layer *l = tls_layer_new(false, handshake_ms);

	if (!l)
		return cay_no_memory(err);
	SSL_CTX_set_alpn_select_cb(l->ctx, on_tls_alpn_select, NULL);
	*ret = &l->conn;
	return 0;
}

int tls_certified_attach(const struct conn_layer *layer, struct conn *c)
{
	const struct tls_certified *l = (const struct tls_certified *)(const void *)layer;
	int r = tls_filter_attach(l->server, c);
	const struct tls *t = c->filter_data;

	if (r >= 0 && (SSL_use_certificate(t->ssl, l->cert) != 1 ||
		       SSL_use_PrivateKey(t->ssl, l->key) != 1)) {
		ERR_clear_error();
		r = -ENOMEM; /* its owner closes the connection */
	}
	return r;
}

int tls_client_new(const struct tls_client_conf *conf, struct conn_layer **ret, struct cay_err *err)
{
	struct tls_layer *l = tls_layer_new(true, conf->handshake_ms);
	unsigned char address[sizeof(struct in6_addr)];
	int ok;

	if (l)
		l->host = strdup(conf->host);
	if (!l || !l->host ||
	    SSL_CTX_set_alpn_protos(l->ctx, tls_alpn, sizeof(tls_alpn) - 1) != 0) {
		tls_layer_free(l);
		return cay_no_memory(err);
	}
	l->by_address = inet_pton(AF_INET, conf->host, address) == 1 ||
			inet_pton(AF_INET6, conf->host, address) == 1;
	SSL_CTX_set_verify(l->ctx, SSL_VERIFY_PEER, NULL);
	if (!conf->ca_file)
		ok = SSL_CTX_set_default_verify_paths(l->ctx);
	else
		ok = !conf->ca_file[0] || SSL_CTX_load_verify_file(l->ctx, conf->ca_file) == 1;
	if (ok == 1 && conf->more_ca_file &&
	    SSL_CTX_load_verify_file(l->ctx, conf->more_ca_file) != 1) {
		tls_layer_free(l);
		return tls_report_bad_file(err, "certificates", conf->more_ca_file);
	}
	if (ok != 1) {
		tls_layer_free(l);
		return tls_report_bad_file(err, "certificates",
					   conf->ca_file ? conf->ca_file : "of the system");
	}
	*ret = &l->conn;
	return 0;
}

static int tls_layer_set_host(struct tls_layer *l, const char *host)
{
	l->host = strdup(host);
	return l->host ? 0 : -ENOMEM;
}

int tls_client_derive(const struct conn_layer *layer, const char *host, struct conn_layer **ret)
{
	const struct tls_layer *from = (const struct tls_layer *)(const void *)layer;
	struct tls_layer *l = malloc(sizeof(*l));

	if (!l)
		return -ENOMEM;
	*l = *from;
	l->derived = true;
	l->by_address = false;
	if (tls_layer_set_host(l, host) < 0) {
		tls_layer_free(l);
		return -ENOMEM;
	}
	*ret = &l->conn;
	return 0;
}

void tls_free(struct conn_layer *layer)
{
	tls_layer_free((struct tls_layer *)(void *)layer);
}
