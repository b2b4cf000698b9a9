/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a packer that may have been taken over. */
#include "archive/change-row.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes = fuzz_copy(data, size);
	size_t at = 0;
	ssize_t n;

	do {
		struct change_row row;

		n = change_row_parse(bytes + at, size - at, &row);
		CHECK(n == -EINVAL || (n >= 0 && (size_t)n <= size - at));
		if (n > 0 && row.kind != CHANGE_END) {
			CHECK(row.kind < CHANGE_NUM_KINDS && row.name.n <= TAR_NAME_MAX);
			CHECK(row.size <= INT64_MAX && (size_t)n == CHANGE_HEAD + row.name.n);
			CHECK(!row.name.n ||
			      (row.name.p[0] != '/' && row.name.p[row.name.n - 1] != '/' &&
			       !memchr(row.name.p, 0, row.name.n)));
		}
		at += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	free(bytes);
	return 0;
}
