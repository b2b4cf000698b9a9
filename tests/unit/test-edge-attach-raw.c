/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/attach-raw.h"
#include "unit.h"

static struct frame json_frame(enum frame_type type, const char *text)
{
	return (struct frame){ .type = (uint8_t)type,
			       .length = (uint32_t)strlen(text),
			       .content = (const uint8_t *)text };
}

static void the_end_is_in_the_close(void **)
{
	static const struct {
		enum frame_type type;
		const char *json;
		unsigned code;
		const char *reason;
	} rows[] = {
		{ FRAME_END, "{\"reason\":\"exit\",\"exit_code\":0}", 1000, "exit 0" },
		{ FRAME_END, "{\"reason\":\"exit\",\"exit_code\":7}", 4003, "exit 7" },
		{ FRAME_END, "{\"reason\":\"signal\",\"signal\":\"SIGKILL\"}", 4003,
		  "signal SIGKILL" },
		{ FRAME_END, "{\"reason\":\"timeout\",\"signal\":\"SIGKILL\"}", 4003, "timeout" },
		{ FRAME_END, "{\"reason\":\"oom\"}", 4003, "oom" },
		{ FRAME_END, "{\"reason\":\"node_lost\"}", 4003, "node_lost" },
		/* none of these may look like success */
		{ FRAME_END, "{\"reason\":\"exit\"}", 4002, NULL },
		{ FRAME_END, "{\"reason\":\"signal\"}", 4002, NULL },
		{ FRAME_END, "{\"reason\":\"exit\",\"exit_code\":256}", 4002, NULL },
		{ FRAME_END, "{\"reason\":\"bliss\",\"exit_code\":0}", 4002, NULL },
		{ FRAME_END, "{}", 4002, NULL },
		{ FRAME_END, "{]}", 4002, NULL },
		{ FRAME_ERROR,
		  "{\"error\":{\"code\":\"conflict\",\"message\":\"it moved\",\"hint\":\"\","
		  "\"retryable\":false}}",
		  4000, "conflict: it moved" },
		{ FRAME_ERROR, "{\"error\":{\"code\":\"ok\",\"message\":\"\",\"hint\":\"\"}}", 4002,
		  NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct frame f = json_frame(rows[i].type, rows[i].json);
		struct attach_raw_output said =
			attach_raw_convert_frame(&(struct attach_raw){}, &f);

		row_check(i, said.close_code == rows[i].code && !said.bytes.n);
		row_check(i, !rows[i].reason || str_eq(said.reason, rows[i].reason));
	}
}

static void a_long_message_is_cut_between_letters(void **)
{
	auto_buf json = BUF_INIT(KIB(1));
	struct frame f;
	struct attach_raw_output said;

	assert_int_equal(buf_puts(&json, "{\"error\":{\"code\":\"conflict\",\"message\":\""), 0);
	for (unsigned i = 0; i < 80; i++)
		assert_int_equal(buf_puts(&json, "\xe4\xb8\x96"), 0);
	assert_int_equal(buf_puts(&json, "\",\"hint\":\"\",\"retryable\":false}}"), 0);
	f = json_frame(FRAME_ERROR, json.data);
	said = attach_raw_convert_frame(&(struct attach_raw){}, &f);
	assert_int_equal(said.close_code, ATTACH_REFUSED);
	assert_true(strlen(said.reason) > WS_REASON_MAX - 3);
	assert_true(utf8_is_valid(said.reason, strlen(said.reason)));
}

static void only_stdout_is_heard(void **)
{
	struct attach_raw r = {};
	struct frame f = { .type = FRAME_DATA,
			   .stream = FRAME_STDOUT,
			   .length = 2,
			   .content = (const uint8_t *)"hi" };

	assert_true(slice_eq(attach_raw_convert_frame(&r, &f).bytes, SLICE("hi")));
	f.stream = FRAME_STDERR;
	assert_int_equal(attach_raw_convert_frame(&r, &f).bytes.n, 0);
	f = (struct frame){ .type = FRAME_GAP,
			    .stream = FRAME_STDERR,
			    .length = 8,
			    .offset = 2,
			    .content = (const uint8_t *)"\5\0\0\0\0\0\0\0" };
	assert_int_equal(attach_raw_convert_frame(&r, &f).close_code, 0);
	f.stream = FRAME_STDOUT;
	assert_int_equal(attach_raw_convert_frame(&r, &f).close_code, ATTACH_MISSED);
	assert_string_equal(attach_raw_convert_frame(&r, &f).reason, "stdout goes on at 7");
}

static void sent(struct attach_raw *r, const char *part, bool more, const char *want, size_t n)
{
	auto_buf to = BUF_INIT(KIB(1));
	struct ws_event ev = { .data = slice_of(part), .more = more };

	assert_int_equal(attach_raw_convert_message(r, &ev, &to), 0);
	assert_int_equal(to.len, n);
	assert_true(!n || memcmp(to.data, want, n) == 0);
}

static void input_goes_on_where_it_stands(void **)
{
	struct attach_raw r = {};

	attach_raw_convert_frame(&r, &(struct frame){ .type = FRAME_TAKEN, .offset = 5 });
	assert_true(r.offset_known);
	sent(&r, "abc", false, "\1\0\0\0\3\0\0\0\5\0\0\0\0\0\0\0abc", 19);
	/* what was taken is not news */
	attach_raw_convert_frame(&r, &(struct frame){ .type = FRAME_TAKEN, .offset = 6 });
	sent(&r, "d", true, "\1\0\0\0\1\0\0\0\10\0\0\0\0\0\0\0d", 17);
	sent(&r, "", false, NULL, 0); /* the last part of a message that was not empty */
	sent(&r, "", false, "\6\0\0\0\0\0\0\0\11\0\0\0\0\0\0\0", 16);
	sent(&r, "late", false, NULL, 0);
	sent(&r, "", false, NULL, 0);
	r = (struct attach_raw){};
	attach_raw_convert_frame(&r, &(struct frame){ .type = FRAME_EOF });
	sent(&r, "to nobody", false, NULL, 0);
}

/* A frame of ours behind the end of all offsets would be no frame. */
static void a_place_that_cannot_be(void **)
{
	static const uint64_t places[] = { UINT64_MAX, UINT64_MAX - 1, (uint64_t)INT64_MAX + 1 };

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct attach_raw r = {};

		row_check(i, attach_raw_convert_frame(&r, &(struct frame){ .type = FRAME_TAKEN,
									   .offset = places[i] })
					     .close_code == ATTACH_BROKEN);
		row_check(i, !r.offset_known);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_end_is_in_the_close),
		cmocka_unit_test(a_long_message_is_cut_between_letters),
		cmocka_unit_test(only_stdout_is_heard),
		cmocka_unit_test(input_goes_on_where_it_stands),
		cmocka_unit_test(a_place_that_cannot_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
