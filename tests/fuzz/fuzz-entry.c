/* SPDX-License-Identifier: Apache-2.0 */
/* What whoever took PID 1 over says of the main program. */
#include "fuzz.h"
#include "wire/entrypoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *in = fuzz_copy(data, size), out[ENTRYPOINT_STATUS_SIZE];
	struct entrypoint_status e;

	if (entrypoint_status_decode(in, size, &e) == 0) {
		entrypoint_status_encode(&e, out);
		CHECK(size == ENTRYPOINT_STATUS_SIZE && memcmp(in, out, size) == 0);
		CHECK(e.state == ENTRYPOINT_RUNNING || e.state == ENTRYPOINT_ENDED);
	}
	free(in);
	return 0;
}
