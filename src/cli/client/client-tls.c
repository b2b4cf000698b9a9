/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/client-tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"

struct client_tls_trust {
	SSL_CTX *ctx;
	const char *ca; /* the caller's */
};

struct client_tls {
	SSL *ssl;
	const struct client_tls_trust *trust;
	char at[URL_MAX]; /* host and port, for messages */
	char detail[128]; /* of a refused certificate: its names, or its date */
	short events;
	bool failed; /* OpenSSL forbids SSL_shutdown() then */
};

/* What to report of a refused certificate; text NULL: it has no detail. */
static const struct {
	int code;
	enum client_tls_failure why;
	const char *text;
} refusals[] = {
	{ X509_V_ERR_CERT_HAS_EXPIRED, CLIENT_TLS_EXPIRED, "expired on" },
	{ X509_V_ERR_CERT_NOT_YET_VALID, CLIENT_TLS_NOT_YET_VALID, "is not valid before" },
	{ X509_V_ERR_HOSTNAME_MISMATCH, CLIENT_TLS_WRONG_HOST, "is not for it, but for" },
	{ X509_V_ERR_IP_ADDRESS_MISMATCH, CLIENT_TLS_WRONG_HOST, "is not for it, but for" },
	{ X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, CLIENT_TLS_UNKNOWN_CA, NULL },
	{ X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, CLIENT_TLS_UNKNOWN_CA, NULL },
	{ X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, CLIENT_TLS_UNKNOWN_CA, NULL },
	{ X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, CLIENT_TLS_UNKNOWN_CA, NULL },
	{ X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, CLIENT_TLS_UNKNOWN_CA, NULL },
	{ X509_V_ERR_CERT_SIGNATURE_FAILURE, CLIENT_TLS_UNKNOWN_CA, NULL },
};

static int client_tls_format_name(const GENERAL_NAME *name, struct buf *out)
{
	const ASN1_STRING *s = name->type == GEN_DNS ? name->d.dNSName : name->d.iPAddress;
	const unsigned char *p = ASN1_STRING_get0_data(s);
	int n = ASN1_STRING_length(s);

	if (out->len && buf_puts(out, ", ") < 0)
		return -ENOBUFS;
	if (name->type == GEN_DNS)
		return buf_append(out, p, (size_t)n);
	if (n == 4)
		return buf_printf(out, "%u.%u.%u.%u", p[0], p[1], p[2], p[3]);
	return buf_puts(out, "an IPv6 address");
}

/* The names are not trusted: they are bounded here and escaped when printed. */
static void client_tls_format_names(const X509 *cert, struct buf *out)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	int r = 0;

	out->max -= sizeof(" ...") - 1;
	for (int i = 0; r >= 0 && i < sk_GENERAL_NAME_num(names); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
		size_t before = out->len;

		if (name->type == GEN_DNS || name->type == GEN_IPADD)
			r = client_tls_format_name(name, out);
		if (r < 0)
			buf_truncate(out, before);
	}
	out->max += sizeof(" ...") - 1;
	GENERAL_NAMES_free(names);
	if (r < 0 || !out->len)
		(void)!buf_puts(out, r < 0 ? " ..." : "no host");
}

static void client_tls_format_time(const ASN1_TIME *t, struct buf *out)
{
	struct tm tm;

	if (ASN1_TIME_to_tm(t, &tm) != 1 ||
	    buf_printf(out, "%04d-%02d-%02d", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday) < 0)
		(void)!buf_puts(out, "an unknown date");
}

/* Keep the detail of the first failure; never override it. */
static int on_client_tls_verify(int ok, X509_STORE_CTX *store)
{
	const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct client_tls *s = SSL_get_app_data(ssl);
	const X509 *cert = X509_STORE_CTX_get_current_cert(store);
	auto_buf text = BUF_INIT(sizeof(s->detail) - 1);
	int code = X509_STORE_CTX_get_error(store);

	if (ok || !cert || s->detail[0])
		return ok;
	if (code == X509_V_ERR_CERT_HAS_EXPIRED)
		client_tls_format_time(X509_get0_notAfter(cert), &text);
	else if (code == X509_V_ERR_CERT_NOT_YET_VALID)
		client_tls_format_time(X509_get0_notBefore(cert), &text);
	else if (code == X509_V_ERR_HOSTNAME_MISMATCH || code == X509_V_ERR_IP_ADDRESS_MISMATCH)
		client_tls_format_names(cert, &text);
	memcpy(s->detail, buf_str(&text), text.len);
	s->detail[text.len] = 0;
	return ok;
}

static int client_tls_fail_ca(const char *ca, struct cay_err *err)
{
	unsigned long e = ERR_peek_last_error();
	const char *why =
		ERR_SYSTEM_ERROR(e) ? strerror(ERR_GET_REASON(e)) : ERR_reason_error_string(e);
	int r = cay_fail(err, CAY_E_INVALID, "read certificates (PEM) from %s: %s",
			 ca[0] ? ca : "the system", why ? why : "not usable");

	ERR_clear_error();
	return r;
}

static SSL_CTX *client_tls_create_ctx(void)
{
	static const unsigned char protocols[] = "\x08http/1.1";
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

	if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1 ||
	    SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1 ||
	    SSL_CTX_set_alpn_protos(ctx, protocols, sizeof(protocols) - 1) != 0) {
		SSL_CTX_free(ctx);
		return NULL;
	}
	(void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	/* bytes to be sent again may have moved meanwhile */
	(void)SSL_CTX_set_mode(ctx,
			       SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, on_client_tls_verify);
	return ctx;
}

/* A user who can change this file decides which servers get the token. */
static int client_tls_check_ca(const char *ca, struct cay_err *err)
{
	auto_buf dir = BUF_INIT(PATH_MAX);
	const char *slash = strrchr(ca, '/');
	struct stat file, at;

	if (!slash || buf_append(&dir, ca, (size_t)(slash - ca) + 1) < 0)
		return cay_fail(err, CAY_E_INVALID, "'%s' is not an absolute path", ca);
	if (stat(ca, &file) < 0 || stat(dir.data, &at) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "open '%s'", ca);
	if ((file.st_uid && file.st_uid != geteuid()) || file.st_mode & 022 ||
	    (at.st_uid && at.st_uid != geteuid()) || at.st_mode & 022)
		return cay_fail(err, CAY_E_INVALID,
				"other users may write to '%s' or its directory: keep it where "
				"only you can write",
				ca);
	return 0;
}

int client_tls_trust_create(const char *ca, struct client_tls_trust **ret, struct cay_err *err)
{
	struct client_tls_trust *t = calloc(1, sizeof(*t));
	int r = 0;

	if (!t)
		return cay_no_memory(err);
	*t = (struct client_tls_trust){ client_tls_create_ctx(), ca };
	if (!t->ctx)
		r = cay_no_memory(err);
	else if (ca[0] && client_tls_check_ca(ca, err) < 0)
		r = -EINVAL;
	else if ((ca[0] ? SSL_CTX_load_verify_file(t->ctx, ca)
			: SSL_CTX_set_default_verify_paths(t->ctx)) != 1)
		r = client_tls_fail_ca(ca, err);
	if (r < 0) {
		client_tls_trust_free(t);
		return r;
	}
	*ret = t;
	return 0;
}

void client_tls_trust_free(struct client_tls_trust *t)
{
	if (t)
		SSL_CTX_free(t->ctx);
	free(t);
}

/* Verify the host by subjectAltName only, never by the subject. */
static bool client_tls_set_expected_host(SSL *ssl, const struct url *to)
{
	if (to->address)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), to->host) == 1;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
				       X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	return SSL_set1_host(ssl, to->host) == 1 && SSL_set_tlsext_host_name(ssl, to->host) == 1;
}

int client_tls_create(const struct client_tls_trust *t, int fd, const struct url *to,
		      struct client_tls **ret, struct cay_err *err)
{
	struct client_tls *s = calloc(1, sizeof(*s));

	if (!s)
		return cay_no_memory(err);
	*s = (struct client_tls){ .ssl = SSL_new(t->ctx), .trust = t };
	url_format_authority(to, s->at);
	if (!s->ssl || SSL_set_app_data(s->ssl, s) != 1 || SSL_set_fd(s->ssl, fd) != 1 ||
	    !client_tls_set_expected_host(s->ssl, to)) {
		ERR_clear_error();
		client_tls_free(s);
		return cay_no_memory(err);
	}
	SSL_set_connect_state(s->ssl);
	*ret = s;
	return 0;
}

void client_tls_free(struct client_tls *s)
{
	if (s && s->ssl && SSL_is_init_finished(s->ssl) && !s->failed)
		(void)SSL_shutdown(s->ssl);
	ERR_clear_error();
	if (s)
		SSL_free(s->ssl);
	free(s);
}

/* -EAGAIN and s->events, 0 after an orderly end, or -ECONNRESET. */
static int client_tls_map_result(struct client_tls *s, int r)
{
	int e = SSL_get_error(s->ssl, r);

	if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE) {
		s->events = e == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
		return -EAGAIN;
	}
	if (e == SSL_ERROR_ZERO_RETURN)
		return 0;
	s->failed = true;
	return -ECONNRESET;
}

static int client_tls_fail_certificate(const struct client_tls *s, long code,
				       enum client_tls_failure *ret_why, struct cay_err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		if (refusals[i].code != code)
			continue;
		*ret_why = refusals[i].why;
		if (refusals[i].text)
			return cay_fail(err, CAY_E_FORBIDDEN, "the certificate of %s %s %s", s->at,
					refusals[i].text, s->detail);
		return cay_fail(err, CAY_E_FORBIDDEN,
				"the certificate of %s is not signed by a CA %s%s", s->at,
				s->trust->ca[0] ? "in " : "this machine trusts", s->trust->ca);
	}
	return cay_fail(err, CAY_E_FORBIDDEN, "the certificate of %s is refused: %s", s->at,
			X509_verify_cert_error_string(code));
}

static int client_tls_explain_failure(const struct client_tls *s, enum client_tls_failure *ret_why,
				      struct cay_err *err)
{
	unsigned long e = ERR_peek_error();
	int reason = ERR_GET_LIB(e) == ERR_LIB_SSL ? ERR_GET_REASON(e) : 0;
	long code = SSL_get_verify_result(s->ssl);

	*ret_why = CLIENT_TLS_OTHER;
	if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && code != X509_V_OK)
		return client_tls_fail_certificate(s, code, ret_why, err);
	if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
	    reason == SSL_R_PACKET_LENGTH_TOO_LONG) {
		*ret_why = CLIENT_TLS_PLAIN;
		return cay_fail(err, CAY_E_MISBEHAVED, "the server at %s does not speak TLS",
				s->at);
	}
	if (!reason || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)
		return cay_fail(err, CAY_E_UNAVAILABLE,
				"%s closed the connection during the TLS handshake", s->at);
	return cay_fail(err, CAY_E_MISBEHAVED, "TLS handshake with %s failed: %s", s->at,
			ERR_reason_error_string(e));
}

int client_tls_handshake(struct client_tls *s, enum client_tls_failure *why, struct cay_err *err)
{
	int r;

	ERR_clear_error();
	r = SSL_do_handshake(s->ssl);
	if (r == 1)
		return 0;
	r = client_tls_map_result(s, r);
	if (r == -EAGAIN)
		return r;
	r = client_tls_explain_failure(s, why, err);
	ERR_clear_error();
	return r;
}

ssize_t client_tls_read(struct client_tls *s, void *to, size_t n)
{
	size_t got = 0;
	int r;

	s->events = 0;
	ERR_clear_error();
	r = SSL_read_ex(s->ssl, to, n, &got);
	r = r == 1 ? 0 : client_tls_map_result(s, r);
	ERR_clear_error();
	return r < 0 ? r : (ssize_t)got;
}

ssize_t client_tls_write(struct client_tls *s, const void *from, size_t n)
{
	size_t done = 0;
	int r;

	s->events = 0;
	ERR_clear_error();
	r = SSL_write_ex(s->ssl, from, n, &done);
	r = r == 1 ? 0 : client_tls_map_result(s, r);
	ERR_clear_error();
	if (r < 0)
		return r;
	return done ? (ssize_t)done : -EPIPE;
}

short client_tls_poll_events(const struct client_tls *s)
{
	return s->events;
}

bool client_tls_has_buffered(const struct client_tls *s)
{
	return SSL_pending(s->ssl) > 0;
}
