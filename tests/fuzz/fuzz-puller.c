/* SPDX-License-Identifier: Apache-2.0 */
/* What cayd and cay-pull send each other: the first byte is how many fds came. */
#include "fuzz.h"
#include "wire/puller.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	union {
		struct puller_request q;
		struct puller_reply a;
	} in = {};
	struct reference ref;
	size_t n = size ? size - 1 : 0;

	if (!size || n > sizeof(in))
		return 0;
	memcpy(&in, data + 1, n);
	if (puller_request_check(&in.q, n, data[0], &ref) == 0) {
		CHECK(n == sizeof(in.q) && data[0] == 1 && in.q.file_max);
		CHECK(ref.host.n && ref.path.n);
		CHECK(ref.host.p >= in.q.reference &&
		      ref.path.p + ref.path.n <= in.q.reference + REFERENCE_MAX);
	}
	if (puller_reply_check(&in.a, n, data[0]) == 0) {
		CHECK(n == sizeof(in.a) && in.a.failure < PULLER_FAILURES);
		CHECK((data[0] == 1) == (in.a.kind == PULLER_DONE));
		CHECK(puller_failures[in.a.failure].text);
	}
	return 0;
}
