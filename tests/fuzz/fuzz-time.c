/* SPDX-License-Identifier: Apache-2.0 */
/* Instants agree with what clk_format_rfc3339() writes; durations survive a round trip. */
#include "fuzz.h"
#include "text/time.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	struct slice s = { in, size };
	uint64_t v, back;

	if (time_parse(s, &v) == 0) {
		char text[CLK_TEXT_LEN + 1];

		clk_format_rfc3339(v, text);
		CHECK(memcmp(text, in, 19) == 0);
		CHECK(time_parse(slice_of(text), &back) == 0);
		CHECK(back == v / NS_PER_MS * NS_PER_MS);
	}
	if (duration_parse(s, &v) == 0) {
		char text[DURATION_TEXT_MAX];

		duration_format(v, text);
		CHECK(duration_parse(slice_of(text), &back) == 0 && back == v);
	}
	free(in);
	return 0;
}
