/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/jwt.h"

#include <openssl/err.h>
#include <openssl/x509.h>

#include "jose.h"
#include "text/json.h"

#define NOW 1800000000u
#define H2 "{'alg':'HS256','kid':'h2'}"
#define TIMELY "'exp':1800000100"
#define WHO "'sub':'ann','tenant':'acme'"
#define FROM "'iss':'me','aud':'cay'"
#define GOOD "{" FROM "," WHO ",'scope':'read write'," TIMELY "}"

static struct issuer issuer;
static struct jwks *keys;
static const struct jwt_policy policy = { .issuer = "me", .audience = "cay" };

static int setup(void **)
{
	issuer_init(&issuer);
	return jwks_parse((struct slice){ issuer.jwks.data, issuer.jwks.len }, &keys, NULL);
}

static int teardown(void **)
{
	jwks_free(keys);
	issuer_fini(&issuer);
	return 0;
}

static int check(const struct buf *text, struct jwt *ret, struct cay_err *err)
{
	return jwt_check((struct slice){ buf_str(text), text->len }, keys, &policy, NOW, ret, err);
}

/* Refused for that reason, with nothing told and nothing left behind. */
static void refused(const char *name, const struct buf *text, const char *why)
{
	struct jwt jwt = { .exp = 1 };
	struct cay_err err = {};
	int r = check(text, &jwt, &err);

	if (r != -ENOKEY || err.code != CAY_E_UNAUTHENTICATED || !strstr(err.msg, why))
		fail_msg("%s: %d '%s'", name, r, err.msg);
	if (jwt.exp != 1 || jwt.subject[0] || ERR_peek_error())
		fail_msg("%s: left something behind", name);
}

/* RFC 7515 appendix A.1 to A.3: the payload is the same. */
static const char rfc_payload[] = "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n "
				  "\"http:" /* no address */ "//example.com/is_root\":true}";
#define RFC_PAYLOAD \
	"eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFt" \
	"cGxlLmNvbS9pc19yb290Ijp0cnVlfQ"

static const struct {
	const char *jwk, *text;
} rfc[] = {
	{ "{'keys':[{'kty':'oct','alg':'HS256','k':'AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-"
	  "1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow'}]}",
	  "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9." RFC_PAYLOAD
	  ".dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" },
	{ "{'keys':[{'kty':'RSA','e':'AQAB','n':'ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0"
	  "l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b3"
	  "2690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2"
	  "CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj"
	  "8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ'}]}",
	  "eyJhbGciOiJSUzI1NiJ9." RFC_PAYLOAD
	  ".cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt"
	  "_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLI"
	  "ARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOP"
	  "qvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe7"
	  "7Rw" },
	{ "{'keys':[{'kty':'EC','crv':'P-256','x':'f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU','y"
	  "':'x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0'}]}",
	  "eyJhbGciOiJFUzI1NiJ9." RFC_PAYLOAD
	  ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU"
	  "1Q" },
};

static void the_rfc_s_examples_open(void **)
{
	for (size_t i = 0; i < ARRAY_SIZE(rfc); i++) {
		auto_buf doc = BUF_INIT(KIB(4));
		auto_ptr(jwks) own = NULL;
		uint8_t payload[JWS_PAYLOAD_MAX];
		struct cay_err err = {};
		struct jwt jwt;
		size_t n = 0;

		put_json(&doc, rfc[i].jwk);
		row_check(i, jwks_parse((struct slice){ doc.data, doc.len }, &own, NULL) == 0);
		row_check(i, jws_verify(slice_of(rfc[i].text), own, payload, &n, NULL) == 0);
		row_check(i, n == strlen(rfc_payload) && memcmp(payload, rfc_payload, n) == 0);
		/* right, but of 2011; and then it says not who */
		row_check(i, jwt_check(slice_of(rfc[i].text), own, &(struct jwt_policy){}, NOW,
				       &jwt, &err) == -ENOKEY &&
				     strstr(err.msg, "'exp' is over"));
		err = (struct cay_err){};
		row_check(i, jwt_check(slice_of(rfc[i].text), own, &(struct jwt_policy){},
				       1300819379, &jwt, &err) == -ENOKEY &&
				     strstr(err.msg, "'sub' is missing"));
		/* each with the others' keys */
		row_check(i, jws_verify(slice_of(rfc[(i + 1) % 3].text), own, payload, &n, NULL) ==
				     -ENOKEY);
	}
}

static void every_algorithm_is_accepted(void **)
{
	static const struct {
		const char *header, *claims;
		enum jwk_alg alg;
	} rows[] = {
		{ H2, GOOD, JWK_HS256 },
		{ "{'alg':'HS384','kid':'h3','typ':'JWT'}", GOOD, JWK_HS384 },
		{ "{'kid':'h5','alg':'HS512','typ':'at+jwt'}", GOOD, JWK_HS512 },
		{ "{'alg':'RS256','kid':'r','typ':'jwt','x5t':'abc'}", GOOD, JWK_RS256 },
		{ "{'alg':'ES256','kid':'e','typ':'application/at+JWT'}", GOOD, JWK_ES256 },
		{ "{'alg':'HS256','kid':'\\u00682','ours':{'a':[1]}}", GOOD, JWK_HS256 },
		{ H2, "{" FROM "," WHO ",'scope':'read write','exp':1799999941}", JWK_HS256 },
		{ H2, "{" FROM "," WHO ",'scope':'read write','nbf':1800000060,'iat':0," TIMELY "}",
		  JWK_HS256 },
		{ H2, "{'iss':'me','aud':['you','cay']," WHO ",'scope':'read write'," TIMELY "}",
		  JWK_HS256 },
		{ H2, "{" FROM "," WHO ",'scope':'read write','exp':253402300799}", JWK_HS256 },
	};
	auto_buf text = BUF_INIT(KIB(8));

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct cay_err err = {};
		struct jwt jwt = {};

		issue(&issuer, rows[i].header, rows[i].claims, rows[i].alg, &text);
		if (check(&text, &jwt, &err) < 0)
			fail_msg("row %zu: %s", i, err.msg);
		assert_string_equal(jwt.subject, "ann");
		assert_string_equal(jwt.tenant, "acme");
		assert_string_equal(jwt.scope, "read write");
		assert_true(jwt.exp >= 1799999941);
	}
	/* r and s of 32 bytes whatever their first ones are */
	for (int i = 0; i < 300; i++) {
		struct jwt jwt = {};

		issue(&issuer, "{'alg':'ES256','kid':'e'}", GOOD, JWK_ES256, &text);
		assert_int_equal(check(&text, &jwt, NULL), 0);
	}
}

/* Signed rightly by the key named last; what is said is wrong. */
static const struct wrong {
	const char *name, *header, *claims;
	enum jwk_alg alg;
	const char *why;
} wrongs[] = {
#define HEADER(name, header, why) { name, header, GOOD, JWK_HS256, why },
#define CLAIMS(name, claims, why) { name, H2, claims, JWK_HS256, why },
#include "jwt-refused.def"
#undef HEADER
#undef CLAIMS
	/* the key of one algorithm, the name of another */
	{ "hs512 with the secret of hs256", "{'alg':'HS512','kid':'h2'}", GOOD, JWK_HS512,
	  "'alg'" },
	{ "hs256 for an rsa key", "{'alg':'HS256','kid':'r'}", GOOD, JWK_HS256, "'alg'" },
	{ "hs256 for an ec key", "{'alg':'HS256','kid':'e'}", GOOD, JWK_HS256, "'alg'" },
	{ "rs256 for an ec key", "{'alg':'RS256','kid':'e'}", GOOD, JWK_RS256, "'alg'" },
	{ "es256 for an rsa key", "{'alg':'ES256','kid':'r'}", GOOD, JWK_ES256, "'alg'" },
	{ "rs256 under a secret's name", "{'alg':'RS256','kid':'h2'}", GOOD, JWK_RS256, "'alg'" },
	{ "another secret of the set", "{'alg':'HS384','kid':'h3'}", GOOD, JWK_HS256, "signature" },
	{ "ec signature as rs256", "{'alg':'RS256','kid':'r'}", GOOD, JWK_ES256, "signature" },
	{ "rsa signature as es256", "{'alg':'ES256','kid':'e'}", GOOD, JWK_RS256, "signature" },
	{ "mac as rs256", "{'alg':'RS256','kid':'r'}", GOOD, JWK_HS256, "signature" },
	{ "mac as es256, 64 bytes", "{'alg':'ES256','kid':'e'}", GOOD, JWK_HS512, "signature" },
};

static void each_wrong_token_is_refused_by_name(void **)
{
	auto_buf text = BUF_INIT(KIB(16));

	assert_true(ARRAY_SIZE(wrongs) >= 60);
	for (size_t i = 0; i < ARRAY_SIZE(wrongs); i++) {
		for (size_t k = 0; k < i; k++)
			row_check(i, !str_eq(wrongs[i].name, wrongs[k].name));
		issue(&issuer, wrongs[i].header, wrongs[i].claims, wrongs[i].alg, &text);
		refused(wrongs[i].name, &text, wrongs[i].why);
	}
}

/* What is done to the text of a good token: %h, %p and %s are its parts, %S the
 * signature's digits but the last, %+ a digit with other unused bits. */
static void the_text_has_one_form(void **)
{
	static const struct {
		const char *pattern, *why;
	} rows[] = {
		{ "", "three parts" },
		{ ".", "three parts" },
		{ "..", "empty" },
		{ "...", "more than three" },
		{ "%h", "three parts" },
		{ "%h.%p", "three parts" },
		{ "%h.%p.", "empty" },
		{ "%h..%s", "empty" },
		{ ".%p.%s", "empty" },
		{ "%h.%p.%s.", "more than three" },
		{ ".%h.%p.%s", "more than three" },
		{ "%h.%p.%s.%s", "more than three" },
		{ "%h.%p.%s.%s.%s", "more than three" },
		{ "%h.%p..%s", "more than three" },
		{ "%h=.%p.%s", "header" },
		{ "%h.%p=.%s", "signature" },
		{ "%h.%p==.%s", "signature" },
		{ "%h.%p.%s=", "signature" },
		{ "%h.%p.%s==", "signature" },
		{ " %h.%p.%s", "header" },
		{ "%h.%p.%s ", "signature" },
		{ "%h.%p.%s\n", "signature" },
		{ "%h. %p.%s", "signature" },
		{ "%h .%p.%s", "header" },
		{ "%h.%p.\t%s", "signature" },
		{ "Bearer %h.%p.%s", "header" },
		{ "%h.%p.%S", "signature is not" },
		{ "%h.%p.%S%+", "signature is not" },
		{ "%h.%p.%sA", "signature" },
		{ "%h.%p.%sAA", "signature" },
		{ "%h.%p.%sAAAA", "signature" },
		{ "%h.%p.%s%s", "signature" },
		{ "%h.%p.AAAA", "signature is invalid" },
		{ "%h.%p.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "signature is invalid" },
		{ "%hIA.%p.%s", "header" },
		{ "%h.%pA.%s", "signature" },
		{ "%h.%h.%s", "signature is invalid" },
		{ "%p.%p.%s", "several keys" },
		{ "%p.%h.%s", "several keys" },
		{ "%h.e30.%s", "signature is invalid" },
		{ "%h.%p.+/+/", "signature is not" },
		{ "%h,%p,%s", "three parts" },
		{ "%%.%%.%%", "header" },
	};
	auto_buf good = BUF_INIT(KIB(4));
	struct slice rest, part[3];

	issue(&issuer, H2, GOOD, JWK_HS256, &good);
	rest = (struct slice){ good.data, good.len };
	for (unsigned i = 0; i < 3; i++)
		part[i] = slice_cut(&rest, '.');
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_buf text = BUF_INIT(KIB(4));

		for (const char *p = rows[i].pattern; *p; p++) {
			struct slice s = { p, 1 };
			char other = (char)(part[2].p[part[2].n - 1] + 1);

			if (*p == '%' && *++p != '%')
				s = *p == 'h'   ? part[0]
				    : *p == 'p' ? part[1]
				    : *p == 's' ? part[2]
				    : *p == 'S' ? (struct slice){ part[2].p, part[2].n - 1 }
						: (struct slice){ &other, 1 };
			assert_int_equal(buf_append(&text, s.p, s.n), 0);
		}
		refused(rows[i].pattern, &text, rows[i].why);
	}
}

static void every_character_is_signed(void **)
{
	auto_buf text = BUF_INIT(KIB(4));
	struct jwt jwt = {};

	issue(&issuer, H2, GOOD, JWK_HS256, &text);
	for (size_t i = 0; i < text.len; i++) {
		char was = text.data[i];

		text.data[i] = was == 'A' ? 'B' : 'A';
		row_check(i, check(&text, &jwt, NULL) == -ENOKEY);
		text.data[i] = 0;
		row_check(i, check(&text, &jwt, NULL) == -ENOKEY);
		text.data[i] = was;
	}
	assert_int_equal(check(&text, &jwt, NULL), 0);
}

static void replace_signature(struct buf *text, const uint8_t *sig, size_t n)
{
	buf_truncate(text, (size_t)(strrchr(text->data, '.') + 1 - text->data));
	put_base64(text, sig, n);
}

static void an_es256_signature_is_two_numbers_of_32_bytes(void **)
{
	auto_buf text = BUF_INIT(KIB(4));
	uint8_t sig[1024], bad[1024];
	size_t n, input;

	issue(&issuer, "{'alg':'ES256','kid':'e'}", GOOD, JWK_ES256, &text);
	input = (size_t)(strrchr(text.data, '.') - text.data);
	n = sign_public(issuer.ec, (struct slice){ text.data, input }, bad);
	raw_pair(bad, n, sig);
	replace_signature(&text, bad, n);
	refused("der", &text, "signature is invalid");
	for (n = 1; n < 80; n++) {
		memset(bad, 0, sizeof(bad));
		memcpy(bad, sig, 64);
		if (n == 64)
			continue;
		replace_signature(&text, bad, n);
		refused("another length", &text, "signature is invalid");
	}
	memset(bad, 0, sizeof(bad));
	memcpy(bad + 1, sig, 64); /* a zero in front of both, as DER would */
	replace_signature(&text, bad, 66);
	refused("zeros in front", &text, "signature is invalid");
	memcpy(bad, sig + 32, 32);
	memcpy(bad + 32, sig, 32);
	replace_signature(&text, bad, 64);
	refused("s and r", &text, "signature is invalid");
	memset(bad, 0, 64);
	replace_signature(&text, bad, 64);
	refused("zeros", &text, "signature is invalid");
	memcpy(bad, sig, 32);
	replace_signature(&text, bad, 64);
	refused("s is zero", &text, "signature is invalid");
	memset(bad, 0xff, 64);
	replace_signature(&text, bad, 64);
	refused("above the order", &text, "signature is invalid");
}

static void an_rsa_signature_has_the_key_s_length(void **)
{
	auto_buf text = BUF_INIT(KIB(8));
	uint8_t sig[1300] = {};

	for (size_t n = 254; n <= 258; n++) {
		issue(&issuer, "{'alg':'RS256','kid':'r'}", GOOD, JWK_RS256, &text);
		replace_signature(&text, sig, n);
		refused("zeros", &text, "signature is invalid");
	}
	replace_signature(&text, sig, 1025);
	refused("longer than any key", &text, "too long");
}

/* The classic: the public key, which everybody has, as a secret. */
static void a_public_key_is_no_secret(void **)
{
	auto_buf text = BUF_INIT(KIB(4));
	unsigned char *der = NULL;
	int len = i2d_PUBKEY(issuer.rsa, &der);
	uint8_t mac[64];
	unsigned n = 0;

	assert_true(len > 0);
	issue(&issuer, "{'alg':'HS256','kid':'r'}", GOOD, JWK_HS256, &text);
	assert_non_null(HMAC(EVP_sha256(), der, len, (const uint8_t *)text.data,
			     (size_t)(strrchr(text.data, '.') - text.data), mac, &n));
	OPENSSL_free(der);
	replace_signature(&text, mac, n);
	refused("hs256 with the public key", &text, "'alg'");
}

static void size_is_looked_at_first(void **)
{
	auto_buf text = BUF_INIT(KIB(16)), claims = BUF_INIT(KIB(8));
	struct jwt jwt = {};

	/* as long as it may be, and one more */
	put_json(&claims, "{" FROM "," WHO "," TIMELY ",'x':'");
	while (text.len < JWS_TEXT_MAX - 4) {
		assert_int_equal(buf_putc(&claims, 'x'), 0);
		buf_clear(&text);
		if (claims.len < 6000)
			continue;
		put_json(&claims, "'}");
		issue(&issuer, H2, buf_str(&claims), JWK_HS256, &text);
		buf_truncate(&claims, claims.len - 2);
	}
	assert_true(text.len <= JWS_TEXT_MAX);
	assert_int_equal(check(&text, &jwt, NULL), 0);
	while (text.len <= JWS_TEXT_MAX)
		assert_int_equal(buf_putc(&text, 'A'), 0);
	refused("8193 bytes", &text, "8 KiB");
	buf_clear(&text);
	while (text.len < 3000)
		assert_int_equal(buf_putc(&text, 'e'), 0);
	assert_int_equal(buf_puts(&text, ".e30.AAAA"), 0);
	refused("a long header", &text, "too long");
}

static void claims_have_limits(void **)
{
	static const struct {
		const char *name, *front;
		size_t max;
		const char *back;
	} rows[] = {
		{ "'sub'", "{" FROM ",'tenant':'t'," TIMELY ",'sub':'", JWT_SUBJECT_MAX, "'}" },
		{ "'tenant'", "{" FROM ",'sub':'t'," TIMELY ",'tenant':'", JWT_TENANT_MAX, "'}" },
		{ "'scope'", "{" FROM "," WHO "," TIMELY ",'scope':'", JWT_SCOPE_MAX, "'}" },
	};
	auto_buf text = BUF_INIT(KIB(16)), claims = BUF_INIT(KIB(8));

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct jwt jwt = {};

		for (size_t more = 0; more < 2; more++) {
			buf_clear(&claims);
			put_json(&claims, rows[i].front);
			for (size_t n = 0; n < rows[i].max + more; n++)
				assert_int_equal(buf_putc(&claims, 'y'), 0);
			put_json(&claims, rows[i].back);
			issue(&issuer, H2, buf_str(&claims), JWK_HS256, &text);
			if (more)
				refused(rows[i].name, &text, "too long");
			else
				row_check(i, check(&text, &jwt, NULL) == 0);
		}
	}
	/* many values, for jansson to build */
	buf_clear(&claims);
	put_json(&claims, "{" FROM "," WHO "," TIMELY ",'x':[");
	for (int i = 0; i < 600; i++)
		put_json(&claims, "1,");
	put_json(&claims, "1]}");
	issue(&issuer, H2, buf_str(&claims), JWK_HS256, &text);
	refused("600 values", &text, "too many");
}

static void the_policy_is_the_operator_s(void **)
{
	static const struct {
		struct jwt_policy policy;
		const char *claims, *why;
	} rows[] = {
		{ {}, "{" WHO "," TIMELY "}", NULL },
		{ {}, "{'iss':'anybody'," WHO "," TIMELY "}", NULL },
		{ {}, "{'aud':'cay'," WHO "," TIMELY "}", "this node has no audience" },
		{ {}, "{'aud':[]," WHO "," TIMELY "}", "this node has no audience" },
		{ { .audience = "" }, "{" WHO "," TIMELY "}", "'aud' is missing" },
		{ { .issuer = "" }, "{" WHO "," TIMELY "}", "'iss' is missing" },
		{ { .tenant_claim = "org" }, "{" WHO "," TIMELY "}", "'org' is missing" },
		{ { .tenant_claim = "org" }, "{" WHO ",'org':'acme'," TIMELY "}", NULL },
		{ { .tenant_claim = "sub" }, "{'sub':'acme'," TIMELY "}", NULL },
	};
	auto_buf text = BUF_INIT(KIB(4));

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct cay_err err = {};
		struct jwt jwt = {};
		int r;

		issue(&issuer, H2, rows[i].claims, JWK_HS256, &text);
		r = jwt_check((struct slice){ text.data, text.len }, keys, &rows[i].policy, NOW,
			      &jwt, &err);
		row_check(i, rows[i].why ? r == -ENOKEY && strstr(err.msg, rows[i].why)
					 : r == 0 && str_eq(jwt.tenant, "acme") && !jwt.scope[0]);
	}
}

static void clocks_may_differ_by_a_minute(void **)
{
	static const struct {
		uint64_t now;
		bool good;
	} rows[] = {
		{ 999939, false }, { 999940, true },   { 1000000, true }, { 2000000, true },
		{ 2000059, true }, { 2000060, false }, { 0, false },
	};
	auto_buf text = BUF_INIT(KIB(4));

	issue(&issuer, H2, "{" FROM "," WHO ",'nbf':1000000,'exp':2000000}", JWK_HS256, &text);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct jwt jwt = {};
		int r = jwt_check((struct slice){ text.data, text.len }, keys, &policy, rows[i].now,
				  &jwt, NULL);

		row_check(i, r == (rows[i].good ? 0 : -ENOKEY));
	}
}

static size_t grants;

static void *stingy(size_t n)
{
	return grants && grants-- ? malloc(n) : NULL;
}

/* The header's JSON, then that of the claims. */
static void no_memory_is_nobody_s_fault(void **)
{
	auto_buf text = BUF_INIT(KIB(4));
	size_t refusals = 0;
	json_malloc_t m;
	json_free_t f;
	int r = -ENOMEM;

	issue(&issuer, H2, GOOD, JWK_HS256, &text);
	json_get_alloc_funcs(&m, &f);
	for (size_t n = 0; r < 0 && n < 1000; n++) {
		struct cay_err err = {};
		struct jwt jwt = {};

		grants = n;
		json_set_alloc_funcs(stingy, f);
		r = check(&text, &jwt, &err);
		json_set_alloc_funcs(m, f);
		row_check(n, r == 0 || (err.code != CAY_OK && !jwt.subject[0]));
		refusals += err.code == CAY_E_NO_MEMORY;
	}
	assert_int_equal(r, 0);
	assert_true(refusals >= 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rfc_s_examples_open),
		cmocka_unit_test(every_algorithm_is_accepted),
		cmocka_unit_test(each_wrong_token_is_refused_by_name),
		cmocka_unit_test(the_text_has_one_form),
		cmocka_unit_test(every_character_is_signed),
		cmocka_unit_test(an_es256_signature_is_two_numbers_of_32_bytes),
		cmocka_unit_test(an_rsa_signature_has_the_key_s_length),
		cmocka_unit_test(a_public_key_is_no_secret),
		cmocka_unit_test(size_is_looked_at_first),
		cmocka_unit_test(claims_have_limits),
		cmocka_unit_test(the_policy_is_the_operator_s),
		cmocka_unit_test(clocks_may_differ_by_a_minute),
		cmocka_unit_test(no_memory_is_nobody_s_fault),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
