/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked for is inside the file, whatever the header and the size; one way to write it
 * is read back as the same bytes. */
#include <stdio.h>

#include "file/http-range.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t first, n, again, m, of = 0;
	char text[96];
	int len;

	if (size < sizeof(of))
		return 0;
	memcpy(&of, data, sizeof(of));
	of &= INT64_MAX;
	char *in = fuzz_copy(data + sizeof(of), size - sizeof(of));
	enum http_range_kind kind =
		http_range_parse((struct slice){ in, size - sizeof(of) }, of, &first, &n);

	free(in);
	CHECK(kind != HTTP_RANGE_ALL || (first == 0 && n == of));
	if (kind != HTTP_RANGE_PART)
		return 0;
	CHECK(n && first < of && n <= of - first);
	len = snprintf(text, sizeof(text), "bytes=%llu-%llu", (unsigned long long)first,
		       (unsigned long long)(first + n - 1));
	CHECK(len > 0 && (size_t)len < sizeof(text));
	CHECK(http_range_parse(slice_of(text), of, &again, &m) == HTTP_RANGE_PART &&
	      again == first && m == n);
	return 0;
}
