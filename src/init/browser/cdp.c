/* SPDX-License-Identifier: Apache-2.0 */
#include "init/browser/cdp.h"

#include <stdio.h>
#include <sys/random.h>

#include "base/endian.h"

#define FIN 0x80
#define MASKED 0x80
#define FRAME_HEAD_MAX 14
#define MASK_SIZE 4

enum { OPCODE_MORE = 0, OPCODE_TEXT = 1, OPCODE_CLOSE = 8, OPCODE_PING = 9, OPCODE_PONG = 10 };

void cdp_init(struct cdp *c, struct devtools *to)
{
	*c = (struct cdp){ .to = to,
			   .out = BUF_INIT(CDP_SENT_MAX),
			   .message = BUF_INIT(DEVTOOLS_MESSAGE_MAX) };
}

void cdp_fini(struct cdp *c)
{
	buf_fini(&c->out);
	buf_fini(&c->message);
}

static int hex_escape_value(const char *p)
{
	int value = 0;

	for (int i = 0; i < 4; i++) {
		char d = ascii_to_lower(p[i]);

		if (ascii_is_digit(d))
			value = value * 16 + (d - '0');
		else if (d >= 'a' && d <= 'f')
			value = value * 16 + (d - 'a' + 10);
		else
			return -1;
	}
	return value;
}

static bool is_high_half(int v)
{
	return v >= 0xd800 && v < 0xdc00;
}

static bool is_low_half(int v)
{
	return v >= 0xdc00 && v < 0xe000;
}

void cdp_mend_text(char *text, size_t n)
{
	static const char replacement[4] = { 'f', 'f', 'f', 'd' };
	size_t i = 0;

	while (i + 1 < n) {
		int v, next;

		if (text[i] != '\\') {
			i++;
			continue;
		}
		if (text[i + 1] != 'u' || n - i < 6) {
			i += 2;
			continue;
		}
		v = hex_escape_value(text + i + 2);
		next = n - i >= 12 && text[i + 6] == '\\' && text[i + 7] == 'u'
			       ? hex_escape_value(text + i + 8)
			       : -1;
		if (is_high_half(v) && is_low_half(next)) {
			i += 12;
			continue;
		}
		if (v == 0 || is_high_half(v) || is_low_half(v))
			memcpy(text + i + 2, replacement, sizeof(replacement));
		i += 6;
	}
}

int cdp_parse(char *text, size_t n, json_t **ret, struct cay_err *err)
{
	static const struct json_limits limits = { .bytes = DEVTOOLS_MESSAGE_MAX,
						   .depth = 64,
						   .values = 200000 };
	struct cay_err why = {};

	cdp_mend_text(text, n);
	if (json_parse((struct slice){ text, n }, &limits, ret, &why) >= 0)
		return 0;
	return why.code == CAY_E_NO_MEMORY ? cay_no_memory(err)
					   : devtools_fail(err, "sent an invalid message");
}

/* One frame to the browser: a client masks what it sends. */
static int cdp_send_frame(struct cdp *c, unsigned opcode, char *p, size_t n, struct cay_err *err)
{
	uint8_t head[FRAME_HEAD_MAX] = { (uint8_t)(FIN | opcode) };
	uint8_t mask[MASK_SIZE];
	size_t at = 2;
	int r;

	if (getrandom(mask, sizeof(mask), 0) != sizeof(mask))
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "getrandom");
	if (n < 126) {
		head[1] = (uint8_t)(MASKED | n);
	} else if (n <= UINT16_MAX) {
		head[1] = MASKED | 126;
		be16_put(head + 2, (uint16_t)n);
		at = 4;
	} else {
		head[1] = MASKED | 127;
		be32_put(head + 2, (uint32_t)(n >> 32));
		be32_put(head + 6, (uint32_t)n);
		at = 10;
	}
	memcpy(head + at, mask, sizeof(mask));
	for (size_t i = 0; i < n; i++)
		p[i] = (char)((uint8_t)p[i] ^ mask[i % MASK_SIZE]);
	r = devtools_send(c->to, head, at + MASK_SIZE, err);
	return r < 0 ? r : devtools_send(c->to, p, n, err);
}

static int cdp_fill(struct cdp *c, size_t n, struct cay_err *err)
{
	int r = 0;

	while (r >= 0 && c->to->received.len < n)
		r = devtools_receive(c->to, err);
	return r;
}

/* What is too long to be of use, such as what a page wrote to its console, is dropped as it comes.
 */
static int cdp_skip(struct cdp *c, uint64_t n, struct cay_err *err)
{
	while (n) {
		size_t here = c->to->received.len < n ? c->to->received.len : (size_t)n;
		int r;

		buf_consume(&c->to->received, here);
		n -= here;
		r = n ? devtools_receive(c->to, err) : 0;
		if (r < 0)
			return r;
	}
	return 1;
}

/* The head of a frame whose bytes follow in received; 1: they were too many, and are gone. */
static int cdp_read_frame_head(struct cdp *c, unsigned *opcode, bool *fin, size_t *n,
			       struct cay_err *err)
{
	const uint8_t *p;
	uint64_t length;
	size_t head = 2;
	int r = cdp_fill(c, 2, err);

	if (r < 0)
		return r;
	p = (const uint8_t *)c->to->received.data;
	length = p[1] & 0x7f;
	*fin = p[0] & FIN;
	*opcode = p[0] & 0x0f;
	if (p[0] & 0x70 || p[1] & MASKED)
		return devtools_fail(err, "sent a frame that no server may send");
	if (length >= 126) {
		head = length == 126 ? 4 : 10;
		r = cdp_fill(c, head, err);
		if (r < 0)
			return r;
		p = (const uint8_t *)c->to->received.data;
		length = head == 4 ? be16_get(p + 2)
				   : (uint64_t)be32_get(p + 2) << 32 | be32_get(p + 6);
	}
	buf_consume(&c->to->received, head);
	*n = (size_t)length;
	return length > DEVTOOLS_MESSAGE_MAX ? cdp_skip(c, length, err) : cdp_fill(c, *n, err);
}

static int cdp_fail_closed(struct cay_err *err)
{
	int r = cay_fail(err, CAY_E_STATE, "the tab was closed");

	cay_err_hint(err, "use another tab: leave out `tab`, or use tab_new");
	return r;
}

/* Read one message into c->message. */
static int cdp_read_message(struct cdp *c, struct cay_err *err)
{
	bool fin = false, begun = false;

	buf_clear(&c->message);
	while (!fin || !begun) {
		unsigned opcode = 0;
		size_t n = 0;
		int r = cdp_read_frame_head(c, &opcode, &fin, &n, err);

		if (r < 0)
			return r;
		if (r > 0) { /* the message is none that is waited for */
			buf_clear(&c->message);
			begun = true;
			continue;
		}
		if (opcode == OPCODE_CLOSE)
			return cdp_fail_closed(err);
		if (opcode == OPCODE_PING)
			r = cdp_send_frame(c, OPCODE_PONG, c->to->received.data, n, err);
		else if (opcode == (begun ? OPCODE_MORE : OPCODE_TEXT))
			begun = true;
		else if (opcode != OPCODE_PONG)
			return devtools_fail(err, "sent a frame out of turn");
		if (r >= 0 && (opcode == OPCODE_TEXT || opcode == OPCODE_MORE) &&
		    buf_append(&c->message, c->to->received.data, n) < 0)
			r = devtools_fail(err, "sent too much");
		if (r < 0)
			return r;
		if (opcode >= OPCODE_CLOSE)
			fin = false;
		buf_consume(&c->to->received, n);
	}
	return 0;
}

void cdp_begin(struct cdp *c, struct jw *w, const char *method)
{
	buf_clear(&c->out);
	*w = jw_to(&c->out);
	jw_object_begin(w, NULL);
	jw_i64(w, "id", ++c->last_id);
	jw_str(w, "method", method);
	jw_object_begin(w, "params");
}

int64_t cdp_send(struct cdp *c, struct jw *w, struct cay_err *err)
{
	int r;

	jw_end(w);
	jw_end(w);
	r = jw_finish(w);
	if (r == -ENOBUFS)
		return cay_fail(err, CAY_E_TOO_LARGE, "the action is too large for the browser");
	if (r < 0)
		return cay_no_memory(err);
	r = cdp_send_frame(c, OPCODE_TEXT, c->out.data, c->out.len, err);
	return r < 0 ? r : c->last_id;
}

/* Whether the first member has that name; *text is what follows it.  Chromium begins a reply with
 * `id` and an event with `method`: by that most events are dropped, unparsed. */
static bool cdp_message_begins(const struct cdp *c, struct slice name, struct slice *text)
{
	struct slice before, first;

	*text = (struct slice){ c->message.data, c->message.len };
	before = slice_cut(text, '"');
	first = slice_cut(text, '"');
	return slice_eq(before, SLICE("{")) && slice_eq(first, name);
}

static const struct cdp_event *cdp_find_event(const struct cdp *c)
{
	struct slice text, name;

	if (!cdp_message_begins(c, SLICE("method"), &text) ||
	    !slice_eq(slice_cut(&text, '"'), SLICE(":")))
		return NULL;
	name = slice_cut(&text, '"');
	for (const struct cdp_event *e = c->events; e && e->name; e++)
		if (slice_eq(name, slice_of(e->name)))
			return e;
	return NULL;
}

/* 1: an event was handled. */
static int cdp_handle_event(struct cdp *c, struct cay_err *err)
{
	const struct cdp_event *event = cdp_find_event(c);
	auto_json j = NULL;
	int r;

	if (!event)
		return 0;
	r = cdp_parse(c->message.data, c->message.len, &j, &(struct cay_err){});
	if (r < 0)
		return 0; /* of a page that makes it unreadable */
	r = event->handle(c->arg, json_object_get(j, "params"), err);
	return r < 0 ? r : 1;
}

static bool cdp_message_is_reply(const struct cdp *c)
{
	struct slice text;

	return cdp_message_begins(c, SLICE("id"), &text);
}

static int cdp_take_reply(struct cdp *c, int64_t id, json_t **ret, struct cay_err *err)
{
	auto_json j = NULL;
	const json_t *error;
	int r = cdp_parse(c->message.data, c->message.len, &j, &(struct cay_err){});

	if (r < 0)
		return cay_fail(err, CAY_E_TOO_LARGE,
				"the reply of the page is too large or nested too deeply");
	if (json_integer_value(json_object_get(j, "id")) != id)
		return 0; /* to another call */
	error = json_object_get(j, "error");
	if (error) {
		const char *why = json_string_value(json_object_get(error, "message"));

		r = snprintf(c->refusal, sizeof(c->refusal), "%s", why ? why : "no reason");
		c->refusal[utf8_whole_prefix_len(c->refusal, strlen(c->refusal))] = 0;
		return r < 0 ? -EIO : -EREMOTEIO;
	}
	if (ret)
		*ret = json_incref(json_object_get(j, "result"));
	if (ret && !json_is_object(*ret)) {
		json_decref(*ret);
		*ret = NULL;
		return devtools_fail(err, "sent a reply without a result");
	}
	return 1;
}

int cdp_wait(struct cdp *c, int64_t id, json_t **ret, struct cay_err *err)
{
	for (;;) {
		int r = cdp_read_message(c, err);

		if (r >= 0 && cdp_message_is_reply(c)) {
			r = cdp_take_reply(c, id, ret, err);
			if (r > 0)
				return 0;
		} else if (r >= 0) {
			r = cdp_handle_event(c, err);
		}
		if (r < 0)
			return r;
	}
}

int cdp_call(struct cdp *c, struct jw *w, json_t **ret, struct cay_err *err)
{
	int64_t id = cdp_send(c, w, err);

	return id < 0 ? (int)id : cdp_wait(c, id, ret, err);
}

int cdp_wait_event(struct cdp *c, uint64_t ms, struct cay_err *err)
{
	int r = c->to->received.len ? 1 : devtools_wait(c->to, ms);

	if (devtools_is_late(c->to))
		return cay_fail(err, CAY_E_TIMEOUT, "the request took longer than timeout_ms");
	if (r <= 0)
		return r < 0 ? devtools_fail(err, "has ended") : 0;
	r = cdp_read_message(c, err);
	if (r >= 0 && !cdp_message_is_reply(c))
		r = cdp_handle_event(c, err);
	return r < 0 ? r : 1;
}

int cdp_fail_refused(const struct cdp *c, struct cay_err *err, const char *what)
{
	return cay_fail(err, CAY_E_INVALID, "the browser refused %s: %s", what, c->refusal);
}
