/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "unit.h"
#include "wire/frame.h"

#define BYTES(lit) (const uint8_t *)(lit), .length = sizeof(lit) - 1

static const struct {
	struct frame f;
	const char *head; /* 16 bytes */
	const char *sse;
} golden[] = {
	{ { .type = FRAME_DATA, .stream = FRAME_STDOUT, .offset = 0, .content = BYTES("hi\n") },
	  "\1\1\0\0\3\0\0\0\0\0\0\0\0\0\0\0",
	  "data: {\"s\":\"stdout\",\"o\":0,\"t\":\"hi\\n\"}\n\n" },
	{ { .type = FRAME_DATA,
	    .stream = FRAME_STDERR,
	    .offset = UINT64_C(0x1122334455667788),
	    .content = BYTES("\xFF\xFE") },
	  "\1\2\0\0\2\0\0\0\x88\x77\x66\x55\x44\x33\x22\x11",
	  "data: {\"s\":\"stderr\",\"o\":1234605616436508552,\"b64\":\"//4=\"}\n\n" },
	{ { .type = FRAME_DATA, .stream = FRAME_STDIN, .offset = 7, .content = BYTES("x") },
	  "\1\0\0\0\1\0\0\0\7\0\0\0\0\0\0\0",
	  "data: {\"s\":\"stdin\",\"o\":7,\"t\":\"x\"}\n\n" },
	{ { .type = FRAME_GAP,
	    .stream = FRAME_STDOUT,
	    .offset = 5,
	    .content = BYTES("\0\1\0\0\0\0\0\0") },
	  "\2\1\0\0\10\0\0\0\5\0\0\0\0\0\0\0",
	  "event: gap\ndata: {\"s\":\"stdout\",\"o\":5,\"n\":256}\n\n" },
	{ { .type = FRAME_END, .content = BYTES("{\"reason\":\"exit\",\"exit_code\":0}") },
	  "\3\0\0\0\37\0\0\0\0\0\0\0\0\0\0\0",
	  "event: end\ndata: {\"reason\":\"exit\",\"exit_code\":0}\n\n" },
	{ { .type = FRAME_ERROR, .content = BYTES("{}") },
	  "\4\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0",
	  "event: error\ndata: {}\n\n" },
};

static void the_bytes_are_fixed(void **)
{
	for (size_t i = 0; i < ARRAY_SIZE(golden); i++) {
		auto_buf wire = BUF_INIT(4096), sse = BUF_INIT(4096);
		const struct frame *f = &golden[i].f;
		struct frame back;

		row_check(i, frame_encode(f, &wire) == 0);
		row_check(i, wire.len == FRAME_HEAD + f->length);
		row_check(i, memcmp(wire.data, golden[i].head, FRAME_HEAD) == 0);
		row_check(i, frame_decode((uint8_t *)wire.data, wire.len, &back) == (int)wire.len);
		row_check(i, back.type == f->type && back.stream == f->stream &&
				     back.offset == f->offset && back.length == f->length);
		row_check(i, memcmp(back.content, f->content, f->length) == 0);
		row_check(i, frame_to_sse(&back, &sse) == 0);
		assert_text(&sse, golden[i].sse);
	}
	assert_int_equal(frame_gap_decode(&golden[3].f), 256);
	assert_string_equal(frame_stream_name(FRAME_STDERR), "stderr");
}

static void a_part_of_a_frame_asks_for_more(void **)
{
	auto_buf wire = BUF_INIT(4096);
	struct frame back;

	assert_int_equal(frame_encode(&golden[0].f, &wire), 0);
	for (size_t n = 0; n < wire.len; n++)
		assert_int_equal(frame_decode((uint8_t *)wire.data, n, &back), 0);
	assert_int_equal(buf_append(&wire, "\1\1", 2), 0);
	assert_int_equal(frame_decode((uint8_t *)wire.data, wire.len, &back), FRAME_HEAD + 3);
}

static void what_breaks_the_rules_is_refused(void **)
{
	static const char *const bad[] = {
		"\0\1\0\0\1\0\0\0\0\0\0\0\0\0\0\0",                 /* no such type */
		"\7\1\0\0\1\0\0\0\0\0\0\0\0\0\0\0",                 /* no such type */
		"\1\4\0\0\1\0\0\0\0\0\0\0\0\0\0\0",                 /* no such stream */
		"\1\1\1\0\1\0\0\0\0\0\0\0\0\0\0\0",                 /* not zero */
		"\1\1\0\1\1\0\0\0\0\0\0\0\0\0\0\0",                 /* not zero */
		"\1\1\0\0\1\0\x10\0\0\0\0\0\0\0\0\0",               /* 1 MiB + 1 */
		"\1\1\0\0\xff\xff\xff\xff\0\0\0\0\0\0\0\0",         /* 4 GiB */
		"\1\1\0\0\2\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff", /* past the last offset */
		"\2\1\0\0\7\0\0\0\0\0\0\0\0\0\0\0",                 /* a gap has 8 bytes */
		"\2\1\0\0\11\0\0\0\0\0\0\0\0\0\0\0",
		"\3\1\0\0\2\0\0\0\0\0\0\0\0\0\0\0",   /* an end has no stream */
		"\3\0\0\0\2\0\0\0\1\0\0\0\0\0\0\0",   /* nor an offset */
		"\4\0\0\0\1\x10\0\0\0\0\0\0\0\0\0\0", /* 4097 bytes of JSON */
		"\1\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0",   /* data without a byte */
		"\3\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0",   /* too short for an object */
		"\5\1\0\0\1\0\0\0\0\0\0\0\0\0\0\0",   /* taken has no content */
		"\6\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0",   /* nor has eof */
		"\6\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0",   /* which is of stdin */
	};
	uint8_t full[FRAME_HEAD + 8] = { 2, 1, 0, 0, 8 };
	struct frame f;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		row_check(i, frame_decode_head((const uint8_t *)bad[i], &f) == -EPROTO);
		row_check(i, frame_decode((const uint8_t *)bad[i], FRAME_HEAD, &f) == -EPROTO);
	}
	/* a gap that runs past the last offset */
	memset(full + 8, 0xff, 8);
	full[8] = 0xf0;
	full[FRAME_HEAD] = 16;
	assert_int_equal(frame_decode(full, sizeof(full), &f), -EPROTO);
	full[FRAME_HEAD] = 7;
	assert_int_equal(frame_decode(full, sizeof(full), &f), (int)sizeof(full));
	/* an end that is no object */
	memset(full, 0, sizeof(full));
	full[0] = FRAME_END;
	full[4] = 2;
	memcpy(full + FRAME_HEAD, "{]", 3);
	assert_int_equal(frame_decode(full, FRAME_HEAD + 2, &f), -EPROTO);
	memcpy(full + FRAME_HEAD, "x}", 3);
	assert_int_equal(frame_decode(full, FRAME_HEAD + 2, &f), -EPROTO);
	memcpy(full + FRAME_HEAD, "{}", 3);
	assert_int_equal(frame_decode(full, FRAME_HEAD + 2, &f), FRAME_HEAD + 2);
}

static void the_largest_frame_passes(void **)
{
	static uint8_t content[FRAME_MAX];
	auto_buf wire = BUF_INIT(FRAME_MAX + FRAME_HEAD), small = BUF_INIT(100);
	auto_buf sse = BUF_INIT(FRAME_SSE_MAX);
	struct frame f = { .type = FRAME_DATA,
			   .stream = 1,
			   .length = FRAME_MAX,
			   .content = content },
		     back;

	assert_int_equal(frame_encode(&f, &wire), 0);
	assert_int_equal(frame_decode((uint8_t *)wire.data, wire.len, &back), (int)wire.len);
	assert_int_equal(frame_to_sse(&f, &sse), 0); /* zeroes, six characters each */
	assert_int_equal(frame_encode(&f, &small), -ENOBUFS);
	assert_int_equal(small.len, 0);
	assert_int_equal(buf_puts(&small, "keep"), 0);
	assert_int_equal(frame_to_sse(&f, &small), -ENOBUFS);
	assert_text(&small, "keep");
}

static void a_terminal_has_two_more(void **)
{
	static const struct {
		const char *wire;
		size_t n;
		bool ok;
	} rows[] = {
		{ "\7\0\0\0\4\0\0\0\0\0\0\0\0\0\0\0\x50\0\x18\0", 20, true },
		{ "\7\0\0\0\4\0\0\0\0\0\0\0\0\0\0\0\x50\0\0\0", 20, false },
		{ "\7\0\0\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\x18\0", 20, false },
		{ "\7\0\0\0\4\0\0\0\1\0\0\0\0\0\0\0\x50\0\x18\0", 20, false },
		{ "\7\1\0\0\4\0\0\0\0\0\0\0\0\0\0\0\x50\0\x18\0", 20, false },
		{ "\7\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\x50\0\x18", 19, false },
		{ "\10\0\0\0\1\0\0\0\2\1\0\0\0\0\0\0\0", 17, true },
		{ "\10\0\0\0\1\0\0\0\2\1\0\0\0\0\0\0\1", 17, true },
		{ "\10\0\0\0\1\0\0\0\2\1\0\0\0\0\0\0\2", 17, false },
		{ "\10\1\0\0\1\0\0\0\2\1\0\0\0\0\0\0\1", 17, false },
		{ "\10\0\0\0\2\0\0\0\2\1\0\0\0\0\0\0\1\1", 18, false },
		{ "\11\0\0\0\1\0\0\0\2\1\0\0\0\0\0\0\1", 17, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const uint8_t *wire = (const uint8_t *)rows[i].wire;
		auto_buf again = BUF_INIT(100), sse = BUF_INIT(100);
		struct frame f;
		int r = frame_decode(wire, rows[i].n, &f);

		row_check(i, r == (rows[i].ok ? (int)rows[i].n : -EPROTO));
		if (r < 0)
			continue;
		row_check(i, frame_encode(&f, &again) == 0 && again.len == rows[i].n);
		row_check(i, memcmp(again.data, wire, again.len) == 0);
		row_check(i, frame_to_sse(&f, &sse) == -EPROTO && !sse.len);
	}
}

static void a_conversation_has_two_more(void **)
{
	static const struct {
		struct frame f;
		const char *head;
	} more[] = {
		{ { .type = FRAME_TAKEN, .stream = FRAME_STDERR, .offset = 258 },
		  "\5\2\0\0\0\0\0\0\2\1\0\0\0\0\0\0" },
		{ { .type = FRAME_EOF, .stream = FRAME_STDIN, .offset = 7 },
		  "\6\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(more); i++) {
		auto_buf wire = BUF_INIT(100), sse = BUF_INIT(100);
		struct frame back;

		row_check(i, frame_encode(&more[i].f, &wire) == 0 && wire.len == FRAME_HEAD);
		row_check(i, memcmp(wire.data, more[i].head, FRAME_HEAD) == 0);
		row_check(i, frame_decode((uint8_t *)wire.data, wire.len, &back) == FRAME_HEAD);
		row_check(i, back.type == more[i].f.type && back.offset == more[i].f.offset);
		row_check(i, frame_to_sse(&more[i].f, &sse) == -EPROTO && !sse.len);
	}
}

static void sse_carries_only_one_line_of_json(void **)
{
	auto_buf b = BUF_INIT(4096);
	struct frame f = { .type = FRAME_END, .content = BYTES("{\n}") };

	assert_int_equal(frame_to_sse(&f, &b), -EPROTO);
	f = (struct frame){ .type = FRAME_END, .content = BYTES("\xFF\xFF") };
	assert_int_equal(frame_to_sse(&f, &b), -EPROTO);
	assert_int_equal(b.len, 0);
}

static void encoding_what_is_not_a_frame_is_our_bug(void **)
{
	uint8_t head[FRAME_HEAD];
	struct frame f = { .type = FRAME_DATA, .stream = 9 };

	assert_aborts(frame_encode_head(&f, head));
	assert_aborts((void)frame_gap_decode(&f));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_bytes_are_fixed),
		cmocka_unit_test(a_part_of_a_frame_asks_for_more),
		cmocka_unit_test(what_breaks_the_rules_is_refused),
		cmocka_unit_test(the_largest_frame_passes),
		cmocka_unit_test(a_conversation_has_two_more),
		cmocka_unit_test(a_terminal_has_two_more),
		cmocka_unit_test(sse_carries_only_one_line_of_json),
		cmocka_unit_test(encoding_what_is_not_a_frame_is_our_bug),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
