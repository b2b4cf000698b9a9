/* SPDX-License-Identifier: Apache-2.0 */
/* A header that is taken for a value is that value, bare or in base64: nothing else is. */
#include "fuzz.h"
#include "mcp/mcp-rpc.h"
#include "text/base64.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size), text[2048];
	struct slice want = { in, size }, value = slice_cut(&want, '\n'), bare;

	if (!want.p)
		want = SLICE("exec");
	bare = slice_trim(value);
	if (mcp_rpc_header_equals(value, want)) {
		bool encoded = bare.n >= 11 && memcmp(bare.p, "=?base64?", 9) == 0;

		CHECK(slice_eq(bare, want) || encoded);
		if (!slice_eq(bare, want)) {
			CHECK(bare.n == 11 + BASE64_TEXT(want.n) && bare.n < sizeof(text));
			base64_encode((const uint8_t *)want.p, want.n, text);
			CHECK(memcmp(text, bare.p + 9, BASE64_TEXT(want.n)) == 0);
		}
	}
	free(in);
	return 0;
}
