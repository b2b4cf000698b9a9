/* SPDX-License-Identifier: Apache-2.0 */
/* A reference that is accepted is its parts, in order, and plain. */
#include "fuzz.h"
#include "text/reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	auto_buf whole = BUF_INIT(KIB(1));
	struct reference r;

	if (reference_parse((struct slice){ in, size }, &r) == 0) {
		size_t n = r.host.n + 1 + r.path.n + (r.tag.p ? 1 + r.tag.n : 0) +
			   (r.digest.p ? 1 + r.digest.n : 0);

		CHECK(n == size && size <= REFERENCE_MAX && reference_is_host(r.host));
		for (size_t i = 0; i < size; i++)
			CHECK(in[i] > ' ' && in[i] < 127 &&
			      !strchr("\"'$`\\;&|<>()?#%*[]{}!~,=+", in[i]));
	}
	if (reference_complete(SLICE("r.test/library"), (struct slice){ in, size }, &whole) >= 0)
		CHECK(reference_parse((struct slice){ whole.data, whole.len }, &r) == 0);
	free(in);
	return 0;
}
