/* SPDX-License-Identifier: Apache-2.0 */
/* Messages as RFC 6143 and the list of extensions at rfbproto have them */
#include "edge/desktop/rfb-filter.h"

#include "unit.h"

#define HANDSHAKE "RFB 003.008\n\x01\x01"
#define BYTES(s) ((struct slice){ s, sizeof(s) - 1 })

struct message {
	struct slice bytes;
	bool passes;
};

static const struct message messages[] = {
	/* pixel format */
	{ BYTES("\0\0\0\0\x20\x18\0\1\0\xff\0\xff\0\xff\0\x08\x10\0\0\0"), true },
	/* encodings: none, and two */
	{ BYTES("\2\0\0\0"), true },
	{ BYTES("\2\0\0\2\0\0\0\7\xff\xff\xfe\xc4"), true },
	/* update request */
	{ BYTES("\3\1\0\0\0\0\5\0\3\x20"), true },
	/* continuous updates, and a fence with 3 bytes */
	{ BYTES("\x96\1\0\0\0\0\5\0\3\x20"), true },
	{ BYTES("\xf8\0\0\0\0\0\0\1\3abc"), true },
	{ BYTES("\xf8\0\0\0\0\0\0\1\0"), true },
	/* a key, and one as QEMU has it */
	{ BYTES("\4\1\0\0\0\0\0a"), false },
	{ BYTES("\xff\0\0\1\0\0\0a\0\0\0\x1e"), false },
	/* the mouse, and one with more buttons */
	{ BYTES("\5\1\0\x10\0\x10"), false },
	{ BYTES("\5\x81\0\x10\0\x10\2"), false },
	/* clipboard: text, nothing, and the extended one with 4 bytes */
	{ BYTES("\6\0\0\0\0\0\0\5hello"), false },
	{ BYTES("\6\0\0\0\0\0\0\0"), false },
	{ BYTES("\6\0\0\0\xff\xff\xff\xfc\2\0\0\1"), false },
	/* reboot, and another size with one screen */
	{ BYTES("\xfa\0\1\3"), false },
	{ BYTES("\xfb\0\5\0\3\x20\1\0\0\0\0\1\0\0\0\0\5\0\3\x20\0\0\0\0"), false },
};

/* In pieces of that size; returns the result of the piece that failed. */
static int push_all(struct rfb_filter *f, struct slice in, size_t piece, struct buf *to)
{
	const char *why = NULL;

	while (in.n) {
		size_t n = piece < in.n ? piece : in.n;
		int r = rfb_filter_push(f, (struct slice){ in.p, n }, to, &why);

		assert_int_equal(r == -EPROTO, why != NULL);
		if (r < 0)
			return r;
		in.p += n;
		in.n -= n;
	}
	return 0;
}

static void who_watches_sends_what_changes_nothing(void **)
{
	for (size_t piece = 1; piece < 40; piece++) {
		struct rfb_filter f = {};
		auto_buf in = BUF_INIT(KIB(8)), out = BUF_INIT(KIB(8)), want = BUF_INIT(KIB(8));

		assert_int_equal(buf_puts(&in, HANDSHAKE), 0);
		assert_int_equal(buf_puts(&want, HANDSHAKE), 0);
		/* each message after each other */
		for (size_t i = 0; i < ARRAY_SIZE(messages); i++)
			for (size_t k = 0; k < ARRAY_SIZE(messages); k++) {
				const struct message *both[] = { &messages[i], &messages[k] };

				for (size_t j = 0; j < 2; j++) {
					struct slice b = both[j]->bytes;

					assert_int_equal(buf_append(&in, b.p, b.n), 0);
					if (both[j]->passes)
						assert_int_equal(buf_append(&want, b.p, b.n), 0);
				}
			}
		assert_int_equal(push_all(&f, (struct slice){ in.data, in.len }, piece, &out), 0);
		assert_int_equal(out.len, want.len);
		assert_memory_equal(out.data, want.data, want.len);
	}
}

static void who_controls_sends_everything(void **)
{
	struct rfb_filter f = { .controls = true };
	auto_buf out = BUF_INIT(KIB(8)), want = BUF_INIT(KIB(8));

	assert_int_equal(buf_puts(&want, HANDSHAKE), 0);
	assert_int_equal(push_all(&f, SLICE(HANDSHAKE), 3, &out), 0);
	for (size_t i = 0; i < ARRAY_SIZE(messages); i++) {
		struct slice b = messages[i].bytes;

		assert_int_equal(push_all(&f, b, 5, &out), 0);
		assert_int_equal(buf_append(&want, b.p, b.n), 0);
	}
	assert_int_equal(out.len, want.len);
	assert_memory_equal(out.data, want.data, want.len);
}

/* Nobody asks to be alone on the screen. */
static void viewers_share(void **)
{
	struct rfb_filter f = { .controls = true };
	auto_buf out = BUF_INIT(KIB(1));

	assert_int_equal(push_all(&f, BYTES("RFB 003.008\n\1\0"), 64, &out), 0);
	assert_int_equal(out.data[13], 1);
}

static void what_is_not_known_ends_the_connection(void **)
{
	static const struct slice rows[] = {
		BYTES("RFB 003.003\n"),
		BYTES("RFB 003.889\n"),
		BYTES("GET / HTTP/1"),
		BYTES("RFB 003.008\n\x13"), /* VeNCrypt */
		BYTES("RFB 003.008\n\0"),
		BYTES(HANDSHAKE "\1"),
		BYTES(HANDSHAKE "\7"),
		BYTES(HANDSHAKE "\xfd\1\0\0"), /* other devices */
		BYTES(HANDSHAKE "\xff\1\0\2"), /* sound */
		BYTES(HANDSHAKE "\xf8\0\0\0\0\0\0\1\x41"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t piece = 1; piece < 20; piece += 9) {
			struct rfb_filter f = {};
			auto_buf out = BUF_INIT(KIB(1));

			row_check(i, push_all(&f, rows[i], piece, &out) == -EPROTO);
		}
}

/* 2 GiB of clipboard are counted and not kept. */
static void a_long_message_needs_no_memory(void **)
{
	static const char zeros[KIB(64)];
	struct rfb_filter f = {};
	auto_buf out = BUF_INIT(64);
	const char *why;

	assert_int_equal(push_all(&f, SLICE(HANDSHAKE), 64, &out), 0);
	assert_int_equal(push_all(&f, BYTES("\6\0\0\0\x80\0\0\0"), 64, &out), 0);
	for (uint64_t n = 0; n < UINT64_C(1) << 31; n += sizeof(zeros))
		assert_int_equal(
			rfb_filter_push(&f, (struct slice){ zeros, sizeof(zeros) }, &out, &why), 0);
	assert_int_equal(out.len, 14);
	assert_int_equal(push_all(&f, BYTES("\3\1\0\0\0\0\5\0\3\x20"), 64, &out), 0);
	assert_int_equal(out.len, 24);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_watches_sends_what_changes_nothing),
		cmocka_unit_test(who_controls_sends_everything),
		cmocka_unit_test(viewers_share),
		cmocka_unit_test(what_is_not_known_ends_the_connection),
		cmocka_unit_test(a_long_message_needs_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
