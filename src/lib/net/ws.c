/* SPDX-License-Identifier: Apache-2.0 */
#include "net/ws.h"

#include <assert.h>
#include <wslay/wslay.h>

/* Room kept in out for a Close, which must always fit. */
#define OUT_RESERVE (size_t)(2 + WS_CONTROL_MAX)

void ws_init(struct ws *w, const struct ws_conf *conf)
{
	assert(conf->out_max >= WS_OUT_LEAST && conf->fragments_max);
	assert(conf->message_max || conf->parts);
	*w = (struct ws){
		.conf = *conf,
		.msg = BUF_INIT(conf->parts ? WS_PART_MAX : conf->message_max),
		.out = BUF_INIT(conf->out_max + OUT_RESERVE),
		.credit_ms = WS_CONTROL_BURST_MS,
	};
}

static void ws_buf_release(struct buf *b)
{
	size_t max = b->max;

	buf_fini(b);
	b->max = max;
}

static void ws_free_frame_context(struct ws *w)
{
	if (w->frames)
		wslay_frame_context_free(w->frames);
	w->frames = NULL;
	w->unconsumed = 0;
}

static void ws_drop_message(struct ws *w)
{
	ws_buf_release(&w->msg);
	w->checked = w->handed = 0;
}

/* Drop bytes the caller has seen; half a character may follow a part of a text. */
static void ws_drop_handed_out(struct ws *w)
{
	if (w->handed == w->msg.len) {
		ws_drop_message(w);
		return;
	}
	buf_consume(&w->msg, w->handed);
	w->checked -= w->handed;
	w->handed = 0;
}

void ws_fini(struct ws *w)
{
	ws_free_frame_context(w);
	ws_drop_message(w);
	buf_fini(&w->out);
}

static ssize_t on_ws_frame_recv(uint8_t *p, size_t n, int, void *arg)
{
	struct ws *w = arg;

	if (!w->in || !w->in->n)
		return -1;
	if (n > w->in->n)
		n = w->in->n;
	memcpy(p, w->in->p, n);
	w->in->p += n;
	w->in->n -= n;
	w->unconsumed += n;
	return (ssize_t)n;
}

static ssize_t on_ws_frame_send(const uint8_t *p, size_t n, int, void *arg)
{
	struct ws *w = arg;

	return buf_append(&w->out, p, n) < 0 ? -1 : (ssize_t)n;
}

static int ws_need_frame_context(struct ws *w)
{
	static const struct wslay_frame_callbacks callbacks = {
		.send_callback = on_ws_frame_send,
		.recv_callback = on_ws_frame_recv,
	};

	if (!w->frames && wslay_frame_context_init(&w->frames, &callbacks, w) != 0) {
		w->frames = NULL;
		return -ENOMEM;
	}
	return 0;
}

static void ws_release_idle_memory(struct ws *w)
{
	if (!w->in_frame && !w->unconsumed)
		ws_free_frame_context(w);
	if (!w->kind && !w->handed)
		ws_drop_message(w);
}

/* Size of an outgoing frame with n bytes of payload. */
static size_t ws_frame_len(size_t n)
{
	return n + (n <= WS_CONTROL_MAX ? 2 : n <= UINT16_MAX ? 4 : 10);
}

/* Queue a whole frame, or nothing. */
static int ws_queue_frame(struct ws *w, unsigned opcode, const void *p, size_t n)
{
	struct wslay_frame_iocb io = {
		.fin = 1,
		.opcode = (uint8_t)opcode,
		.payload_length = n,
		.data = p,
		.data_length = n,
	};
	int r = buf_reserve(&w->out, ws_frame_len(n));

	if (r >= 0)
		r = ws_need_frame_context(w);
	if (r < 0)
		return r;
	if (wslay_frame_send(w->frames, &io) != (ssize_t)n)
		return -ENOMEM;
	ws_release_idle_memory(w);
	return 0;
}

static int ws_queue_close_frame(struct ws *w, unsigned code, const char *reason, size_t n)
{
	char payload[WS_CONTROL_MAX] = { (char)(code >> 8), (char)code };

	assert(n <= WS_REASON_MAX);
	if (n)
		memcpy(payload + 2, reason, n);
	return ws_queue_frame(w, WSLAY_CONNECTION_CLOSE, payload, code == WS_NO_STATUS ? 0 : 2 + n);
}

static void ws_set_over(struct ws *w)
{
	w->state = WS_OVER;
	w->in_frame = false;
	w->kind = 0;
	ws_free_frame_context(w);
	ws_drop_message(w);
}

/* End the session; send a Close with the reason unless one was sent already. */
static int ws_fail_session(struct ws *w, enum ws_code code, const char *why, struct cay_err *err)
{
	enum cay_code kind = code == WS_TOO_BIG    ? CAY_E_TOO_LARGE
			     : code == WS_POLICY   ? CAY_E_RATE
			     : code == WS_INTERNAL ? CAY_E_NO_MEMORY
						   : CAY_E_INVALID;

	if (w->state == WS_OPEN) {
		w->code = code;
		(void)ws_queue_close_frame(w, code, why, strlen(why)); /* lost without memory */
	}
	ws_set_over(w);
	return cay_fail(err, kind, "%s", why);
}

static bool ws_opcode_is_control(unsigned opcode)
{
	return opcode & 8;
}

static bool ws_opcode_is_known(unsigned opcode)
{
	return opcode <= WSLAY_BINARY_FRAME ||
	       (opcode >= WSLAY_CONNECTION_CLOSE && opcode <= WSLAY_PONG);
}

static bool ws_close_code_is_valid(unsigned code)
{
	return (code >= 1000 && code <= 1014 && (code < 1004 || code > 1006)) ||
	       (code >= 3000 && code <= 4999);
}

static int ws_begin_data_frame(struct ws *w, const struct wslay_frame_iocb *io, struct cay_err *err)
{
	if (!w->kind == (io->opcode == WSLAY_CONTINUATION_FRAME))
		return ws_fail_session(
			w, WS_PROTOCOL,
			w->kind ? "a message inside another" : "a continuation of nothing", err);
	if (!w->kind) {
		w->kind = io->opcode;
		w->fragments = 0;
	}
	if (w->state != WS_OPEN)
		return 0; /* only its frames are parsed */
	if (w->conf.parts && io->payload_length)
		w->fragments = 0; /* counts as a new message */
	if (++w->fragments > w->conf.fragments_max)
		return ws_fail_session(w, WS_TOO_BIG, "a message in too many fragments", err);
	if (!w->conf.parts && io->payload_length > w->conf.message_max - w->msg.len)
		return ws_fail_session(w, WS_TOO_BIG, "a message longer than allowed", err);
	return 0;
}

static int ws_begin_control_frame(struct ws *w, struct cay_err *err)
{
	if (w->credit_ms < WS_CONTROL_COST_MS)
		return ws_fail_session(w, WS_POLICY, "too many control frames", err);
	w->credit_ms -= WS_CONTROL_COST_MS;
	w->control_len = 0;
	return 0;
}

/* Check the header of a frame before its payload. */
static int ws_begin_frame(struct ws *w, const struct wslay_frame_iocb *io, struct cay_err *err)
{
	size_t header = io->payload_length < 126 ? 6 : io->payload_length <= UINT16_MAX ? 8 : 14;

	if (io->rsv)
		return ws_fail_session(w, WS_PROTOCOL, "a reserved bit", err);
	if (!io->mask)
		return ws_fail_session(w, WS_PROTOCOL, "a frame without a mask", err);
	if (!ws_opcode_is_known(io->opcode))
		return ws_fail_session(w, WS_PROTOCOL, "a reserved opcode", err);
	assert(w->unconsumed >= header);
	w->unconsumed -= header;
	w->in_frame = true;
	w->opcode = io->opcode;
	w->fin = io->fin;
	w->left = io->payload_length;
	return ws_opcode_is_control(io->opcode) ? ws_begin_control_frame(w, err)
						: ws_begin_data_frame(w, io, err);
}

/* Bytes of a payload.  Text is validated as it arrives, up to the last whole character. */
static int ws_add_payload(struct ws *w, const uint8_t *p, size_t n, struct cay_err *err)
{
	size_t whole;

	assert(n <= w->left && n <= w->unconsumed);
	w->left -= n;
	w->unconsumed -= n;
	if (ws_opcode_is_control(w->opcode)) {
		assert(w->control_len + n <= WS_CONTROL_MAX);
		memcpy(w->control + w->control_len, p, n);
		w->control_len += n;
		return 0;
	}
	if (w->state != WS_OPEN)
		return 0;
	if (buf_append(&w->msg, p, n) < 0)
		return ws_fail_session(w, WS_INTERNAL, "out of memory", err);
	if (w->kind != WSLAY_TEXT_FRAME)
		return 0;
	whole = utf8_whole_prefix_len(w->msg.data + w->checked, w->msg.len - w->checked);
	if (!utf8_is_valid(w->msg.data + w->checked, whole))
		return ws_fail_session(w, WS_NOT_TEXT, "text that is not UTF-8", err);
	w->checked += whole;
	return 0;
}

static int ws_hand_out_message(struct ws *w, unsigned kind, size_t n, struct ws_event *ret)
{
	w->handed = n;
	ret->data = (struct slice){ buf_str(&w->msg), n };
	return kind == WSLAY_TEXT_FRAME ? WS_TEXT : WS_BINARY;
}

/* Return the available part of an unfinished message. */
static int ws_hand_out_part(struct ws *w, struct ws_event *ret)
{
	size_t n = w->kind == WSLAY_TEXT_FRAME ? w->checked : w->msg.len;

	if (!w->conf.parts || w->state != WS_OPEN || !n)
		return WS_MORE;
	ret->more = true;
	return ws_hand_out_message(w, w->kind, n, ret);
}

static int ws_end_data_frame(struct ws *w, struct ws_event *ret, struct cay_err *err)
{
	unsigned kind = w->kind;

	if (!w->fin)
		return ws_hand_out_part(w, ret);
	w->kind = 0;
	if (w->state != WS_OPEN)
		return WS_MORE;
	if (kind == WSLAY_TEXT_FRAME && w->checked != w->msg.len)
		return ws_fail_session(w, WS_NOT_TEXT, "text that ends inside a character", err);
	return ws_hand_out_message(w, kind, w->msg.len, ret);
}

/* A peer that does not read gets one pong later, for its last ping. */
static int ws_end_ping_frame(struct ws *w, struct cay_err *err)
{
	if (w->state != WS_OPEN)
		return WS_MORE;
	if (ws_output_is_full(w)) {
		memcpy(w->pong, w->control, w->control_len);
		w->pong_len = w->control_len;
		w->pong_waits = true;
		return WS_MORE;
	}
	if (ws_queue_frame(w, WSLAY_PONG, w->control, w->control_len) < 0)
		return ws_fail_session(w, WS_INTERNAL, "out of memory", err);
	return WS_MORE;
}

static int ws_end_close_frame(struct ws *w, struct ws_event *ret, struct cay_err *err)
{
	unsigned code = WS_NO_STATUS;

	if (w->control_len == 1)
		return ws_fail_session(w, WS_PROTOCOL, "a Close of one byte", err);
	if (w->control_len) {
		code = (unsigned)(uint8_t)w->control[0] << 8 | (uint8_t)w->control[1];
		if (!ws_close_code_is_valid(code))
			return ws_fail_session(w, WS_PROTOCOL, "a close code that may not be sent",
					       err);
		ret->data = (struct slice){ w->control + 2, w->control_len - 2 };
		if (!utf8_is_valid(ret->data.p, ret->data.n))
			return ws_fail_session(w, WS_NOT_TEXT, "a reason that is not UTF-8", err);
	}
	ret->code = code;
	if (w->state == WS_OPEN) {
		w->code = code;
		(void)ws_queue_close_frame(w, code, NULL, 0); /* lost without memory */
	}
	ws_set_over(w);
	return WS_CLOSED;
}

static int ws_end_frame(struct ws *w, struct ws_event *ret, struct cay_err *err)
{
	w->in_frame = false;
	switch (w->opcode) {
	case WSLAY_PING:
		return ws_end_ping_frame(w, err);
	case WSLAY_PONG:
		ret->data = (struct slice){ w->control, w->control_len };
		return w->state == WS_OPEN ? WS_PONG : WS_MORE;
	case WSLAY_CONNECTION_CLOSE:
		return ws_end_close_frame(w, ret, err);
	default:
		return ws_end_data_frame(w, ret, err);
	}
}

/* Parse a piece of a frame; WS_MORE also when wslay needs more input. */
static int ws_parse_next(struct ws *w, bool *dry, struct ws_event *ret, struct cay_err *err)
{
	struct wslay_frame_iocb io = {};
	ssize_t n;
	int r = 0;

	if (ws_need_frame_context(w) < 0)
		return ws_fail_session(w, WS_INTERNAL, "out of memory", err);
	n = wslay_frame_recv(w->frames, &io);
	*dry = n == WSLAY_ERR_WANT_READ;
	if (*dry)
		return WS_MORE;
	if (n < 0)
		return ws_fail_session(w, WS_PROTOCOL, "a length that is not allowed", err);
	if (!w->in_frame)
		r = ws_begin_frame(w, &io, err);
	if (r >= 0)
		r = ws_add_payload(w, io.data, io.data_length, err);
	if (r < 0)
		return r;
	if (!w->left)
		return ws_end_frame(w, ret, err);
	return ws_opcode_is_control(w->opcode) ? WS_MORE : ws_hand_out_part(w, ret);
}

/* Control frames are paid for by elapsed time. */
static void ws_add_control_credit(struct ws *w, uint64_t now_ms)
{
	uint64_t gone = now_ms > w->seen_ms ? now_ms - w->seen_ms : 0;

	w->seen_ms += gone;
	if (gone > WS_CONTROL_BURST_MS - w->credit_ms)
		gone = WS_CONTROL_BURST_MS - w->credit_ms;
	w->credit_ms += gone;
}

int ws_next_event(struct ws *w, struct slice *in, uint64_t now_ms, struct ws_event *ret,
		  struct cay_err *err)
{
	bool dry = false;
	int r = WS_MORE;

	*ret = (struct ws_event){};
	ws_add_control_credit(w, now_ms);
	if (w->handed)
		ws_drop_handed_out(w);
	w->in = in;
	while (w->state != WS_OVER && r == WS_MORE && !dry && (in->n || w->unconsumed))
		r = ws_parse_next(w, &dry, ret, err);
	w->in = NULL;
	if (w->state == WS_OVER)
		*in = (struct slice){ in->p + in->n, 0 };
	if (r == WS_MORE)
		ws_release_idle_memory(w);
	return r;
}

int ws_send(struct ws *w, enum ws_event_type type, const void *p, size_t n)
{
	int r;

	assert(type == WS_TEXT || type == WS_BINARY);
	if (w->state != WS_OPEN)
		return -EPIPE;
	if (type == WS_TEXT && !utf8_is_valid(p, n))
		return -EILSEQ;
	if (n > w->conf.out_max || w->out.len + ws_frame_len(n) > w->conf.out_max)
		return -ENOBUFS;
	r = ws_queue_frame(w, type == WS_TEXT ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME, p, n);
	return r < 0 ? r : ws_output_is_full(w);
}

int ws_ping(struct ws *w)
{
	if (w->state != WS_OPEN)
		return -EPIPE;
	if (w->out.len + ws_frame_len(0) > w->conf.out_max)
		return -ENOBUFS;
	return ws_queue_frame(w, WSLAY_PING, NULL, 0);
}

int ws_close(struct ws *w, unsigned code, const char *reason)
{
	size_t n = strlen(reason);
	int r;

	if (w->state != WS_OPEN)
		return -EPIPE;
	if (!ws_close_code_is_valid(code) || n > WS_REASON_MAX || !utf8_is_valid(reason, n))
		return -EINVAL;
	r = ws_queue_close_frame(w, code, reason, n);
	if (r < 0)
		return r;
	w->state = WS_CLOSING;
	w->code = code;
	if (!w->handed)
		ws_drop_message(w);
	return 0;
}

struct slice ws_pending_output(const struct ws *w)
{
	return (struct slice){ buf_str(&w->out), w->out.len };
}

void ws_consume_output(struct ws *w, size_t n)
{
	buf_consume(&w->out, n);
	if (!w->out.len)
		ws_buf_release(&w->out);
	if (!w->pong_waits || w->state != WS_OPEN || ws_output_is_full(w))
		return;
	if (ws_queue_frame(w, WSLAY_PONG, w->pong, w->pong_len) == 0)
		w->pong_waits = false;
}

bool ws_output_is_full(const struct ws *w)
{
	size_t mark = w->conf.out_max / 2;

	return w->out.len > (mark < WS_OUT_MARK ? mark : WS_OUT_MARK);
}

bool ws_is_over(const struct ws *w)
{
	return w->state == WS_OVER;
}
