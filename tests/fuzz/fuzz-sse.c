/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events as `cay events` reads them: cut at any place they are the same
 * events, none larger than its limit, and what was refused once stays refused. */
#include "cli/client/sse.h"
#include "fuzz.h"

struct seen {
	bool refused;
	size_t events;
	uint64_t sum;
};

static struct seen feed(const char *in, size_t n, size_t step)
{
	auto_sse s = SSE_INIT;
	struct seen seen = {};

	while (n) {
		size_t part = step && step < n ? step : n;
		struct sse_item item;
		ssize_t used = sse_read(&s, in, part, &item);

		if (used < 0) {
			CHECK(sse_read(&s, in, part, &item) < 0);
			seen.refused = true;
			return seen;
		}
		CHECK(used > 0 && (size_t)used <= part);
		if (item.event) {
			CHECK(item.data.n < SSE_MAX && strlen(item.event) < SSE_NAME_MAX);
			seen.events++;
			for (size_t i = 0; i < item.data.n; i++)
				seen.sum = seen.sum * 31 + (uint8_t)item.data.p[i];
		}
		in += used;
		n -= (size_t)used;
	}
	return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	struct seen whole = feed(in, size, 0);

	for (size_t step = 1; step < 12; step += 5) {
		struct seen cut = feed(in, size, step);

		CHECK(cut.events == whole.events && cut.sum == whole.sum);
		CHECK(cut.refused == whole.refused);
	}
	free(in);
	return 0;
}
