/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox writes beside its output, in pieces whose size the first byte says:
 * nothing is read behind the bytes there are, a report is only told to who knows the
 * nonce, and the same bytes say the same however they are cut. */
#include "fuzz.h"
#include "init/shell/shell-report.h"

#define NONCE "0123456789abcdef"

static enum shell_report_result take(struct shell_report *s, const char *p, size_t n, size_t piece)
{
	enum shell_report_result said = SHELL_REPORT_MORE;

	shell_report_expect(s, NONCE);
	while (n && said == SHELL_REPORT_MORE) {
		size_t part = piece < n ? piece : n;
		char *copy = fuzz_copy((const uint8_t *)p, part);

		said = shell_report_add_bytes(s, copy, part);
		free(copy);
		p += part;
		n -= part;
	}
	return said;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct shell_report a, b;
	const char *p = (const char *)data + 1;
	enum shell_report_result said;

	if (size < 2)
		return 0;
	said = take(&a, p, size - 1, (size_t)data[0] + 1);
	CHECK(take(&b, p, size - 1, 1) == said);
	CHECK(a.len <= sizeof(a.data));
	if (said == SHELL_REPORT_COMPLETE) {
		CHECK(memmem(p, size - 1, "/dev/null/" NONCE ":", 27));
		CHECK(a.status <= 255 && a.status == b.status && slice_eq(a.cwd, b.cwd));
		CHECK(a.cwd.n < SHELL_REPORT_CWD_MAX && (!a.cwd.n || a.cwd.p[0] == '/'));
		CHECK(!memchr(a.cwd.p, 0, a.cwd.n));
	}
	return 0;
}
