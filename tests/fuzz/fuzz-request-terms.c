/* SPDX-License-Identifier: Apache-2.0 */
/* The target of a request: a path that is clear has no part that means another one, is the same
 * with a query behind it, and encoded in full it is clear and the same.  Bytes that are terms match
 * or not, and with less in the request never more. */
#include "egress/request-terms.h"
#include "fuzz.h"

static void path_check(struct slice target)
{
	auto_buf path = BUF_INIT(KIB(64)), encoded = BUF_INIT(KIB(256)), again = BUF_INIT(KIB(64));

	if (egress_path_decode(target, &path) < 0)
		return;
	CHECK(path.len && path.data[0] == '/' && path.len <= target.n);
	CHECK(!memmem(path.data, path.len, "//", 2) && !memchr(path.data, 0, path.len));
	CHECK(!memmem(path.data, path.len, "/../", 4) && !memmem(path.data, path.len, "/./", 3));
	for (size_t i = 0; i < path.len; i++)
		CHECK((path.data[i] == '/'
			       ? buf_putc(&encoded, '/')
			       : buf_printf(&encoded, "%%%02X", (unsigned char)path.data[i])) >= 0);
	CHECK(buf_puts(&encoded, "?a/../b") >= 0);
	CHECK(egress_path_decode((struct slice){ encoded.data, encoded.len }, &again) == 0);
	CHECK(again.len == path.len && memcmp(again.data, path.data, path.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	struct slice bytes = { in, size };
	struct egress_request get = { SLICE("GET"), SLICE("/v1/a"), false },
			      unclear = { SLICE("GET"), {}, false };
	struct egress_term t;

	if (size > KIB(32)) {
		free(in);
		return 0;
	}
	path_check(bytes);
	if (egress_terms_are_valid(bytes)) {
		enum egress_match clear = egress_terms_match(bytes, &get),
				  not_clear = egress_terms_match(bytes, &unclear);

		CHECK(clear != EGRESS_UNCLEAR);
		CHECK(not_clear == clear || not_clear == EGRESS_UNCLEAR);
		CHECK(egress_terms_credential(bytes).n <= EGRESS_CREDENTIAL_MAX);
		while (egress_terms_next(&bytes, &t))
			CHECK(t.kind < EGRESS_TERM_NUM && t.text.n <= EGRESS_PATTERN_MAX);
	}
	free(in);
	return 0;
}
