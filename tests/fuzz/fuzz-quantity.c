/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes and thousandths of one text agree; what is written reads back. */
#include "fuzz.h"
#include "text/quantity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	struct slice s = { in, size };
	uint64_t bytes, milli, back;
	bool has_bytes = quantity_parse_bytes(s, &bytes) == 0,
	     has_milli = quantity_parse_milli(s, &milli) == 0;

	if (has_bytes && has_milli)
		CHECK(milli == bytes * 1000 && milli / 1000 == bytes);
	if (has_bytes) {
		char text[QUANTITY_TEXT_MAX];

		quantity_format(bytes, text);
		CHECK(quantity_parse_bytes(slice_of(text), &back) == 0 && back == bytes);
	}
	free(in);
	return 0;
}
