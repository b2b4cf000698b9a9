/* SPDX-License-Identifier: Apache-2.0 */
/* What one end of the push socket says to the other. */
#include "fuzz.h"
#include "wire/push.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *in = fuzz_copy(data, size), out[PUSH_SIZE];
	struct push p;

	if (size == PUSH_SIZE && push_decode(in, &p) == 0) {
		push_encode(&p, out);
		CHECK(memcmp(in, out, PUSH_SIZE) == 0);
		CHECK(p.kind > PUSH_NONE && p.kind < PUSH_KINDS);
	}
	free(in);
	return 0;
}
