/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox writes beside its output, in pieces whose size the first byte says:
 * nothing is read behind the bytes there are, a report is only told to who knows the
 * nonce, and the same bytes say the same however they are cut. */
#include "fuzz.h"
#include "init/side.h"

#define NONCE "0123456789abcdef"

static enum side_said take(struct side *s, const char *p, size_t n, size_t piece)
{
	enum side_said said = SIDE_MORE;

	side_expect(s, NONCE);
	while (n && said == SIDE_MORE) {
		size_t part = piece < n ? piece : n;
		char *copy = fuzz_copy((const uint8_t *)p, part);

		said = side_take(s, copy, part);
		free(copy);
		p += part;
		n -= part;
	}
	return said;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct side a, b;
	const char *p = (const char *)data + 1;
	enum side_said said;

	if (size < 2)
		return 0;
	said = take(&a, p, size - 1, (size_t)data[0] + 1);
	CHECK(take(&b, p, size - 1, 1) == said);
	CHECK(a.len <= sizeof(a.data));
	if (said == SIDE_REPORT) {
		CHECK(memmem(p, size - 1, "/dev/null/" NONCE ":", 27));
		CHECK(a.status <= 255 && a.status == b.status && slice_eq(a.cwd, b.cwd));
		CHECK(a.cwd.n < SIDE_CWD_MAX && (!a.cwd.n || a.cwd.p[0] == '/'));
		CHECK(!memchr(a.cwd.p, 0, a.cwd.n));
	}
	return 0;
}
