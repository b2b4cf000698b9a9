/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/proxy-header.h"

#include <errno.h>

#include "unit.h"

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
/* 192.0.2.7:56324 to 198.51.100.1:443 */
#define V4 "\xc0\x00\x02\x07\xc6\x33\x64\x01\xdc\x04\x01\xbb"
/* 2001:db8::7 and port 1 to 2001:db8::8 and port 2 */
#define V6 \
	"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x08" \
	"\0\x01\0\x02"
#define MAPPED "\0\0\0\0\0\0\0\0\0\0\xff\xff"
#define BYTES(text) { text, sizeof(text) - 1 }

static const struct {
	struct slice in;
	int want;
	size_t left;
	struct slice address; /* n 0: none */
	uint16_t port;
} rows[] = {
	{ BYTES(SIGNATURE "\x21\x11\0\x0c" V4), PROXY_HEADER_DONE, 0,
	  BYTES(MAPPED "\xc0\0\x02\x07"), 56324 },
	{ BYTES(SIGNATURE "\x21\x11\0\x0c" V4 "GET /"), PROXY_HEADER_DONE, 5,
	  BYTES(MAPPED "\xc0\0\x02\x07"), 56324 },
	{ BYTES(SIGNATURE "\x21\x11\0\x13" V4 "\x04\0\x04zzzzGET"), PROXY_HEADER_DONE, 3,
	  BYTES(MAPPED "\xc0\0\x02\x07"), 56324 },
	{ BYTES(SIGNATURE "\x21\x21\0\x24" V6 "x"), PROXY_HEADER_DONE, 1,
	  BYTES("\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07"), 1 },
	{ BYTES(SIGNATURE "\x20\0\0\0"
			  "GET"),
	  PROXY_HEADER_DONE,
	  3,
	  {},
	  0 },
	{ BYTES(SIGNATURE "\x20\x11\0\x0c" V4), PROXY_HEADER_DONE, 0, {}, 0 },
	{ BYTES(SIGNATURE "\x21\0\0\x01"
			  "xGET"),
	  PROXY_HEADER_DONE,
	  3,
	  {},
	  0 },
	{ BYTES("GET / HTTP/1.1"), PROXY_HEADER_NONE, 14, {}, 0 },
	{ BYTES("\x16\x03\x01"), PROXY_HEADER_NONE, 3, {}, 0 },
	{ BYTES("PROXY TCP4 192.0.2.7 192.0.2.8 1 2\r\n"), PROXY_HEADER_NONE, 36, {}, 0 },
	{ BYTES(""), PROXY_HEADER_MORE, 0, {}, 0 },
	{ BYTES(SIGNATURE "\x21\x11\0\x0c"
			  "\xc0\0\x02\x07\xc6\x33\x64\x01\xdc\x04\x01"),
	  PROXY_HEADER_MORE,
	  0,
	  {},
	  0 },
	/* refused: what begins like a header, versions, commands, families, lengths */
	{ BYTES("\r\nGET / HTTP/1.1"), -EPROTO, 0, {}, 0 },
	{ BYTES(SIGNATURE "\x11\x11\0\x0c" V4), -EPROTO, 0, {}, 0 },
	{ BYTES(SIGNATURE "\x22\x11\0\x0c" V4), -EPROTO, 0, {}, 0 },
	{ BYTES(SIGNATURE "\x21\x12\0\x0c" V4), -EPROTO, 0, {}, 0 },
	{ BYTES(SIGNATURE "\x21\x31\0\xd8" V4), -EPROTO, 0, {}, 0 },
	{ BYTES(SIGNATURE "\x21\x11\0\x0b" V4), -EPROTO, 0, {}, 0 },
	{ BYTES(SIGNATURE "\x21\x21\0\x23" V6), -EPROTO, 0, {}, 0 },
	{ BYTES(SIGNATURE "\x21\x11\x0f\xf1" V4), -EPROTO, 0, {}, 0 },
	{ BYTES(SIGNATURE "\x20\0\xff\xff"), -EPROTO, 0, {}, 0 },
};

static void check(size_t i, const struct proxy_header *h, int r, size_t left)
{
	row_check(i, r == rows[i].want);
	if (r < 0)
		return;
	row_check(i, left == rows[i].left);
	row_check(i, h->has_address == (rows[i].address.n > 0));
	if (h->has_address)
		row_check(i, memcmp(h->address, rows[i].address.p, 16) == 0 &&
				     h->port == rows[i].port);
}

static void at_once(void **)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct proxy_header h = {};
		struct slice in = rows[i].in;
		int r = proxy_header_feed(&h, &in);

		check(i, &h, r, in.n);
	}
}

static void byte_by_byte(void **)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct proxy_header h = {};
		size_t at = 0;
		int r = PROXY_HEADER_MORE;

		while (at < rows[i].in.n && r == PROXY_HEADER_MORE) {
			struct slice in = { rows[i].in.p + at, 1 };

			r = proxy_header_feed(&h, &in);
			at += 1 - in.n;
		}
		check(i, &h, r, rows[i].in.n - at);
	}
}

/* The longest: what follows it is not its own. */
static void fields_are_skipped(void **)
{
	static char text[PROXY_HEADER_MAX + 3] = SIGNATURE "\x21\x11\x0f\xf0" V4;
	struct slice in = { text, sizeof(text) };
	struct proxy_header h = {};

	assert_int_equal(proxy_header_feed(&h, &in), PROXY_HEADER_DONE);
	assert_int_equal(in.n, 3);
	assert_int_equal(h.port, 56324);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(at_once),
					    cmocka_unit_test(byte_by_byte),
					    cmocka_unit_test(fields_are_skipped) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
