/* SPDX-License-Identifier: Apache-2.0 */
#include "init/screen/x-clipboard.h"

#include "base/clock.h"
#include "base/endian.h"

#define PIECE_MAX MIB(1)
#define ANSWER_MS 3000 /* what the owner of a clipboard has for each piece */

enum {
	REQUEST_CREATE_WINDOW = 1,
	REQUEST_CHANGE_PROPERTY = 18,
	REQUEST_SET_SELECTION_OWNER = 22,
	REQUEST_GET_SELECTION_OWNER = 23,
	REQUEST_CONVERT_SELECTION = 24,
};
enum { EVENT_PROPERTY = 28, EVENT_CLEAR = 29, EVENT_REQUEST = 30, EVENT_NOTIFY = 31 };
enum { ATOM_ATOM = 4, INPUT_ONLY = 2, HAS_EVENT_MASK = 0x800, MASK_PROPERTY = 0x400000 };

static int clipboard_init(struct x_clipboard *b, struct x_conn *c, struct cay_err *err)
{
	const struct {
		const char *name;
		uint32_t *atom;
	} names[] = {
		{ "CLIPBOARD", &b->clipboard },
		{ "UTF8_STRING", &b->utf8 },
		{ "INCR", &b->incr },
		{ "TARGETS", &b->targets },
		{ "TEXT", &b->text },
		{ "text/plain", &b->plain },
		{ "text/plain;charset=utf-8", &b->plain_utf8 },
		{ "CAY_CLIPBOARD", &b->property },
	};
	uint8_t request[36] = { REQUEST_CREATE_WINDOW };
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(names); i++)
		r = x_intern(c, names[i].name, names[i].atom, err);
	if (r < 0)
		return r;
	b->window = c->id_base | (c->id_mask & -c->id_mask);
	le32_put(request + 4, b->window);
	le32_put(request + 8, c->root);
	le16_put(request + 16, 1); /* its width and height: it is never shown */
	le16_put(request + 18, 1);
	le16_put(request + 22, INPUT_ONLY);
	le32_put(request + 28, HAS_EVENT_MASK);
	le32_put(request + 32, MASK_PROPERTY);
	return x_send(c, request, sizeof(request), err);
}

static int clipboard_owner(const struct x_clipboard *b, struct x_conn *c, uint32_t *ret,
			   struct cay_err *err)
{
	uint8_t request[8] = { REQUEST_GET_SELECTION_OWNER };
	int r;

	le32_put(request + 4, b->clipboard);
	r = x_require(c, request, sizeof(request), 32, 32, err);
	*ret = r >= 0 ? le32_get(x_reply(c) + 8) : 0;
	return r;
}

/* Wait for an event of that type whose 32 bits at `at` are value: 1, or 0 after ANSWER_MS. */
static int clipboard_wait(struct x_conn *c, uint8_t type, size_t at, uint32_t value,
			  struct x_event *ret, struct cay_err *err)
{
	uint64_t now = clk_boot_ns(&clk_system), end = now + ANSWER_MS * NS_PER_MS;

	for (; now < end; now = clk_boot_ns(&clk_system)) {
		int r = x_wait_event(c, (end - now) / NS_PER_MS + 1, ret->bytes, err);

		if (r < 0)
			return r;
		if (r > 0 && (ret->bytes[0] & 0x7f) == type && le32_get(ret->bytes + at) == value)
			return 1;
	}
	return 0;
}

static int clipboard_fail_owner(struct cay_err *err)
{
	int r = cay_fail(err, CAY_E_UNAVAILABLE,
			 "the program that owns the clipboard does not send its text");

	cay_err_set_blame(err, BLAME_TASK);
	return r;
}

/* Valid UTF-8 without NUL: what JSON can have. */
static int clipboard_append(struct buf *to, struct slice s)
{
	for (size_t at = 0; at < s.n;) {
		size_t n = utf8_len(s.p + at, s.n - at);

		if (n && s.p[at] && buf_append(to, s.p + at, n) < 0)
			return -ENOBUFS;
		at += n ? n : 1;
	}
	return 0;
}

/* The text in our property, which the owner has set: whole, or its next piece.  1: it has ended. */
static int clipboard_take_piece(const struct x_clipboard *b, struct x_conn *c, struct buf *raw,
				bool *in_pieces, struct cay_err *err)
{
	struct x_property p;
	int r = x_read_property(c, b->window, b->property, true, PIECE_MAX, &p, err);

	if (r < 0)
		return r;
	if (p.left)
		return cay_fail(err, CAY_E_TOO_LARGE, "the clipboard has more than 1 MiB");
	if (p.type == b->incr && !*in_pieces) {
		*in_pieces = true;
		return 0;
	}
	if (p.format != 8 && p.value.n)
		return clipboard_fail_owner(err);
	if (buf_append(raw, p.value.p, p.value.n) < 0)
		return cay_fail(err, CAY_E_TOO_LARGE, "the clipboard has more than 1 MiB");
	return !*in_pieces || !p.value.n;
}

int x_read_clipboard(struct x_conn *c, struct buf *ret, struct cay_err *err)
{
	auto_buf raw = BUF_INIT(X_CLIPBOARD_MAX + 1);
	uint8_t request[24] = { REQUEST_CONVERT_SELECTION };
	struct x_clipboard b;
	struct x_event e;
	bool in_pieces = false;
	uint32_t owner = 0;
	int r = clipboard_init(&b, c, err);

	if (r >= 0)
		r = clipboard_owner(&b, c, &owner, err);
	if (r < 0 || !owner)
		return r;
	le32_put(request + 4, b.window);
	le32_put(request + 8, b.clipboard);
	le32_put(request + 12, b.utf8);
	le32_put(request + 16, b.property);
	r = x_send(c, request, sizeof(request), err);
	if (r >= 0)
		r = clipboard_wait(c, EVENT_NOTIFY, 8, b.window, &e, err);
	if (r <= 0)
		return r < 0 ? r : clipboard_fail_owner(err);
	if (!le32_get(e.bytes + 20))
		return cay_fail(err, CAY_E_STATE, "the clipboard holds something that is not text");
	r = clipboard_take_piece(&b, c, &raw, &in_pieces, err);
	while (r == 0) {
		do
			r = clipboard_wait(c, EVENT_PROPERTY, 8, b.property, &e, err);
		while (r > 0 && e.bytes[16] != 0); /* 0: it was set, 1: deleted */
		if (r <= 0)
			return r < 0 ? r : clipboard_fail_owner(err);
		r = clipboard_take_piece(&b, c, &raw, &in_pieces, err);
	}
	if (r < 0)
		return r;
	return clipboard_append(ret, (struct slice){ raw.data, raw.len }) < 0 ? cay_no_memory(err)
									      : 0;
}

static int clipboard_set_property(struct x_conn *c, const uint8_t *e, uint32_t property,
				  uint32_t type, uint8_t format, struct slice value,
				  struct cay_err *err)
{
	auto_buf out = BUF_INIT(X_CLIPBOARD_SET_MAX + 64);
	uint8_t request[24] = { REQUEST_CHANGE_PROPERTY };
	static const uint8_t padding[3];

	le32_put(request + 4, le32_get(e + 12)); /* the window that asks */
	le32_put(request + 8, property);
	le32_put(request + 12, type);
	request[16] = format;
	le32_put(request + 20, (uint32_t)(value.n / (format / 8)));
	if (buf_append(&out, request, sizeof(request)) < 0 ||
	    buf_append(&out, value.p, value.n) < 0 || buf_append(&out, padding, -value.n % 4) < 0)
		return cay_no_memory(err);
	return x_send(c, (uint8_t *)out.data, out.len, err);
}

/* Send the text, or the list of forms that there are, to a program that asks. */
static int clipboard_answer(const struct x_clipboard *b, struct x_conn *c, struct slice text,
			    const uint8_t *e, struct cay_err *err)
{
	uint32_t target = le32_get(e + 20), property = le32_get(e + 24);
	const uint32_t forms[] = { b->targets, b->utf8, b->text, b->plain, b->plain_utf8 };
	struct x_event notify = { { EVENT_NOTIFY } };
	uint8_t list[sizeof(forms)];
	size_t i = 0;
	int r = 0;

	property = property ? property : target;
	while (i < ARRAY_SIZE(forms) && forms[i] != target)
		i++;
	if (i == 0) {
		for (size_t j = 0; j < ARRAY_SIZE(forms); j++)
			le32_put(list + j * 4, forms[j]);
		r = clipboard_set_property(c, e, property, ATOM_ATOM, 32,
					   (struct slice){ (const char *)list, sizeof(list) }, err);
	} else if (i < ARRAY_SIZE(forms)) {
		r = clipboard_set_property(c, e, property, target == b->text ? b->utf8 : target, 8,
					   text, err);
	} else {
		property = 0; /* a form that there is not */
	}
	memcpy(notify.bytes + 4, e + 4, 4); /* the time of the request */
	memcpy(notify.bytes + 8, e + 12, 12);
	le32_put(notify.bytes + 20, property);
	return r < 0 ? r : x_send_event(c, le32_get(e + 12), 0, &notify, err);
}

int x_own_clipboard(struct x_conn *c, struct x_clipboard *b, struct cay_err *err)
{
	uint8_t request[16] = { REQUEST_SET_SELECTION_OWNER };
	uint32_t owner = 0;
	int r = clipboard_init(b, c, err);

	if (r < 0)
		return r;
	le32_put(request + 4, b->window);
	le32_put(request + 8, b->clipboard);
	r = x_send(c, request, sizeof(request), err);
	if (r >= 0)
		r = clipboard_owner(b, c, &owner, err);
	return r >= 0 && owner != b->window ? x_fail(err, "did not take the clipboard") : r;
}

void x_serve_clipboard(struct x_conn *c, const struct x_clipboard *b, struct slice text)
{
	struct cay_err err = {};
	struct x_event e;

	while (x_wait_event(c, UINT64_MAX, e.bytes, &err) > 0) {
		uint8_t type = e.bytes[0] & 0x7f;

		if (type == EVENT_CLEAR ||
		    (type == EVENT_REQUEST && clipboard_answer(b, c, text, e.bytes, &err) < 0))
			return;
	}
}
