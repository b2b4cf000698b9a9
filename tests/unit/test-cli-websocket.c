/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/websocket.h"

#include "unit.h"

static void the_example_of_the_rfc(void **)
{
	char accept[WEBSOCKET_ACCEPT_LEN + 1], a[WEBSOCKET_KEY_LEN + 1], b[WEBSOCKET_KEY_LEN + 1];

	assert_int_equal(websocket_compute_accept("dGhlIHNhbXBsZSBub25jZQ==", accept), 0);
	assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	assert_int_equal(websocket_create_key(a), 0);
	assert_int_equal(websocket_create_key(b), 0);
	assert_string_not_equal(a, b);
}

static void what_a_server_may_say(void **)
{
	static const struct {
		const char *bytes;
		size_t n;
		ssize_t want;
		unsigned code; /* of a Close */
	} rows[] = {
		{ "\x82\x02hi", 4, 4, 0 },
		{ "\x82\x00", 2, 2, 0 },
		{ "\x82\x02h", 3, 0, 0 },
		{ "\x82", 1, 0, 0 },
		{ "\x88\x00", 2, 2, 1005 },
		{ "\x88\x02\x03\xe8", 4, 4, 1000 },
		{ "\x88\x04\x0f\xa1no", 6, 6, 4001 },
		{ "\x89\x01x", 3, 3, 0 },
		{ "\x8a\x00", 2, 2, 0 },
		{ "\x88\x01\x03", 3, -EPROTO, 0 },       /* half a code */
		{ "\x81\x02hi", 4, -EPROTO, 0 },         /* text */
		{ "\x02\x02hi", 4, -EPROTO, 0 },         /* a fragment */
		{ "\x80\x02hi", 4, -EPROTO, 0 },         /* the end of one */
		{ "\xc2\x02hi", 4, -EPROTO, 0 },         /* an extension */
		{ "\x82\x82zzzzhi", 8, -EPROTO, 0 },     /* a mask */
		{ "\x83\x00", 2, -EPROTO, 0 },           /* no such opcode */
		{ "\x8b\x00", 2, -EPROTO, 0 },           /* nor this */
		{ "\x89\x7e\x00\x7e", 4, -EPROTO, 0 },   /* a long ping */
		{ "\x82\x7e\x00\x02hi", 6, -EPROTO, 0 }, /* spelled too long */
		{ "\x82\x7f\0\0\0\0\0\0\xff\xff", 10, -EPROTO, 0 },
		{ "\x82\x7f\0\0\0\0\0\1\0\x10", 10, 0, 0 },       /* the longest */
		{ "\x82\x7f\0\0\0\0\0\1\0\x11", 10, -EPROTO, 0 }, /* one more */
		{ "\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff", 10, -EPROTO, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct websocket_message m;
		ssize_t n = websocket_read_message((const uint8_t *)rows[i].bytes, rows[i].n, &m);

		row_check(i, n == rows[i].want);
		if (rows[i].code)
			row_check(i, m.kind == WEBSOCKET_CLOSE && m.code == rows[i].code);
	}
}

static void what_we_say_is_masked(void **)
{
	static const size_t sizes[] = { 0, 1, 125, 126, 0xffff, 0x10000, WEBSOCKET_MESSAGE_MAX };
	static uint8_t data[WEBSOCKET_MESSAGE_MAX];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t n = sizes[i], head = n <= 125 ? 2 : n <= 0xffff ? 4 : 10;
		auto_buf out = BUF_INIT(KIB(128));
		struct websocket_message m;
		uint8_t *p, mask[4];

		row_check(i, websocket_write_message(&out, WEBSOCKET_BINARY, data, n) == 0 &&
				     out.len == head + 4 + n);
		p = (uint8_t *)out.data;
		row_check(i, p[0] == 0x82 && p[1] & 0x80);
		memcpy(mask, p + head, 4);
		/* as a server's, without the mask, it reads back */
		p[1] &= 0x7f;
		memmove(p + head, p + head + 4, n);
		for (size_t k = 0; k < n; k++)
			p[head + k] ^= mask[k % 4];
		row_check(i, websocket_read_message(p, head + n, &m) == (ssize_t)(head + n) &&
				     m.data.n == n);
		row_check(i, memcmp(m.data.p, data, n) == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_example_of_the_rfc),
		cmocka_unit_test(what_a_server_may_say),
		cmocka_unit_test(what_we_say_is_masked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
