/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a context: refused without a word of its token, or such that its token can stand
 * in a header, goes only where it may, and is written so that it reads the same. */
#include "cli/client/context.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char mark[] = "s3cret";
	char *text = fuzz_copy(data, size);
	struct context c = {}, d = {};
	auto_buf again = BUF_INIT(KIB(32));
	struct cay_err err = {};
	int r = context_parse((struct slice){ text, size }, &c, &err);

	free(text);
	if (r < 0) {
		/* the host may be named, and may be called anything */
		CHECK(err.code == CAY_E_INVALID);
		CHECK(!strstr(err.msg, mark) || strstr(err.msg, "send the token to") ||
		      strstr(err.msg, "neither a host name"));
		return 0;
	}
	CHECK(c.url.tls || c.url.loopback);
	CHECK(c.token[0] && (!c.ca[0] || c.ca[0] == '/'));
	for (const char *p = c.token; *p; p++)
		CHECK(*p > ' ' && *p <= '~');
	CHECK(context_format(&c, &again) == 0);
	CHECK(context_parse((struct slice){ again.data, again.len }, &d, &err) == 0);
	CHECK(memcmp(&c.url, &d.url, sizeof(c.url)) == 0 && str_eq(c.token, d.token) &&
	      str_eq(c.ca, d.ca));
	return 0;
}
