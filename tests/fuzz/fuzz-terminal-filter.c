/* SPDX-License-Identifier: Apache-2.0 */
/* Output of a sandbox, as `cay kernel run` shows it on a terminal: cut at any place it is the same
 * text, valid UTF-8, and nothing in it acts on a terminal but line ends, tabs, carriage returns,
 * backspaces and colours.  A drawing is base64 between our own words. */
#include "cli/kernel/picture.h"
#include "cli/print/terminal-filter.h"
#include "fuzz.h"

/* How many bytes at p a terminal may get; 0: it may not. */
static size_t harmless(const char *p, size_t n, const char *controls)
{
	size_t len = utf8_len(p, n), i = 2;

	if (p[0] == '\x1b' && strchr(controls, '\x1b') && n > 2 && p[1] == '[') {
		while (i < n && p[i] && strchr("0123456789;:", p[i]))
			i++;
		return i < n && p[i] == 'm' ? i + 1 : 0;
	}
	if (len == 1 && ((unsigned char)p[0] < 0x20 || p[0] == 0x7f))
		return p[0] && p[0] != '\x1b' && strchr(controls, p[0]);
	if (len == 2 && (unsigned char)p[0] == 0xc2 && (unsigned char)p[1] < 0xa0)
		return 0;
	return len;
}

static void check_harmless(const struct buf *b, const char *controls)
{
	for (size_t at = 0, n; at < b->len; at += n) {
		n = harmless(b->data + at, b->len - at, controls);
		CHECK(n);
	}
}

static void filter(const char *in, size_t n, size_t step, struct buf *out)
{
	struct terminal_filter f = {};

	for (size_t at = 0; at < n; at += step) {
		size_t part = n - at < step ? n - at : step;

		CHECK(terminal_filter_add(&f, (struct slice){ in + at, part }, out) == 0);
		CHECK(f.n_held < TERMINAL_FILTER_HELD);
	}
	CHECK(terminal_filter_finish(&f, out) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_buf whole = BUF_INIT(MIB(16)), lines = BUF_INIT(MIB(16)), drawing = BUF_INIT(MIB(16));
	char *in = fuzz_copy(data, size);

	filter(in, size, size ? size : 1, &whole);
	check_harmless(&whole, "\n\t\r\b\x1b");
	for (size_t step = 1; step < 12; step += 5) {
		auto_buf cut = BUF_INIT(MIB(16));

		filter(in, size, step, &cut);
		CHECK(cut.len == whole.len && memcmp(buf_str(&cut), buf_str(&whole), cut.len) == 0);
	}
	CHECK(print_append_lines(&lines, (struct slice){ in, size }) == 0);
	check_harmless(&lines, "\n\t");
	if (picture_append_drawing(&drawing, (struct slice){ in, size }) == 0)
		for (const char *p = buf_str(&drawing); *p; p++)
			CHECK(*p == '\x1b' || *p == '\n' || (*p >= 0x20 && *p < 0x7f));
	free(in);
	return 0;
}
