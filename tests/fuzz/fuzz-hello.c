/* SPDX-License-Identifier: Apache-2.0 */
/* cay-init's hello, written by whoever took PID 1 over. */
#include "fuzz.h"
#include "wire/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *in = fuzz_copy(data, size), out[HELLO_SIZE];
	struct hello h;
	int v;

	if (hello_decode(in, size, &h) == 0) {
		hello_encode(&h, out);
		CHECK(size == HELLO_SIZE && memcmp(in, out, size) == 0);
		v = hello_choose_version(&h, HELLO_PROTO_MIN, HELLO_PROTO_MAX);
		CHECK(v < 0 || (v >= h.proto_min && v <= h.proto_max));
	}
	free(in);
	return 0;
}
