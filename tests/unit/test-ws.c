/* SPDX-License-Identifier: Apache-2.0 */
#include "net/ws.h"

#include "text/hex.h"
#include "unit.h"

/* Small enough for the table to reach every limit. */
static const struct ws_conf conf = { .message_max = 70000, .fragments_max = 8, .out_max = 150000 };
static const struct ws_conf in_parts = { .fragments_max = 8, .out_max = 150000, .parts = true };

static const struct {
	const char *name, *bytes, *want;
} cases[] = {
#define WS_CASE(name, bytes, want) { name, bytes, want },
#include "ws-cases.def"
#undef WS_CASE
};

static const uint8_t key[4] = { 0x37, 0xfa, 0x21, 0x3d };

static void add(struct buf *b, const void *p, size_t n)
{
	assert_int_equal(buf_append(b, p, n), 0);
}

/* A client's frame, its length as short as it can be. */
static void add_frame(struct buf *b, uint8_t first, const char *p, size_t n)
{
	uint8_t head[10] = { first };
	size_t len = n < 126 ? 2 : n <= UINT16_MAX ? 4 : 10;

	head[1] = (uint8_t)(0x80 | (len == 2 ? n : len == 4 ? 126 : 127));
	for (size_t i = 2; i < len; i++)
		head[i] = (uint8_t)(n >> 8 * (len - 1 - i));
	add(b, head, len);
	add(b, key, 4);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(buf_putc(b, (char)((uint8_t)p[i] ^ key[i % 4])), 0);
}

static void add_hex(struct buf *b, const char *hex, size_t n)
{
	uint8_t bytes[64];

	assert_true(n / 2 <= sizeof(bytes));
	assert_int_equal(hex_decode(hex, n, bytes, n / 2), 0);
	add(b, bytes, n / 2);
}

/* One word of the table's second column, behind N: */
static void add_word(struct buf *b, struct slice word)
{
	auto_buf payload = BUF_INIT(KIB(128));
	uint8_t first;

	if (word.p[0] == '#') {
		add_hex(b, word.p + 1, word.n - 1);
		return;
	}
	assert_int_equal(hex_decode(word.p, 2, &first, 1), 0);
	word = (struct slice){ word.p + 2, word.n - 2 };
	if (word.p[0] == '=') {
		long code = strtol(word.p + 1, (char **)&word.p, 10);

		assert_int_equal(buf_printf(&payload, "%c%c", (char)(code >> 8), (char)code), 0);
	}
	if (word.p[0] == '\'')
		add(&payload, word.p + 1, strcspn(word.p + 1, "'"));
	else if (word.p[0] == '<')
		add_hex(&payload, word.p + 1, strcspn(word.p + 1, ">"));
	else if (word.p[0] == '*')
		for (long n = strtol(word.p + 1, NULL, 10); n > 0; n--)
			assert_int_equal(buf_putc(&payload, 'a'), 0);
	add_frame(b, first, buf_str(&payload), payload.len);
}

static void compile(const char *text, struct buf *ret)
{
	struct slice left = slice_of(text);

	while (left.n) {
		struct slice word = slice_cut(&left, ' ');
		const char *colon = word.p[0] == '#' ? NULL : memchr(word.p, ':', word.n);
		long n = colon ? strtol(word.p, NULL, 10) : 1;

		if (colon)
			word = (struct slice){ colon + 1, word.n - (size_t)(colon + 1 - word.p) };
		for (; n > 0; n--)
			add_word(ret, word);
	}
}

/* A log of words; one that comes again is counted instead. */
struct words {
	struct buf text;
	char last[600];
	unsigned times;
};

static void flush(struct words *w)
{
	if (!w->times)
		return;
	if (w->text.len)
		assert_int_equal(buf_putc(&w->text, ' '), 0);
	if (w->times > 9)
		assert_int_equal(buf_printf(&w->text, "%u", w->times), 0);
	for (unsigned i = 0; i < (w->times > 9 ? 1 : w->times); i++)
		assert_int_equal(buf_printf(&w->text, "%s%s", i ? " " : "", w->last), 0);
	w->times = 0;
}

static bool all_a(struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] != 'a')
			return false;
	return s.n > 100;
}

static void say(struct words *w, char what, unsigned code, struct slice data, bool quote)
{
	auto_buf word = BUF_INIT(sizeof(w->last) - 1);

	assert_int_equal(buf_putc(&word, what), 0);
	if (code)
		assert_int_equal(buf_printf(&word, "%u", code), 0);
	if (quote && all_a(data)) {
		assert_int_equal(buf_printf(&word, "*%zu", data.n), 0);
	} else if (quote) {
		assert_int_equal(buf_putc(&word, '\''), 0);
		for (size_t i = 0; i < data.n && i < 100; i++)
			assert_int_equal(data.p[i] >= ' ' && data.p[i] <= '~'
						 ? buf_putc(&word, data.p[i])
						 : buf_printf(&word, "\\x%02x", (uint8_t)data.p[i]),
					 0);
		assert_int_equal(buf_putc(&word, '\''), 0);
	}
	if (w->times && !str_eq(word.data, w->last))
		flush(w);
	memcpy(w->last, word.data, word.len + 1);
	w->times++;
}

/* Read what the server sent, by a parser of the test's own: whole frames, in the
 * shortest spelling, never masked, nothing behind a Close. */
static void say_out(struct words *w, struct slice out)
{
	static const char letters[16] = { [1] = 't', [2] = 'b', [8] = 'c', [9] = 'i', [10] = 'p' };
	bool closed = false;

	flush(w);
	while (out.n) {
		const uint8_t *p = (const uint8_t *)out.p;
		size_t len = 2, n = p[1];
		unsigned code = 0;

		assert_false(closed);
		assert_true(out.n >= 2 && p[0] & 0x80 && !(p[0] & 0x70) && letters[p[0] & 15]);
		assert_true(p[1] <= 127);
		if (n > 125) {
			len = n == 126 ? 4 : 10;
			assert_true(out.n >= len);
			n = 0;
			for (size_t i = 2; i < len; i++)
				n = n << 8 | p[i];
			assert_true(n > (len == 4 ? 125 : UINT16_MAX));
			assert_true(!(p[0] & 8));
		}
		assert_true(out.n >= len + n);
		closed = (p[0] & 15) == 8;
		if (closed)
			code = n ? (unsigned)p[2] << 8 | p[3] : WS_NO_STATUS;
		assert_false(closed && n == 1);
		if (closed && n)
			assert_true(utf8_is_valid(out.p + 4, n - 2));
		say(w, letters[p[0] & 15], code, (struct slice){ out.p + len, n }, !closed);
		out = (struct slice){ out.p + len + n, out.n - len - n };
	}
	flush(w);
}

/* What the program above does with a message. */
static void react(struct ws *w, struct slice text)
{
	static char much[WS_OUT_MARK + 1];

	if (text.n >= 4 && memcmp(text.p, "echo", 4) == 0) {
		assert_int_equal(ws_send(w, WS_TEXT, text.p, text.n), 0);
	} else if (slice_eq(text, SLICE("fill"))) {
		int want = w->out.len < 2 * sizeof(much) ? 1 : -ENOBUFS;

		memset(much, 'a', sizeof(much));
		assert_int_equal(ws_send(w, WS_BINARY, much, sizeof(much)), want);
	} else if (slice_eq(text, SLICE("close"))) {
		assert_int_equal(ws_close(w, WS_NORMAL, "bye"), 0);
	}
}

static void check_bounds(const struct ws *w)
{
	size_t max = w->conf.parts ? WS_PART_MAX : conf.message_max;

	assert_true(w->msg.len <= max && w->msg.cap <= max + 1);
	assert_true(w->out.len <= conf.out_max + 2 + WS_CONTROL_MAX);
	if (w->state == WS_OVER)
		assert_true(!w->frames && !w->msg.cap);
}

/* A message that came in parts is told when its last one is there. */
static bool whole(struct buf *parts, int r, struct ws_event *ev)
{
	if (r != WS_TEXT && r != WS_BINARY)
		return true;
	assert_true(ev->data.n || !ev->more);
	assert_true(r == WS_BINARY || utf8_is_valid(ev->data.p, ev->data.n));
	add(parts, ev->data.p, ev->data.n);
	ev->data = (struct slice){ buf_str(parts), parts->len };
	return !ev->more;
}

/* Feed all in pieces (0: as random as seed says) and write down what happens. */
static void play(const struct ws_conf *how, struct slice all, size_t piece, unsigned seed,
		 struct words *log)
{
	static const char letters[] = { [WS_TEXT] = 'T', [WS_BINARY] = 'B', [WS_PONG] = 'P' };
	auto_buf parts = BUF_INIT(KIB(128));
	struct ws w;
	struct ws_event ev;
	bool over = false;

	ws_init(&w, how);
	while (all.n) {
		size_t n = piece ? piece : 1 + (size_t)rand_r(&seed) % 97;
		struct slice in = { all.p, n < all.n ? n : all.n };
		struct cay_err err = {};
		int r;

		all = (struct slice){ all.p + in.n, all.n - in.n };
		while ((r = ws_next_event(&w, &in, 1, &ev, &err)) > WS_MORE) {
			assert_false(over);
			over = r == WS_CLOSED;
			if (!whole(&parts, r, &ev))
				continue;
			say(log, over ? 'C' : letters[r], ev.code, ev.data, !over || ev.data.n);
			if (r == WS_TEXT)
				react(&w, ev.data);
			check_bounds(&w);
			if (r != WS_PONG)
				buf_consume(&parts, parts.len);
		}
		if (r < 0) {
			assert_true(!over && err.msg[0]);
			over = true;
			say(log, 'F', w.code, (struct slice){}, false);
		}
		assert_int_equal(in.n, 0);
		assert_int_equal(over, ws_is_over(&w));
		check_bounds(&w);
	}
	flush(log);
	if (w.out.len) {
		auto_buf out = BUF_INIT(MIB(1));

		add(&out, w.out.data, w.out.len);
		ws_consume_output(&w, w.out.len);
		add(&out, buf_str(&w.out), w.out.len); /* the pong that waited */
		say(log, '>', 0, (struct slice){}, false);
		say_out(log, (struct slice){ out.data, out.len });
	}
	ws_fini(&w);
}

static void play_case(size_t i, const struct ws_conf *how)
{
	static const size_t pieces[] = { SIZE_MAX, 1, 2, 3, 7, 4096, 0, 0, 0 };
	auto_buf bytes = BUF_INIT(KIB(128));

	compile(cases[i].bytes, &bytes);
	for (unsigned k = 0; k < ARRAY_SIZE(pieces); k++) {
		struct words log = { .text = BUF_INIT(KIB(64)) };

		play(how, (struct slice){ buf_str(&bytes), bytes.len }, pieces[k],
		     (unsigned)i * 16 + k, &log);
		if (!str_eq(buf_str(&log.text), cases[i].want))
			fail_msg("%s, in pieces of %zu: %s, not %s", cases[i].name, pieces[k],
				 buf_str(&log.text), cases[i].want);
		buf_fini(&log.text);
	}
}

static void every_case_ends_alike_in_any_pieces(void **)
{
	assert_true(ARRAY_SIZE(cases) >= 150);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		play_case(i, &conf);
}

/* But for how long a message may be. */
static void in_parts_every_case_ends_the_same(void **)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (!strstr(cases[i].want, "1009"))
			play_case(i, &in_parts);
}

static int feed(struct ws *w, const char *text, uint64_t now_ms, struct ws_event *ev)
{
	static struct buf bytes;
	struct slice in;
	int r;

	buf_fini(&bytes);
	bytes = BUF_INIT(KIB(128));
	compile(text, &bytes);
	in = (struct slice){ bytes.data, bytes.len };
	r = ws_next_event(w, &in, now_ms, ev, NULL);
	buf_fini(&bytes);
	return r;
}

static void output_is_these_bytes(void **)
{
	static const struct {
		const char *in, *out;
		size_t n;
	} rows[] = {
		{ "89'hi'", "\x8a\x02hi", 4 },
		{ "89''", "\x8a\x00", 2 },
		{ "88''", "\x88\x00", 2 },
		{ "88=1000'bye'", "\x88\x02\x03\xe8", 4 },
		{ "88=4999", "\x88\x02\x13\x87", 4 },
		{ "81'echo'",
		  "\x81\x04"
		  "echo",
		  6 },
		{ "81'close'",
		  "\x88\x05\x03\xe8"
		  "bye",
		  7 },
		{ "81<ff>",
		  "\x88\x18\x03\xef"
		  "text that is not UTF-8",
		  26 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ws w;
		struct ws_event ev;

		ws_init(&w, &conf);
		if (feed(&w, rows[i].in, 1, &ev) == WS_TEXT)
			react(&w, ev.data);
		row_check(i, slice_eq(ws_pending_output(&w),
				      (struct slice){ rows[i].out, rows[i].n }));
		ws_fini(&w);
	}
}

static void lengths_out_are_the_shortest(void **)
{
	static const size_t lengths[] = { 0, 125, 126, 127, 65535, 65536, 69999 };
	static char data[70000];

	memset(data, 'a', sizeof(data));
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		struct words log = { .text = BUF_INIT(KIB(1)) };
		auto_buf want = BUF_INIT(32);
		struct ws w;

		ws_init(&w, &conf);
		row_check(i, ws_send(&w, WS_BINARY, data, lengths[i]) == (lengths[i] >= 65533));
		row_check(i, w.out.len == lengths[i] + (lengths[i] < 126           ? 2
							: lengths[i] <= UINT16_MAX ? 4
										   : 10));
		say_out(&log, ws_pending_output(&w));
		assert_int_equal(lengths[i] ? buf_printf(&want, "b*%zu", lengths[i])
					    : buf_puts(&want, "b''"),
				 0);
		assert_text(&log.text, want.data);
		buf_fini(&log.text);
		ws_fini(&w);
	}
}

static void a_producer_is_told_to_stop_and_to_go_on(void **)
{
	static char data[10000];
	struct ws w;
	int r = 0;

	ws_init(&w, &conf);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(ws_send(&w, WS_BINARY, data, sizeof(data)), 0);
	assert_int_equal(ws_send(&w, WS_BINARY, data, sizeof(data)), 1);
	assert_true(ws_output_is_full(&w));
	while (r >= 0)
		r = ws_send(&w, WS_BINARY, data, sizeof(data));
	assert_int_equal(r, -ENOBUFS);
	assert_int_equal(w.out.len, 14 * 10004); /* what did not fit left nothing behind */
	assert_int_equal(ws_send(&w, WS_BINARY, data, 150000 - 14 * 10004 - 4), 1);
	assert_int_equal(w.out.len, conf.out_max);
	assert_int_equal(ws_ping(&w), -ENOBUFS);
	assert_int_equal(ws_close(&w, 4000,
				  "there is room for the longest reason even now, "
				  "because a Close is what ends a session that is full; "
				  "123 bytes in all, count"),
			 0);
	ws_consume_output(&w, conf.out_max - WS_OUT_MARK);
	assert_true(ws_output_is_full(&w));
	ws_consume_output(&w, 2 + WS_CONTROL_MAX);
	assert_false(ws_output_is_full(&w));
	ws_consume_output(&w, w.out.len);
	assert_int_equal(w.out.cap, 0);
	ws_fini(&w);
}

static void what_may_not_be_sent_is_not(void **)
{
	static const unsigned bad[] = { 0, 999, 1004, 1005, 1006, 1015, 2999, 5000, 66536 };
	char reason[WS_REASON_MAX + 2] = {};
	struct ws w;

	ws_init(&w, &conf);
	assert_int_equal(ws_send(&w, WS_TEXT, "\xff", 1), -EILSEQ);
	assert_int_equal(ws_send(&w, WS_TEXT, "\xc3", 1), -EILSEQ);
	assert_int_equal(ws_send(&w, WS_BINARY, "", conf.out_max + 1), -ENOBUFS);
	assert_int_equal(ws_send(&w, WS_BINARY, "", SIZE_MAX), -ENOBUFS);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		row_check(i, ws_close(&w, bad[i], "") == -EINVAL);
	memset(reason, 'r', WS_REASON_MAX + 1);
	assert_int_equal(ws_close(&w, WS_NORMAL, reason), -EINVAL);
	assert_int_equal(ws_close(&w, WS_NORMAL, "\xff"), -EINVAL);
	assert_int_equal(ws_pending_output(&w).n, 0);
	reason[WS_REASON_MAX] = 0;
	assert_int_equal(ws_close(&w, WS_GOING_AWAY, reason), 0);
	assert_int_equal(w.code, WS_GOING_AWAY);
	assert_int_equal(ws_send(&w, WS_TEXT, "x", 1), -EPIPE);
	assert_int_equal(ws_ping(&w), -EPIPE);
	assert_int_equal(ws_close(&w, WS_NORMAL, ""), -EPIPE);
	assert_int_equal(ws_pending_output(&w).n, 2 + WS_CONTROL_MAX);
	ws_fini(&w);
}

static void time_pays_for_control_frames(void **)
{
	struct ws w;
	struct ws_event ev;

	ws_init(&w, &conf);
	assert_int_equal(feed(&w, "100:89''", 1000000, &ev), WS_MORE);
	for (unsigned i = 1; i <= 200; i++) /* twenty a second for ten seconds */
		assert_int_equal(feed(&w, "89''", 1000000 + i * WS_CONTROL_COST_MS, &ev), WS_MORE);
	assert_int_equal(feed(&w, "89''", 1000000, &ev), -EAGAIN); /* a clock that goes back */
	assert_int_equal(w.code, WS_POLICY);
	ws_fini(&w);

	ws_init(&w, &conf);
	assert_int_equal(feed(&w, "100:89''", 5, &ev), WS_MORE);
	assert_int_equal(feed(&w, "100:89''", UINT64_MAX, &ev), WS_MORE);
	assert_int_equal(feed(&w, "89''", UINT64_MAX, &ev), -EAGAIN); /* it saves up no more */
	ws_fini(&w);
}

static void a_session_at_rest_holds_nothing(void **)
{
	struct ws w;
	struct ws_event ev;
	struct slice none = {};

	ws_init(&w, &conf);
	assert_true(sizeof(w) <= KIB(1));
	assert_int_equal(feed(&w, "82*60000", 1, &ev), WS_BINARY);
	assert_true(w.msg.cap >= 60000);
	assert_int_equal(ws_send(&w, WS_BINARY, ev.data.p, ev.data.n), 0);
	assert_int_equal(ev.data.p[59999], 'a'); /* still there */
	assert_int_equal(ws_next_event(&w, &none, 1, &ev, NULL), WS_MORE);
	assert_true(!w.msg.cap && !w.frames);
	ws_consume_output(&w, w.out.len);
	assert_int_equal(w.out.cap, 0);
	assert_int_equal(feed(&w, "#81", 1, &ev), WS_MORE);
	assert_non_null(w.frames);
	assert_int_equal(feed(&w, "#8000000000", 1, &ev), WS_TEXT);
	assert_int_equal(ws_ping(&w), 0);
	ws_consume_output(&w, 2);
	assert_int_equal(ws_next_event(&w, &none, 1, &ev, NULL), WS_MORE);
	assert_true(!w.frames && !w.out.cap && !w.msg.cap);
	ws_fini(&w);
}

/* A header that promises much costs nothing before its bytes come. */
static void memory_follows_bytes_not_promises(void **)
{
	struct ws w;
	struct ws_event ev;

	ws_init(&w, &conf);
	assert_int_equal(feed(&w, "#82ff000000000001117037fa213d", 1, &ev), WS_MORE);
	assert_int_equal(w.msg.cap, 0);
	assert_int_equal(feed(&w, "#6161", 1, &ev), WS_MORE);
	assert_true(w.msg.cap < 1000);
	assert_int_equal(ws_close(&w, WS_GOING_AWAY, ""), 0); /* in the middle of it */
	assert_int_equal(w.msg.cap, 0);
	assert_int_equal(feed(&w, "#6161", 1, &ev), WS_MORE);
	assert_int_equal(w.msg.cap, 0);
	ws_fini(&w);
}

/* However long it is; a fragment is as good as a message, unless nothing is in it. */
static void a_message_in_parts_has_no_end(void **)
{
	struct ws w;
	struct ws_event ev;

	ws_init(&w, &in_parts);
	assert_int_equal(feed(&w, "#82ff7fffffffffffffff37fa213d", 1, &ev), WS_MORE);
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(feed(&w, "#6161616161", 1, &ev), WS_BINARY);
		assert_true(ev.more && ev.data.n == 5 && w.msg.cap <= WS_PART_MAX);
	}
	ws_fini(&w);

	ws_init(&w, &in_parts);
	assert_int_equal(feed(&w, "02'a'", 1, &ev), WS_BINARY);
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(feed(&w, "00'bc'", 1, &ev), WS_BINARY);
		assert_true(ev.more && slice_eq(ev.data, SLICE("bc")));
	}
	assert_int_equal(feed(&w, "7:00'' 00'd'", 1, &ev), WS_BINARY);
	assert_int_equal(feed(&w, "7:00'' 80''", 1, &ev), -E2BIG);
	assert_int_equal(w.code, WS_TOO_BIG);
	ws_fini(&w);
}

/* Half a letter waits for the rest of it, also behind what was handed out. */
static void parts_of_a_text_are_whole_letters(void **)
{
	struct ws w;
	struct ws_event ev;

	ws_init(&w, &in_parts);
	assert_int_equal(feed(&w, "01<61e4b8>", 1, &ev), WS_TEXT);
	assert_true(ev.more && slice_eq(ev.data, SLICE("a")));
	assert_int_equal(feed(&w, "80<96>", 1, &ev), WS_TEXT);
	assert_true(!ev.more && slice_eq(ev.data, SLICE("\xe4\xb8\x96")));
	assert_int_equal(feed(&w, "01<62e4b8>", 1, &ev), WS_TEXT);
	assert_int_equal(feed(&w, "80''", 1, &ev), -EINVAL);
	assert_int_equal(w.code, WS_NOT_TEXT);
	ws_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_case_ends_alike_in_any_pieces),
		cmocka_unit_test(in_parts_every_case_ends_the_same),
		cmocka_unit_test(output_is_these_bytes),
		cmocka_unit_test(lengths_out_are_the_shortest),
		cmocka_unit_test(a_producer_is_told_to_stop_and_to_go_on),
		cmocka_unit_test(what_may_not_be_sent_is_not),
		cmocka_unit_test(time_pays_for_control_frames),
		cmocka_unit_test(a_session_at_rest_holds_nothing),
		cmocka_unit_test(memory_follows_bytes_not_promises),
		cmocka_unit_test(a_message_in_parts_has_no_end),
		cmocka_unit_test(parts_of_a_text_are_whole_letters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
