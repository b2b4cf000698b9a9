/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/frame-reader.h"

#include "unit.h"

#define BOTH (STREAM_BIT(FRAME_STDOUT) | STREAM_BIT(FRAME_STDERR))
#define OUT(off, text) { .type = FRAME_DATA, .stream = FRAME_STDOUT, .offset = (off), TEXT(text) }
#define ERR(off, text) { .type = FRAME_DATA, .stream = FRAME_STDERR, .offset = (off), TEXT(text) }
#define GAP(off, text) { .type = FRAME_GAP, .stream = FRAME_STDOUT, .offset = (off), TEXT(text) }
#define END { .type = FRAME_END, TEXT("{}") }
#define TEXT(t) .length = sizeof(t) - 1, .content = (const uint8_t *)(t)

static const struct {
	struct frame frames[4];
	unsigned allowed;
	const char *seen; /* NULL: refused */
} cases[] = {
	{ { OUT(0, "ab"), OUT(2, "c"), END }, BOTH, "1:abc end:{}" },
	{ { OUT(0, "ab"), ERR(0, "x"), OUT(2, "c"), END }, BOTH, "1:ab 2:x 1:c end:{}" },
	{ { OUT(0, "ab"), GAP(2, "\5\0\0\0\0\0\0\0"), OUT(7, "c") }, BOTH, "1:ab lost:5 1:c" },
	{ { { .type = FRAME_ERROR, TEXT("{\"e\":1}") } }, BOTH, "error:{\"e\":1}" },
	{ { END }, BOTH, "end:{}" },
	{ { OUT(1, "a") }, BOTH, NULL },                       /* begins late */
	{ { OUT(0, "ab"), OUT(1, "c") }, BOTH, NULL },         /* jumps back */
	{ { OUT(0, "ab"), OUT(3, "c") }, BOTH, NULL },         /* jumps ahead */
	{ { OUT(0, "ab"), OUT(0, "ab") }, BOTH, NULL },        /* repeats */
	{ { OUT(0, "ab"), ERR(2, "c") }, BOTH, NULL },         /* another's offset */
	{ { GAP(1, "\5\0\0\0\0\0\0\0") }, BOTH, NULL },        /* a gap that is late */
	{ { GAP(0, "\0\0\0\0\0\0\0\0") }, BOTH, NULL },        /* a loss of nothing */
	{ { END, OUT(0, "a") }, BOTH, NULL },                  /* data after the end */
	{ { END, END }, BOTH, NULL },                          /* two ends */
	{ { ERR(0, "a") }, STREAM_BIT(FRAME_STDOUT), NULL },   /* nobody asked */
	{ { { .type = FRAME_DATA, TEXT("a") } }, BOTH, NULL }, /* stdin comes back */
	{ { { .type = FRAME_END, TEXT("[]") } }, BOTH, NULL }, /* no object */
	{ { { .type = FRAME_TAKEN } }, ~0u, NULL },            /* this is no conversation */
	{ { { .type = FRAME_EOF } }, ~0u, NULL },
};

static int show(struct buf *seen, const struct frame_reader_item *i, int *last)
{
	const char *space = seen->len ? " " : "";

	if (i->event == STREAM_DATA) {
		if (*last == (int)i->stream)
			return buf_append(seen, i->p, i->n);
		*last = (int)i->stream;
		return buf_printf(seen, "%s%u:%.*s", space, (unsigned)i->stream, (int)i->n,
				  (const char *)i->p);
	}
	*last = -1;
	if (i->event == STREAM_GAP)
		return buf_printf(seen, "%slost:%llu", space, (unsigned long long)i->lost);
	return buf_printf(seen, "%s%s:%.*s", space, i->event == STREAM_END ? "end" : "error",
			  (int)i->n, (const char *)i->p);
}

/* Fed in pieces of `step` bytes, whatever the step is. */
static int feed(struct frame_reader *s, const struct buf *wire, size_t step, struct buf *seen)
{
	int last = -1;

	for (size_t at = 0; at < wire->len;) {
		size_t n = wire->len - at < step ? wire->len - at : step;
		struct frame_reader_item item;
		ssize_t r = frame_reader_feed(s, (const uint8_t *)wire->data + at, n, &item);

		if (r < 0)
			return (int)r;
		at += (size_t)r;
		if (item.event != STREAM_MORE)
			assert_int_equal(show(seen, &item, &last), 0);
		else
			assert_true(r > 0);
	}
	return 0;
}

static void only_what_is_in_order_passes(void **)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_buf wire = BUF_INIT(4096);

		for (size_t f = 0; f < 4 && cases[i].frames[f].type; f++)
			row_check(i, frame_encode(&cases[i].frames[f], &wire) == 0);
		for (size_t step = 1; step <= wire.len; step++) {
			auto_buf seen = BUF_INIT(4096);
			struct frame_reader s = frame_reader_create(cases[i].allowed);
			int r = feed(&s, &wire, step, &seen);

			row_check(i, r == (cases[i].seen ? 0 : -EPROTO));
			if (cases[i].seen)
				assert_text(&seen, cases[i].seen);
			row_check(i, r == 0 || s.refused);
		}
	}
}

static void it_goes_on_from_an_offset(void **)
{
	auto_buf wire = BUF_INIT(4096), seen = BUF_INIT(4096);
	struct frame f = OUT(1000, "later");
	struct frame_reader s = frame_reader_create(STREAM_BIT(FRAME_STDOUT));

	s.next[FRAME_STDOUT] = 1000;
	assert_int_equal(frame_encode(&f, &wire), 0);
	assert_int_equal(feed(&s, &wire, 7, &seen), 0);
	assert_text(&seen, "1:later");
	assert_int_equal(s.next[FRAME_STDOUT], 1005);
	assert_false(s.over);
}

static void it_begins_where_the_first_frame_says(void **)
{
	static const struct frame frames[] = { OUT(1000, "a"), OUT(1001, "b"), OUT(1003, "c") };
	auto_buf wire = BUF_INIT(4096), seen = BUF_INIT(4096);
	struct frame_reader s = frame_reader_create(STREAM_BIT(FRAME_STDOUT));

	s.unplaced = STREAM_BIT(FRAME_STDOUT);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(frame_encode(&frames[i], &wire), 0);
	assert_int_equal(feed(&s, &wire, 7, &seen), 0);
	assert_text(&seen, "1:ab");
	assert_int_equal(s.next[FRAME_STDOUT], 1002);
	buf_clear(&wire);
	assert_int_equal(frame_encode(&frames[2], &wire), 0);
	assert_int_equal(feed(&s, &wire, 7, &seen), -EPROTO);
}

static void what_was_refused_stays_refused(void **)
{
	static const uint8_t bad[FRAME_HEAD] = { 9 };
	struct frame_reader s = frame_reader_create(BOTH);
	struct frame_reader_item item;

	assert_int_equal(frame_reader_feed(&s, bad, sizeof(bad), &item), -EPROTO);
	assert_int_equal(frame_reader_feed(&s, bad, 0, &item), -EPROTO);
}

static void nothing_is_taken_from_nothing(void **)
{
	struct frame_reader s = frame_reader_create(BOTH);
	struct frame_reader_item item;

	assert_int_equal(frame_reader_feed(&s, NULL, 0, &item), 0);
	assert_int_equal(item.event, STREAM_MORE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_is_in_order_passes),
		cmocka_unit_test(it_goes_on_from_an_offset),
		cmocka_unit_test(it_begins_where_the_first_frame_says),
		cmocka_unit_test(what_was_refused_stays_refused),
		cmocka_unit_test(nothing_is_taken_from_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
