/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/sse.h"
#include "unit.h"

/* Every event as "name|data;", read in pieces of step bytes. */
static int read_all(const char *text, size_t n, size_t step, struct buf *out)
{
	auto_sse s = SSE_INIT;

	while (n) {
		size_t part = step && step < n ? step : n;
		struct sse_item item;
		ssize_t used = sse_read(&s, text, part, &item);

		if (used < 0) {
			assert_int_equal(sse_read(&s, "\n", 1, &item), used);
			return (int)used;
		}
		assert_in_range(used, 1, part);
		if (item.event)
			assert_int_equal(buf_printf(out, "%s|%.*s;", item.event, (int)item.data.n,
						    item.data.p),
					 0);
		text += used;
		n -= (size_t)used;
	}
	return 0;
}

static void events_come_whole_whatever_the_pieces(void **)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ ":\n\n", "" },
		{ "data: a\n\n", "|a;" },
		{ "id: 7\nevent: sandbox\ndata: {}\n\n:x\n\ndata:b\n\n", "sandbox|{};|b;" },
		{ "data: a\ndata\ndata:  b\n\n", "|a\n\n b;" },
		{ "event: x\r\ndata: a\r\n\r\n", "x|a;" },
		{ "event: x\n\ndata: a\n\n", "|a;" }, /* a name without data names nothing */
		{ "data: a\n\ndata: b\n", "|a;" },    /* cut off: not seen */
		{ "data: a\n\ndata: b\n\n\n\n", "|a;|b;" },
		{ "event: 0123456789012345678901234567890123456789\ndata: a\n\n", "|a;" },
		{ "dat: a\nretry: 1\n\n", "" },
		{ "data:\n\n", "|;" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		for (size_t step = 0; step < 8; step++) {
			auto_buf out = BUF_INIT(KIB(1));

			row_check(i, read_all(cases[i].in, strlen(cases[i].in), step, &out) == 0);
			assert_text(&out, cases[i].want);
		}
	}
}

static void what_has_no_end_is_refused(void **)
{
	static const char *const units[] = { "x", "data: xxxxxxxxxxxxxxxx\n" };

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		auto_buf in = BUF_INIT(KIB(64)), out = BUF_INIT(KIB(1));

		while (in.len < SSE_MAX * 2)
			assert_int_equal(buf_puts(&in, units[i]), 0);
		row_check(i, read_all(in.data, in.len, 0, &out) == -EPROTO);
		row_check(i, read_all(in.data, in.len, 1000, &out) == -EPROTO);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_come_whole_whatever_the_pieces),
		cmocka_unit_test(what_has_no_end_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
