/* SPDX-License-Identifier: Apache-2.0 */
/* What decodes has no NUL and survives encoding and decoding again. */
#include "fuzz.h"
#include "text/percent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	char *out = malloc(size + 1), *text = malloc(3 * size + 1), *again = malloc(3 * size + 1);
	size_t n, len, back;

	CHECK(out && text && again);
	if (percent_decode(in, size, out, &n) == 0) {
		CHECK(n <= size && !memchr(out, 0, n));
		len = percent_encode(out, n, text);
		CHECK(len <= 3 * n);
		CHECK(percent_decode(text, len, again, &back) == 0);
		CHECK(back == n && memcmp(again, out, n) == 0);
	}
	free(again);
	free(text);
	free(out);
	free(in);
	return 0;
}
