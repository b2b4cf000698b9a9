/* SPDX-License-Identifier: Apache-2.0 */
/* A host that is a port's has one spelling, and bytes of chance are no token. */
#include "auth/preview.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct preview_base base = { .secure = true, .domain = "p.test" };
	static const struct token_keys keys = { .key = { { .number = 1, .secret = { 5 } } } };
	char *in = fuzz_copy(data, size);
	auto_buf origin = BUF_INIT(512);
	struct preview p;
	struct cay_err err = {};
	struct id sandbox;
	uint16_t port;

	if (preview_host_parse(&base, (struct slice){ in, size }, &sandbox, &port)) {
		const char *colon = memchr(in, ':', size);
		size_t n = colon ? (size_t)(colon - in) : size;

		CHECK(id_is_valid(&sandbox, ID_SANDBOX));
		CHECK(preview_origin_format(&base, &sandbox, port, &origin) >= 0);
		CHECK(origin.len == n + 8 && strncasecmp(origin.data + 8, in, n) == 0);
	}
	CHECK(preview_token_check((struct slice){ in, size }, &keys, 0, 0, &p, &err) < 0);
	CHECK(err.code == CAY_E_UNAUTHENTICATED);
	free(in);
	return 0;
}
