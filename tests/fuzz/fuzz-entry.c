/* SPDX-License-Identifier: Apache-2.0 */
/* What whoever took PID 1 over says of the main program. */
#include "fuzz.h"
#include "wire/entry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *in = fuzz_copy(data, size), out[ENTRY_SIZE];
	struct entry e;

	if (entry_decode(in, size, &e) == 0) {
		entry_encode(&e, out);
		CHECK(size == ENTRY_SIZE && memcmp(in, out, size) == 0);
		CHECK(e.state == ENTRY_RUNNING || e.state == ENTRY_ENDED);
	}
	free(in);
	return 0;
}
