/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "unit.h"
#include "wire/attach.h"

static const struct {
	struct frame f;
	bool out, in; /* who may send it */
} cases[] = {
	{ { .type = FRAME_DATA, .stream = FRAME_STDIN, .length = 1 }, false, true },
	{ { .type = FRAME_DATA, .stream = FRAME_STDOUT, .length = 1 }, true, false },
	{ { .type = FRAME_DATA, .stream = FRAME_STDERR, .length = 1 }, true, false },
	{ { .type = FRAME_DATA, .stream = FRAME_STDERR, .length = ATTACH_FRAME_MAX }, true, false },
	{ { .type = FRAME_DATA, .stream = FRAME_STDIN, .length = ATTACH_FRAME_MAX }, false, true },
	{ { .type = FRAME_DATA, .stream = FRAME_STDERR, .length = ATTACH_FRAME_MAX + 1 } },
	{ { .type = FRAME_DATA, .stream = FRAME_STDIN, .length = ATTACH_FRAME_MAX + 1 } },
	{ { .type = FRAME_GAP, .stream = FRAME_STDOUT, .length = 8 }, true, false },
	{ { .type = FRAME_GAP, .stream = FRAME_STDIN, .length = 8 } },
	{ { .type = FRAME_END, .length = 2 }, true, false },
	{ { .type = FRAME_ERROR, .length = 2 }, true, false },
	{ { .type = FRAME_TAKEN, .stream = FRAME_STDIN, .offset = 9 }, true, false },
	{ { .type = FRAME_TAKEN, .stream = FRAME_STDOUT, .offset = 9 }, false, true },
	{ { .type = FRAME_TAKEN, .stream = FRAME_STDERR, .offset = 9 }, false, true },
	{ { .type = FRAME_EOF, .offset = 9 }, true, true },
	{ { .type = FRAME_SIZE, .length = 4 }, true, true },
	{ { .type = FRAME_ROLE, .length = 1, .offset = 9 }, true, true },
};

static void each_side_may_say_its_own(void **)
{
	static uint8_t content[ATTACH_FRAME_MAX + 1];

	memset(content, '{', sizeof(content) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_buf wire = BUF_INIT(FRAME_HEAD + ATTACH_FRAME_MAX + 1);
		struct frame f = cases[i].f, back;
		int n = (int)(FRAME_HEAD + f.length);

		f.content = f.type == FRAME_ROLE ? (const uint8_t *)"\1"
			    : f.length == 2      ? (const uint8_t *)"{}"
			    : f.length == 8      ? (const uint8_t *)"\1\0\0\0\0\0\0\0"
						 : content;
		row_check(i, frame_encode(&f, &wire) == 0);
		row_check(i, attach_frame_decode(ATTACH_OUT, (uint8_t *)wire.data, wire.len,
						 &back) == (cases[i].out ? n : -EPROTO));
		row_check(i, attach_frame_decode(ATTACH_IN, (uint8_t *)wire.data, wire.len,
						 &back) == (cases[i].in ? n : -EPROTO));
		/* the header is enough to refuse it */
		row_check(i, attach_frame_check(ATTACH_OUT, &f) == (cases[i].out ? 0 : -EPROTO));
		row_check(i, attach_frame_check(ATTACH_IN, &f) == (cases[i].in ? 0 : -EPROTO));
		if (!cases[i].in)
			row_check(i, attach_frame_decode(ATTACH_IN, (uint8_t *)wire.data,
							 FRAME_HEAD, &back) == -EPROTO);
	}
}

static void a_part_asks_for_more(void **)
{
	static const uint8_t wire[] = { 1, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 'h', 'i' };
	struct frame f;

	for (size_t n = 0; n < sizeof(wire); n++)
		assert_int_equal(attach_frame_decode(ATTACH_IN, wire, n, &f), 0);
	assert_int_equal(attach_frame_decode(ATTACH_IN, wire, sizeof(wire), &f), (int)sizeof(wire));
	assert_int_equal(f.offset, 5);
	assert_ptr_equal(f.content, wire + FRAME_HEAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_side_may_say_its_own),
		cmocka_unit_test(a_part_asks_for_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
