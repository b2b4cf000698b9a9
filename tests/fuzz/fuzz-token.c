/* SPDX-License-Identifier: Apache-2.0 */
/* What is accepted has one spelling; and bytes signed by us, whatever they are,
 * give a token that can be made again or a refusal. */
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "auth/token.h"
#include "fuzz.h"
#include "text/base64.h"

static const struct token_keys keys = { .key = { { .number = 1, .secret = "of a fuzzer" } } };

static void check(struct slice text)
{
	struct token t = {};
	struct cay_err err = {};
	int r = token_check(text, &keys, 1000, 5, &t, &err);

	if (r == 0) {
		char again[TOKEN_TEXT_LEN + 1];

		CHECK(t.not_after >= 1000 && t.epoch >= 5);
		CHECK(t.scope == SCOPE_READ || t.scope == SCOPE_WRITE);
		CHECK(token_sign(&t, &keys.key[0], again, NULL) == 0);
		CHECK(text.n == TOKEN_TEXT_LEN && memcmp(again, text.p, text.n) == 0);
	} else {
		CHECK(err.code == CAY_E_UNAUTHENTICATED && err.msg[0] && !t.scope);
	}
	/* what is a token is no link */
	CHECK(r < 0 ||
	      token_check_link_target(text, (struct slice){}, &keys, 1000, 5, &t, NULL) < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size), text[TOKEN_TEXT_LEN];
	uint8_t bytes[88] = {};
	unsigned n = 0;

	check((struct slice){ in, size });
	memcpy(bytes, in, size < 56 ? size : 56);
	CHECK(HMAC(EVP_sha256(), keys.key[0].secret, 32, bytes, 56, bytes + 56, &n));
	memcpy(text, TOKEN_PREFIX, sizeof(TOKEN_PREFIX));
	base64url_encode(bytes, sizeof(bytes), text + 5);
	check((struct slice){ text, sizeof(text) });
	free(in);
	return 0;
}
