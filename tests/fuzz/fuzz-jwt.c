/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three ways in: the text as it is; a header and claims (a newline between them)
 * that a key of ours signed, so that the fuzzer gets behind the signature; and
 * that with the first byte of the signature changed, which is never accepted.
 */
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "auth/jwt.h"
#include "base/buf.h"
#include "fuzz.h"
#include "text/base64.h"

static const char secret[] = "0123456789abcdef0123456789abcdef";
static const char doc[] = "{\"keys\":[{\"kty\":\"oct\",\"alg\":\"HS256\",\"kid\":\"h\","
			  "\"k\":\"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY\"},"
			  "{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"e\","
			  "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
			  "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}";
static const struct jwt_policy policy = { .audience = "cay" };

static int check(struct slice text, const struct jwks *keys)
{
	struct cay_err err = {};
	struct jwt jwt = {};
	int r = jwt_check(text, keys, &policy, 1000, &jwt, &err);

	if (r == 0) {
		CHECK(text.n <= JWS_TEXT_MAX && jwt.exp + JWT_SKEW_S > 1000);
		CHECK(jwt.subject[0] && jwt.tenant[0]);
		CHECK(utf8_is_valid(jwt.subject, strlen(jwt.subject)));
	} else {
		CHECK(err.code == CAY_E_UNAUTHENTICATED && err.msg[0] && !jwt.subject[0]);
	}
	return r;
}

static void add_part(struct buf *b, struct slice part)
{
	CHECK(buf_reserve(b, BASE64URL_TEXT(part.n)) == 0);
	base64url_encode((const uint8_t *)part.p, part.n, b->data + b->len);
	b->len += BASE64URL_TEXT(part.n);
}

static void check_signed(struct slice claims, const struct jwks *keys)
{
	struct slice header = slice_cut(&claims, '\n');
	auto_buf text = BUF_INIT(MIB(8));
	uint8_t mac[EVP_MAX_MD_SIZE];
	unsigned n = 0;
	size_t at;

	add_part(&text, header);
	CHECK(buf_putc(&text, '.') == 0);
	add_part(&text, claims);
	CHECK(HMAC(EVP_sha256(), secret, sizeof(secret) - 1, (const uint8_t *)text.data, text.len,
		   mac, &n));
	CHECK(buf_putc(&text, '.') == 0);
	at = text.len;
	add_part(&text, (struct slice){ (const char *)mac, n });
	(void)check((struct slice){ text.data, text.len }, keys);
	text.data[at] = text.data[at] == 'A' ? 'B' : 'A';
	CHECK(check((struct slice){ text.data, text.len }, keys) < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct jwks *keys;
	char *in = fuzz_copy(data, size);

	if (!keys)
		CHECK(jwks_parse(slice_of(doc), &keys, NULL) == 0);
	(void)check((struct slice){ in, size }, keys);
	check_signed((struct slice){ in, size }, keys);
	free(in);
	return 0;
}
