/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client by script.  The first byte says how the stream is cut, then each op is
 * a frame (its flags, first byte, length and payload) or raw bytes, so that
 * fragments, limits and Close are a few bytes away.  Whole, by single bytes and cut
 * give the same events and the same output, also where messages come in parts; memory is bounded;
 * nothing comes behind the end; what goes out are whole unmasked frames with at most one Close, the
 * last.
 */
#include "fuzz.h"
#include "net/ws.h"

#define STREAM_MAX KIB(8)

enum { RAW = 0x80, LONG = 0x40, RSV = 0x20, BARE = 0x10, WIDE = 0x08 };

static const struct ws_conf confs[] = {
	{ .message_max = 3000, .fragments_max = 6, .out_max = 8000 },
	{ .fragments_max = 6, .out_max = 8000, .parts = true },
};

static bool add(struct buf *b, const void *p, size_t n)
{
	return buf_append(b, p, n) == 0;
}

/* False when the stream is long enough. */
static bool add_frame(struct buf *b, unsigned flags, uint8_t first, const uint8_t *p, size_t given,
		      size_t n)
{
	static const uint8_t key[4] = { 1, 2, 3, 0x80 };
	uint8_t head[14] = { flags & RSV ? first : first & 0x8f };
	size_t len = n < 126 && !(flags & WIDE) ? 2 : 4;

	head[1] = (uint8_t)((flags & BARE ? 0 : 0x80) | (len == 2 ? n : 126));
	if (len == 4) {
		head[2] = (uint8_t)(n >> 8);
		head[3] = (uint8_t)n;
	}
	if (!(flags & BARE)) {
		memcpy(head + len, key, 4);
		len += 4;
	}
	if (!add(b, head, len))
		return false;
	for (size_t i = 0; i < n; i++)
		if (buf_putc(b, (char)((i < given ? p[i] : 'a') ^
				       (flags & BARE ? 0 : key[i % 4]))) < 0)
			return false;
	return true;
}

static void compile(const uint8_t *data, size_t size, struct buf *ret)
{
	bool more = true;

	for (size_t i = 0; size - i >= 3 && more;) {
		unsigned flags = data[i];
		uint8_t first = data[i + 1];
		size_t n = data[i + 2], given;

		i += 3;
		given = n < size - i ? n : size - i;
		if (flags & RAW)
			more = add(ret, data + i, given);
		else
			more = add_frame(ret, flags, first, data + i, given,
					 flags & LONG ? n * 20 : n);
		i += given;
	}
}

static void check_out(struct slice out)
{
	bool closed = false;

	while (out.n) {
		const uint8_t *p = (const uint8_t *)out.p;
		size_t len = 2, n;
		unsigned opcode = p[0] & 15;

		CHECK(!closed && out.n >= 2);
		CHECK((p[0] & 0xf0) == 0x80 && p[1] < 127);
		CHECK(opcode == 1 || opcode == 2 || opcode == 8 || opcode == 10);
		n = p[1];
		if (n == 126) {
			len = 4;
			CHECK(out.n >= 4 && opcode < 8);
			n = (size_t)p[2] << 8 | p[3];
			CHECK(n > 125);
		}
		CHECK(out.n >= len + n);
		closed = opcode == 8;
		CHECK(!closed || n != 1);
		out = (struct slice){ out.p + len + n, out.n - len - n };
	}
}

static void check_session(const struct ws *w, int r)
{
	size_t max = w->conf.parts ? WS_PART_MAX : w->conf.message_max;

	CHECK(w->msg.len <= max && w->msg.cap <= max + 1);
	CHECK(w->out.len <= w->conf.out_max + 2 + WS_CONTROL_MAX);
	CHECK((w->state == WS_OPEN) == (w->code == 0));
	if (w->state == WS_OVER)
		CHECK(!w->frames && !w->msg.cap);
	if (r == WS_MORE && !w->in_frame && !w->unconsumed)
		CHECK(!w->frames);
	if (r == WS_MORE && !w->kind)
		CHECK(!w->msg.cap);
}

static void react(struct ws *w, int r, const struct ws_event *ev)
{
	if (r == WS_TEXT && ev->data.n == 1)
		CHECK(ws_close(w, 4000 + (uint8_t)ev->data.p[0], "") == 0);
	else if (r == WS_TEXT || r == WS_BINARY)
		CHECK(ws_send(w, (enum ws_event_type)r, ev->data.p, ev->data.n) != -EPIPE);
}

/* Parts are one message for who looks at where it ends. */
static bool whole(struct buf *parts, int r, struct ws_event *ev)
{
	if (r != WS_TEXT && r != WS_BINARY)
		return true;
	CHECK(ev->data.n || !ev->more);
	CHECK(buf_append(parts, ev->data.p, ev->data.n) == 0);
	ev->data = (struct slice){ buf_str(parts), parts->len };
	return !ev->more;
}

/* cut 0: whole; else pieces of 1..cut. */
static void run(const struct ws_conf *conf, struct slice all, unsigned cut, struct buf *log)
{
	auto_buf parts = BUF_INIT(STREAM_MAX);
	struct ws w;
	bool over = false;
	unsigned random = cut;

	ws_init(&w, conf);
	while (all.n) {
		struct slice in = all;
		struct ws_event ev;
		struct cay_err err = {};
		int r;

		random = random * 1103515245 + 12345;
		if (cut && in.n > 1 + (random >> 16) % cut)
			in.n = 1 + (random >> 16) % cut;
		all = (struct slice){ all.p + in.n, all.n - in.n };
		while ((r = ws_next_event(&w, &in, 0, &ev, &err)) > WS_MORE) {
			CHECK(!over);
			over = r == WS_CLOSED;
			CHECK(conf->parts || (ev.data.n <= conf->message_max && !ev.more));
			CHECK(r == WS_BINARY || r == WS_PONG ||
			      utf8_is_valid(ev.data.p, ev.data.n));
			check_session(&w, r);
			if (!whole(&parts, r, &ev))
				continue;
			CHECK(buf_printf(log, "<%d %u %zu>", r, ev.code, ev.data.n) == 0);
			CHECK(buf_append(log, ev.data.p, ev.data.n) == 0);
			react(&w, r, &ev);
			check_session(&w, r);
			if (r != WS_PONG)
				buf_consume(&parts, parts.len);
		}
		CHECK(in.n == 0);
		if (r < 0) {
			CHECK(!over && err.msg[0] && err.code != CAY_E_NO_MEMORY);
			over = true;
			CHECK(buf_printf(log, "<failed %u %s>", w.code, err.msg) == 0);
		}
		CHECK(over == ws_is_over(&w));
		check_session(&w, r);
	}
	check_out(ws_pending_output(&w));
	CHECK(buf_append(log, ws_pending_output(&w).p, ws_pending_output(&w).n) == 0);
	ws_consume_output(&w, ws_pending_output(&w).n);
	check_out(ws_pending_output(&w));
	ws_fini(&w);
}

static void check(const struct ws_conf *conf, struct slice stream, unsigned cut)
{
	const unsigned cuts[] = { 1, cut };
	auto_buf first = BUF_INIT(MIB(16));

	run(conf, stream, 0, &first);
	for (size_t i = 0; i < ARRAY_SIZE(cuts); i++) {
		auto_buf other = BUF_INIT(MIB(16));

		run(conf, stream, cuts[i], &other);
		CHECK(first.len == other.len);
		CHECK(!first.len || memcmp(first.data, other.data, first.len) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_buf stream = BUF_INIT(STREAM_MAX);

	if (size < 1)
		return 0;
	compile(data + 1, size - 1, &stream);
	for (size_t i = 0; i < ARRAY_SIZE(confs); i++)
		check(&confs[i], (struct slice){ buf_str(&stream), stream.len }, 2u + data[0]);
	return 0;
}
