/* SPDX-License-Identifier: Apache-2.0 */
/* What decodes has one spelling: encoding it gives the input back. */
#include "fuzz.h"
#include "text/base64.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	uint8_t *out = malloc(BASE64URL_BYTES(size) + 1);
	size_t n;

	CHECK(out);
	if (base64_decode(in, size, out, &n) == 0) {
		char *again = malloc(BASE64_TEXT(n) + 1);

		CHECK(again && n <= BASE64_BYTES(size) && BASE64_TEXT(n) == size);
		base64_encode(out, n, again);
		CHECK(memcmp(again, in, size) == 0);
		free(again);
	}
	if (base64url_decode(in, size, out, &n) == 0) {
		char *again = malloc(BASE64URL_TEXT(n) + 1);

		CHECK(again && n == BASE64URL_BYTES(size) && BASE64URL_TEXT(n) == size);
		base64url_encode(out, n, again);
		CHECK(memcmp(again, in, size) == 0);
		free(again);
	}
	free(out);
	free(in);
	return 0;
}
