/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ca - certificates of the hosts of inspected connections, by a CA that each sandbox has of its own
 *
 * The key of a CA is derived from a seed of this node and the id of the sandbox: it is stored
 * nowhere, is the same after a restart, and one sandbox's certificate is worth nothing in another.
 * The certificate of a CA is the same, byte by byte, each time it is made.
 *
 * A host gets a certificate when a connection to it was allowed.  They share one key, which lives
 * as long as this process; the last LEAVES_MAX are kept.
 */
#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/path.h"
#include "egress/egress.h"
#include "net/tls.h"

#define SEED_FILE "ca-seed"
#define SEED_LEN 32
#define WIDE_LEN 48 /* more than a scalar, so that the remainder has no bias */
#define LEAVES_MAX 1024
#define LEAF_BUCKETS 1024
#define LEAF_DAYS 30
#define LEAF_KEPT_NS (UINT64_C(24) * 3600 * NS_PER_S)
#define HANDSHAKE_MS 10000
#define DAY_S 86400
#define COMMON_NAME_MAX 64

struct leaf {
	struct leaf *next;          /* of its bucket */
	struct leaf *newer, *older; /* by their last use */
	struct id sandbox;
	struct host_name name;
	uint64_t made_ns;
	X509 *cert;
};

struct ca {
	uint8_t seed[SEED_LEN];
	EVP_PKEY *leaf_key;
	struct conn_layer *server;
	struct leaf *buckets[LEAF_BUCKETS];
	struct leaf *newest, *oldest;
	size_t n_leaves;
	uint64_t n_minted;
};

/* Keys */

static int hkdf_derive(const uint8_t *seed, const struct id *sandbox, uint8_t ret[static WIDE_LEN])
{
	static const char label[] = "cay egress ca";
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
	EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
	OSSL_PARAM params[] = {
		OSSL_PARAM_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)(uintptr_t)"SHA256", 6),
		OSSL_PARAM_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)seed, SEED_LEN),
		OSSL_PARAM_octet_string(OSSL_KDF_PARAM_SALT, (void *)(uintptr_t)label,
					sizeof(label) - 1),
		OSSL_PARAM_octet_string(OSSL_KDF_PARAM_INFO, (void *)(uintptr_t)sandbox,
					sizeof(*sandbox)),
		OSSL_PARAM_END,
	};
	int ok = ctx ? EVP_KDF_derive(ctx, ret, WIDE_LEN, params) : 0;

	EVP_KDF_CTX_free(ctx);
	EVP_KDF_free(kdf);
	return ok == 1 ? 0 : -ENOMEM;
}

/* wide mod (order - 1) + 1, and its point. */
static int scalar_derive(const uint8_t wide[static WIDE_LEN], BIGNUM *scalar, const EC_GROUP *group,
			 uint8_t *point, size_t max, size_t *ret_n)
{
	BN_CTX *ctx = BN_CTX_new();
	BIGNUM *order = ctx ? BN_dup(EC_GROUP_get0_order(group)) : NULL;
	BIGNUM *x = order ? BN_bin2bn(wide, WIDE_LEN, NULL) : NULL;
	EC_POINT *p = x ? EC_POINT_new(group) : NULL;
	int ok = p && BN_sub_word(order, 1) == 1 && BN_mod(scalar, x, order, ctx) == 1 &&
		 BN_add_word(scalar, 1) == 1 &&
		 EC_POINT_mul(group, p, scalar, NULL, NULL, ctx) == 1;

	*ret_n = ok ? EC_POINT_point2oct(group, p, POINT_CONVERSION_UNCOMPRESSED, point, max, ctx)
		    : 0;
	EC_POINT_free(p);
	BN_clear_free(x);
	BN_free(order);
	BN_CTX_free(ctx);
	return *ret_n ? 0 : -ENOMEM;
}

static EVP_PKEY *key_from_scalar(const BIGNUM *scalar, const uint8_t *point, size_t n)
{
	static const char curve[] = "prime256v1";
	OSSL_PARAM_BLD *bld = OSSL_PARAM_BLD_new();
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
	OSSL_PARAM *params = NULL;
	EVP_PKEY *key = NULL;

	if (bld && ctx &&
	    OSSL_PARAM_BLD_push_utf8_string(bld, OSSL_PKEY_PARAM_GROUP_NAME, curve, 0) == 1 &&
	    OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_PRIV_KEY, scalar) == 1 &&
	    OSSL_PARAM_BLD_push_octet_string(bld, OSSL_PKEY_PARAM_PUB_KEY, point, n) == 1)
		params = OSSL_PARAM_BLD_to_param(bld);
	if (!params || EVP_PKEY_fromdata_init(ctx) != 1 ||
	    EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_KEYPAIR, params) != 1)
		key = NULL;
	OSSL_PARAM_free(params);
	OSSL_PARAM_BLD_free(bld);
	EVP_PKEY_CTX_free(ctx);
	return key;
}

static EVP_PKEY *ca_key(const struct ca *ca, const struct id *sandbox)
{
	EC_GROUP *group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
	BIGNUM *scalar = BN_secure_new();
	EVP_PKEY *key = NULL;
	uint8_t wide[WIDE_LEN], point[128];
	size_t n;

	if (group && scalar && hkdf_derive(ca->seed, sandbox, wide) >= 0 &&
	    scalar_derive(wide, scalar, group, point, sizeof(point), &n) >= 0)
		key = key_from_scalar(scalar, point, n);
	explicit_bzero(wide, sizeof(wide));
	BN_clear_free(scalar);
	EC_GROUP_free(group);
	return key;
}

/* Certificates */

static bool cert_add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *ext;
	int ok;

	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	ok = ext ? X509_add_ext(cert, ext, -1) : 0;
	X509_EXTENSION_free(ext);
	return ok == 1;
}

static bool name_add(X509_NAME *name, const char *field, const char *value)
{
	return X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, (const unsigned char *)value,
					  -1, -1, 0) == 1;
}

static bool cert_set_serial(X509 *cert, const uint8_t *bytes, size_t n)
{
	BIGNUM *bn = BN_bin2bn(bytes, (int)n, NULL);
	bool ok = bn && BN_clear_bit(bn, (int)(8 * n - 1)) >= 0 &&
		  BN_to_ASN1_INTEGER(bn, X509_get_serialNumber(cert));

	BN_free(bn);
	return ok;
}

/* The nonce of the signature is derived from the certificate, so the same has the same bytes. */
static bool cert_sign(X509 *cert, EVP_PKEY *key)
{
	unsigned deterministic = 1;
	OSSL_PARAM params[] = { OSSL_PARAM_uint(OSSL_SIGNATURE_PARAM_NONCE_TYPE, &deterministic),
				OSSL_PARAM_END };
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	EVP_PKEY_CTX *pctx = NULL;
	bool ok = ctx && EVP_DigestSignInit(ctx, &pctx, EVP_sha256(), NULL, key) == 1 &&
		  EVP_PKEY_CTX_set_params(pctx, params) == 1 && X509_sign_ctx(cert, ctx) > 0;

	EVP_MD_CTX_free(ctx);
	return ok;
}

static bool ca_name_fill(X509_NAME *name, const struct id *sandbox)
{
	char id[ID_TEXT_LEN + 1];

	id_format(sandbox, id);
	return name_add(name, "O", "Cay") && name_add(name, "CN", id);
}

/* For servers only, and no CA below it. */
static X509 *ca_cert(const struct id *sandbox, EVP_PKEY *key)
{
	X509 *cert = X509_new();
	X509_NAME *name = cert ? X509_get_subject_name(cert) : NULL;

	if (cert && X509_set_version(cert, X509_VERSION_3) == 1 &&
	    cert_set_serial(cert, (const uint8_t *)sandbox, sizeof(*sandbox)) &&
	    ASN1_TIME_set_string(X509_getm_notBefore(cert), "20260101000000Z") == 1 &&
	    ASN1_TIME_set_string(X509_getm_notAfter(cert), "20491231235959Z") == 1 &&
	    ca_name_fill(name, sandbox) && X509_set_issuer_name(cert, name) == 1 &&
	    X509_set_pubkey(cert, key) == 1 &&
	    cert_add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
	    cert_add_extension(cert, cert, NID_key_usage, "critical,keyCertSign") &&
	    cert_add_extension(cert, cert, NID_ext_key_usage, "serverAuth") &&
	    cert_add_extension(cert, cert, NID_subject_key_identifier, "hash") &&
	    cert_sign(cert, key))
		return cert;
	X509_free(cert);
	return NULL;
}

static bool leaf_name_fill(X509_NAME *to, const struct host_name *name)
{
	return name_add(to, "O", "Cay inspection") &&
	       (name->n > COMMON_NAME_MAX || name_add(to, "CN", name->text));
}

static X509 *leaf_cert(const struct ca *ca, const struct id *sandbox, const struct host_name *name)
{
	char san[sizeof("DNS:") + sizeof(name->text)];
	int n = snprintf(san, sizeof(san), "DNS:%s", name->text);
	EVP_PKEY *key = ca_key(ca, sandbox);
	X509 *issuer = key ? ca_cert(sandbox, key) : NULL;
	X509 *cert = issuer ? X509_new() : NULL;
	uint8_t serial[16];

	if (!cert || n < 0 || n >= (int)sizeof(san) || RAND_bytes(serial, sizeof(serial)) != 1 ||
	    X509_set_version(cert, X509_VERSION_3) != 1 ||
	    !cert_set_serial(cert, serial, sizeof(serial)) ||
	    !X509_gmtime_adj(X509_getm_notBefore(cert), -DAY_S) ||
	    !X509_gmtime_adj(X509_getm_notAfter(cert), (long)LEAF_DAYS * DAY_S) ||
	    !leaf_name_fill(X509_get_subject_name(cert), name) ||
	    X509_set_issuer_name(cert, X509_get_subject_name(issuer)) != 1 ||
	    X509_set_pubkey(cert, ca->leaf_key) != 1 ||
	    !cert_add_extension(cert, issuer, NID_basic_constraints, "critical,CA:FALSE") ||
	    !cert_add_extension(cert, issuer, NID_key_usage, "critical,digitalSignature") ||
	    !cert_add_extension(cert, issuer, NID_ext_key_usage, "serverAuth") ||
	    !cert_add_extension(cert, issuer, NID_subject_alt_name, san) ||
	    !cert_add_extension(cert, issuer, NID_authority_key_identifier, "keyid") ||
	    !cert_sign(cert, key)) {
		X509_free(cert);
		cert = NULL;
	}
	X509_free(issuer);
	EVP_PKEY_free(key);
	return cert;
}

int ca_write_pem(const struct egress *e, const struct id *sandbox, struct buf *ret)
{
	EVP_PKEY *key = ca_key(e->ca, sandbox);
	X509 *cert = key ? ca_cert(sandbox, key) : NULL;
	BIO *out = cert ? BIO_new(BIO_s_mem()) : NULL;
	char *text = NULL;
	long n = out && PEM_write_bio_X509(out, cert) == 1 ? BIO_get_mem_data(out, &text) : 0;
	int r = n > 0 ? buf_append(ret, text, (size_t)n) : -ENOMEM;

	BIO_free(out);
	X509_free(cert);
	EVP_PKEY_free(key);
	ERR_clear_error();
	return r;
}

/* Those that are kept */

static struct leaf **leaf_slot(struct ca *ca, const struct id *sandbox,
			       const struct host_name *name)
{
	uint64_t h = hash_bytes(hash_bytes(0, sandbox, sizeof(*sandbox)), name->text, name->n);
	struct leaf **at = &ca->buckets[h % LEAF_BUCKETS];

	while (*at && !(id_eq(&(*at)->sandbox, sandbox) &&
			host_name_eq(&(*at)->name, (struct slice){ name->text, name->n })))
		at = &(*at)->next;
	return at;
}

static void leaf_unlink(struct ca *ca, struct leaf *l)
{
	*(l->newer ? &l->newer->older : &ca->newest) = l->older;
	*(l->older ? &l->older->newer : &ca->oldest) = l->newer;
	l->newer = l->older = NULL;
}

static void leaf_link(struct ca *ca, struct leaf *l)
{
	l->older = ca->newest;
	*(ca->newest ? &ca->newest->newer : &ca->oldest) = l;
	ca->newest = l;
}

static void leaf_drop(struct ca *ca, struct leaf *l)
{
	*leaf_slot(ca, &l->sandbox, &l->name) = l->next;
	leaf_unlink(ca, l);
	ca->n_leaves--;
	X509_free(l->cert);
	free(l);
}

static struct leaf *leaf_mint(struct egress *e, const struct id *sandbox,
			      const struct host_name *name)
{
	struct ca *ca = e->ca;
	struct leaf *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	*l = (struct leaf){ .sandbox = *sandbox, .name = *name, .made_ns = clk_boot_ns(e->clk) };
	l->cert = leaf_cert(ca, sandbox, name);
	ERR_clear_error();
	if (!l->cert) {
		free(l);
		return NULL;
	}
	if (ca->n_leaves == LEAVES_MAX)
		leaf_drop(ca, ca->oldest);
	ca->n_leaves++;
	ca->n_minted++;
	*leaf_slot(ca, sandbox, name) = l;
	leaf_link(ca, l);
	log_debug(&e->log, "certificate %llu for %s, %zu kept", (unsigned long long)ca->n_minted,
		  name->text, ca->n_leaves);
	return l;
}

static struct leaf *leaf_get(struct egress *e, const struct id *sandbox,
			     const struct host_name *name)
{
	struct leaf *l = *leaf_slot(e->ca, sandbox, name);

	if (l && clk_boot_ns(e->clk) - l->made_ns > LEAF_KEPT_NS) {
		leaf_drop(e->ca, l);
		l = NULL;
	}
	if (!l)
		return leaf_mint(e, sandbox, name);
	leaf_unlink(e->ca, l);
	leaf_link(e->ca, l);
	return l;
}

int ca_attach_tls(struct egress *e, const struct id *sandbox, const struct host_name *name,
		  struct conn *c, struct slice read)
{
	const struct leaf *l = leaf_get(e, sandbox, name);
	struct tls_certified layer = {
		{ tls_certified_attach }, e->ca->server, l ? l->cert : NULL, e->ca->leaf_key
	};

	return l ? conn_attach_layer(c, &layer.layer, read) : -ENOMEM;
}

/* The seed */

static int seed_create(int dir, uint8_t seed[static SEED_LEN], struct cay_err *err)
{
	int r;

	if (RAND_bytes(seed, SEED_LEN) != 1)
		return cay_fail(err, CAY_E_INTERNAL, "there are no random bytes");
	r = path_write_atomic(dir, SEED_FILE, seed, SEED_LEN, 0400);
	return r < 0 ? cay_fail_sys(err, CAY_E_INVALID, -r, "write " SEED_FILE) : 0;
}

static int seed_read(const struct egress *e, uint8_t seed[static SEED_LEN], struct cay_err *err)
{
	auto_close int state = open(e->settings.state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_close int dir =
		state < 0 ? -errno : path_open(state, EGRESS_DIR, O_RDONLY | O_DIRECTORY, 0);
	auto_buf text = BUF_INIT(SEED_LEN + 1);
	int r = dir < 0 ? dir : path_remove_tmp_files(dir);

	if (r >= 0)
		r = path_read(dir, SEED_FILE, &text);
	if (r == -ENOENT && dir >= 0)
		return seed_create(dir, seed, err);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INVALID, -r, "read " EGRESS_DIR "/" SEED_FILE);
	if (text.len != SEED_LEN)
		return cay_fail(err, CAY_E_INVALID,
				EGRESS_DIR "/" SEED_FILE " has not %d bytes: remove it, and "
					   "sandboxes that are inspected need a new start",
				SEED_LEN);
	memcpy(seed, text.data, SEED_LEN);
	explicit_bzero(text.data, text.len);
	return 0;
}

/* Everything that OpenSSL loads is loaded here: files cannot be opened later. */
int ca_open(struct egress *e, struct cay_err *err)
{
	static const struct id probe = { .noun = ID_SANDBOX };
	struct ca *ca = calloc(1, sizeof(*ca));
	auto_buf pem = BUF_INIT(KIB(4));
	struct host_name name;
	X509 *cert;
	int r;

	e->ca = ca;
	if (!ca)
		return cay_no_memory(err);
	r = seed_read(e, ca->seed, err);
	if (r >= 0)
		r = tls_server_new_bare(HANDSHAKE_MS, &ca->server, err);
	if (r < 0)
		return r;
	ca->leaf_key = EVP_EC_gen("P-256");
	if (!ca->leaf_key || host_name_parse(SLICE("a.example"), &name) < 0)
		return cay_no_memory(err);
	cert = leaf_cert(ca, &probe, &name);
	r = cert && ca_write_pem(e, &probe, &pem) >= 0 ? 0 : -ENOMEM;
	X509_free(cert);
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, "OpenSSL cannot make certificates") : 0;
}
