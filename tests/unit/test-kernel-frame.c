/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/endian.h"
#include "init/kernel/kernel-event.h"
#include "init/kernel/kernel-language.h"
#include "unit.h"

static struct kernel_frame frame_of(char type, const char *text)
{
	return (struct kernel_frame){ type, slice_of(text) };
}

/* In pieces of one byte and of many they are the same frames. */
static void frames_come_in_pieces(void **)
{
	auto_buf b = BUF_INIT(KIB(4));
	struct kernel_frame f;

	assert_true(kernel_frame_append(&b, 'H', slice_of("{}")) >= 0);
	assert_true(kernel_frame_append(&b, 'D', (struct slice){}) >= 0);
	for (size_t piece = 1; piece <= b.len; piece++) {
		struct kernel_frame_reader r = {};
		char seen[8] = {};
		size_t n_seen = 0, at = 0;

		while (at < b.len) {
			size_t n = b.len - at < piece ? b.len - at : piece;
			ssize_t taken = kernel_frame_read(&r, (uint8_t *)b.data + at, n, &f);

			assert_true(taken > 0);
			at += (size_t)taken;
			if (f.type)
				seen[n_seen++] = f.type;
			if (f.type == 'H')
				assert_true(slice_eq(f.payload, slice_of("{}")));
		}
		assert_string_equal(seen, "HD");
		kernel_frame_reader_fini(&r);
	}
}

static void frames_that_no_runner_sends_are_refused(void **)
{
	static const struct {
		uint32_t length;
		char type;
		ssize_t want;
	} rows[] = {
		{ KERNEL_FRAME_MAX, 'R', 5 },
		{ KERNEL_FRAME_MAX + 1, 'R', -EPROTO },
		{ UINT32_MAX, 'R', -EPROTO },
		{ 2, 'X', -EPROTO },
		{ 2, 0, -EPROTO },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct kernel_frame_reader r = {};
		struct kernel_frame f;
		uint8_t head[KERNEL_FRAME_HEAD];

		le32_put(head, rows[i].length);
		head[4] = (uint8_t)rows[i].type;
		row_check(i, kernel_frame_read(&r, head, sizeof(head), &f) == rows[i].want);
		kernel_frame_reader_fini(&r);
	}
}

static void events_are_checked_by_the_tables(void **)
{
	static const struct {
		char type;
		const char *text, *want; /* NULL: refused */
	} rows[] = {
		{ 'R', "{\"main\":true,\"data\":{\"text/plain\":\"2\"}}", "\"text/plain\":\"2\"" },
		{ 'R', "{\"data\":{\"text/plain\":2}}", NULL },
		{ 'R', "{\"other\":1}", NULL },
		{ 'R', "[]", NULL },
		{ 'R', "{\"data\":{\"a\":\"\\u0000\"}}", NULL },
		{ 'E', "{\"name\":\"E\",\"value\":\"v\",\"traceback\":[\"a\"]}",
		  "{\"exception\":{" },
		{ 'E', "{\"name\":\"E\"}", NULL },
		{ 'U', "{\"wait\":true}", "{\"clear\":{\"wait\":true}}" },
		{ 'C', "{\"execution_count\":3}", "{\"execution_count\":3}" },
		{ 'C', "{\"execution_count\":-3}", NULL },
		{ 'C', "{}", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct kernel_frame f = frame_of(rows[i].type, rows[i].text);
		auto_buf text = BUF_INIT(KIB(4));
		struct jw w = jw_to(&text);
		struct kernel_event *e;
		int r = kernel_event_new(&f, &e);

		row_check(i, (r >= 0) == (rows[i].want != NULL));
		if (r < 0)
			continue;
		kernel_event_write(&e->base, &w);
		row_check(i, jw_finish(&w) >= 0 && strstr(text.data, rows[i].want));
		kernel_event_free(e);
	}
}

static void a_report_is_read_or_refused(void **)
{
	struct kernel_frame good = frame_of('D', "{\"status\":\"error\",\"cwd\":\"/tmp\"}");
	struct kernel_frame bad = frame_of('D', "{");
	struct kernel_report report;

	assert_int_equal(kernel_report_read(&good, &report), 0);
	assert_true(report.is_error && str_eq(report.cwd, "/tmp") && !report.version[0]);
	assert_int_equal(kernel_report_read(&bad, &report), -EPROTO);
}

static void languages_have_names(void **)
{
	struct cay_err err = {};

	assert_string_equal(kernel_language_find("JavaScript", &err)->name, "node");
	assert_string_equal(kernel_language_find("R", &err)->name, "r");
	assert_true(*kernel_language_find("python", &err)->text_size > KIB(4));
	assert_null(kernel_language_find("bash", &err));
	assert_true(err.code == CAY_E_UNSUPPORTED && strstr(err.msg, "shell.create"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_come_in_pieces),
		cmocka_unit_test(frames_that_no_runner_sends_are_refused),
		cmocka_unit_test(events_are_checked_by_the_tables),
		cmocka_unit_test(a_report_is_read_or_refused),
		cmocka_unit_test(languages_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
