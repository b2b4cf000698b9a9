/* SPDX-License-Identifier: Apache-2.0 */
/* The first bytes of a connection: more of them change no result, and neither do other records. */
#include "base/endian.h"
#include "egress/client-hello.h"
#include "fuzz.h"

static bool hello_eq(const struct client_hello *a, const struct client_hello *b)
{
	return a->sni == b->sni && a->has_ech == b->has_ech &&
	       (a->sni != CLIENT_HELLO_SNI_PRESENT || strcmp(a->name.text, b->name.text) == 0);
}

/* The same message in records of 7 bytes. */
static void split_check(const uint8_t *in, size_t size, const struct client_hello *want)
{
	uint8_t *message = calloc(1, size), *out = calloc(2, size);
	struct client_hello got;
	size_t all = 0, n = 0, at = 0, end;

	CHECK(message && out);
	do {
		size_t len = be16_get(in + at + 3);

		CHECK(len && len <= size - at - 5);
		memcpy(message + all, in + at + 5, len);
		all += len;
		at += 5 + len;
		end = all < 4 ? 4 : 4 + (size_t)be16_get(message + 2);
	} while (all < end);
	CHECK(all == end);
	for (size_t i = 0; i < all; i += 7) {
		size_t len = all - i < 7 ? all - i : 7;

		memcpy(out + n, (uint8_t[]){ 22, 3, 3, 0, (uint8_t)len }, 5);
		memcpy(out + n + 5, message + i, len);
		n += 5 + len;
	}
	if (n <= CLIENT_HELLO_MAX)
		CHECK(client_hello_read(out, n, &got) == CLIENT_HELLO_DONE && hello_eq(&got, want));
	free(message);
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *in = fuzz_copy(data, size);
	struct client_hello whole, part;
	struct host_name again;
	enum client_hello_result r = client_hello_read(in, size, &whole);
	size_t cut = size ? in[size - 1] * size / 256 : 0;
	enum client_hello_result before = client_hello_read(in, cut, &part);

	CHECK(before == CLIENT_HELLO_MORE || before == r);
	CHECK(r != CLIENT_HELLO_MORE || size < CLIENT_HELLO_MAX);
	if (r == CLIENT_HELLO_DONE) {
		CHECK(before != CLIENT_HELLO_DONE || hello_eq(&whole, &part));
		CHECK(whole.sni != CLIENT_HELLO_SNI_PRESENT ||
		      host_name_parse((struct slice){ whole.name.text, whole.name.n }, &again) ==
			      0);
		split_check(in, size, &whole);
	}
	free(in);
	return 0;
}
