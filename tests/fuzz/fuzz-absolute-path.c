/* SPDX-License-Identifier: Apache-2.0 */
/* A path of a request becomes the one spelling of it. */
#include "fuzz.h"
#include "text/absolute-path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *in = fuzz_copy(data, size);
	struct slice path = { (const char *)in, size };
	auto_buf one = BUF_INIT(4095), two = BUF_INIT(4095);

	if (absolute_path_format("/workspace", path, &one) >= 0) {
		CHECK(one.len && one.data[0] == '/');
		CHECK(!memmem(one.data, one.len, "//", 2) && !memmem(one.data, one.len, "/./", 3) &&
		      !memmem(one.data, one.len, "/../", 4));
		CHECK(one.len == 1 || one.data[one.len - 1] != '/');
		/* its spelling is its own */
		CHECK(absolute_path_format("/other", (struct slice){ one.data, one.len }, &two) >=
		      0);
		CHECK(one.len == two.len && memcmp(one.data, two.data, one.len) == 0);
	}
	free(in);
	return 0;
}
