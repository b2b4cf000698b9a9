/* SPDX-License-Identifier: Apache-2.0 */
/* The windows of a screen, as its window manager lists them */
#include "base/endian.h"
#include "init/screen/x-screen.h"

#define HEAD 32
#define PROPERTY_MAX KIB(4)
#define TITLE_MAX 512

enum { REQUEST_INTERN_ATOM = 16, REQUEST_GET_PROPERTY = 20 };
enum { ATOM_WM_NAME = 39, ATOM_WM_CLASS = 67 };

static int x_intern(struct x_conn *c, const char *name, uint32_t *ret, struct cay_err *err)
{
	struct slice text = slice_of(name);
	uint8_t request[40] = { REQUEST_INTERN_ATOM, 1 }; /* only if it exists */
	int r;

	le16_put(request + 4, (uint16_t)text.n);
	memcpy(request + 8, text.p, text.n);
	r = x_require(c, request, 8 + (text.n + 3) / 4 * 4, HEAD, HEAD, err);
	if (r >= 0)
		*ret = le32_get(x_reply(c) + 8);
	return r;
}

/* The value of a property, which is in c->reply; empty if the window has none. */
static int x_get_property(struct x_conn *c, uint32_t window, uint32_t atom, uint8_t format,
			  struct slice *ret, struct cay_err *err)
{
	uint8_t request[24] = { REQUEST_GET_PROPERTY };
	uint64_t n;
	int r;

	*ret = (struct slice){};
	if (!atom)
		return 0;
	le32_put(request + 4, window);
	le32_put(request + 8, atom);
	le32_put(request + 20, PROPERTY_MAX / 4);
	r = x_ask(c, request, sizeof(request), HEAD, HEAD + PROPERTY_MAX, err);
	if (r == -ENOENT)
		return 0; /* a window that was closed meanwhile */
	if (r < 0)
		return r;
	if (x_reply(c)[1] != format)
		return 0;
	n = (uint64_t)le32_get(x_reply(c) + 16) * (format / 8);
	if (n > c->reply.len - HEAD)
		return x_fail(err, "sent a property that is shorter than it says");
	*ret = (struct slice){ c->reply.data + HEAD, (size_t)n };
	return 0;
}

/* A text of a program, cut, without control characters and bytes that are not UTF-8. */
static const char *text_clean(struct slice s, struct arena *arena)
{
	char text[TITLE_MAX];
	size_t n = 0;

	for (size_t at = 0; at < s.n && s.p[at];) {
		size_t len = utf8_len(s.p + at, s.n - at);
		bool control = len == 1 && ((uint8_t)s.p[at] < ' ' || s.p[at] == 0x7f);

		control |= len == 2 && (uint8_t)s.p[at] == 0xc2 && (uint8_t)s.p[at + 1] < 0xa0;
		if (len && !control) {
			if (n + len > sizeof(text))
				break;
			memcpy(text + n, s.p + at, len);
			n += len;
		}
		at += len ? len : 1;
	}
	return arena_strndup(arena, text, n);
}

static int x_describe_window(struct x_conn *c, struct screen_window *w, uint32_t net_wm_name,
			     struct arena *arena, struct cay_err *err)
{
	struct slice value;
	int r = x_get_property(c, (uint32_t)w->id, net_wm_name, 8, &value, err);

	if (r >= 0 && !value.n)
		r = x_get_property(c, (uint32_t)w->id, ATOM_WM_NAME, 8, &value, err);
	if (r < 0)
		return r;
	w->title = text_clean(value, arena);
	r = x_get_property(c, (uint32_t)w->id, ATOM_WM_CLASS, 8, &value, err);
	if (r < 0)
		return r;
	/* two texts, each ended by a 0: of the instance and of the class */
	if (value.n && memchr(value.p, 0, value.n))
		(void)slice_cut(&value, 0);
	w->class_name = text_clean(value, arena);
	return w->title && w->class_name ? 0 : cay_no_memory(err);
}

int x_list_windows(struct x_conn *c, struct arena *arena, struct field_list *ret,
		   struct cay_err *err)
{
	struct screen_window *rows = arena_alloc(arena, X_WINDOWS_MAX, sizeof(*rows));
	uint32_t list = 0, active = 0, name = 0, focus = 0;
	struct slice value;
	int r;

	*ret = (struct field_list){ .v = rows };
	if (!rows)
		return cay_no_memory(err);
	r = x_intern(c, "_NET_CLIENT_LIST", &list, err);
	if (r >= 0)
		r = x_intern(c, "_NET_ACTIVE_WINDOW", &active, err);
	if (r >= 0)
		r = x_intern(c, "_NET_WM_NAME", &name, err);
	if (r >= 0)
		r = x_get_property(c, c->root, active, 32, &value, err);
	if (r >= 0 && value.n >= 4)
		focus = le32_get((const uint8_t *)value.p);
	if (r >= 0)
		r = x_get_property(c, c->root, list, 32, &value, err);
	for (size_t i = 0; r >= 0 && i < value.n / 4 && ret->n < X_WINDOWS_MAX; i++)
		rows[ret->n++].id = le32_get((const uint8_t *)value.p + i * 4);
	for (size_t i = 0; r >= 0 && i < ret->n; i++) {
		rows[i].active = rows[i].id == focus;
		r = x_describe_window(c, &rows[i], name, arena, err);
	}
	return r;
}
