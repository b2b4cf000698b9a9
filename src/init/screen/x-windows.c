/* SPDX-License-Identifier: Apache-2.0 */
/* The windows of a screen, as its window manager lists them */
#include <poll.h>

#include "base/endian.h"
#include "init/screen/x-property.h"
#include "init/screen/x-screen.h"

#define TITLE_MAX 512
#define ACTIVATE_MS 1000 /* what a window manager has to activate a window */
#define LOOK_MS 10
#define FROM_PAGER 2 /* a request of the user: it is not denied as one of a program may be */

enum { ATOM_WM_NAME = 39, ATOM_WM_CLASS = 67 };
enum { CLIENT_MESSAGE = 33, MASK_TO_MANAGER = 0x180000 };

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

/* The window that a property of the root names; 0: none. */
static int x_read_window(struct x_conn *c, uint32_t atom, uint32_t *ret, struct cay_err *err)
{
	struct slice value;
	int r = x_get_property(c, c->root, atom, 32, &value, err);

	*ret = r >= 0 && value.n >= 4 ? le32_get((const uint8_t *)value.p) : 0;
	return r;
}

int x_list_windows(struct x_conn *c, struct arena *arena, struct field_list *ret,
		   struct cay_err *err)
{
	struct screen_window *rows = arena_alloc(arena, X_WINDOWS_MAX, sizeof(*rows));
	uint32_t list, active, name, focus;
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
		r = x_read_window(c, active, &focus, err);
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

/* Whether the window manager lists it. */
static int x_find_window(struct x_conn *c, uint32_t window, struct cay_err *err)
{
	struct slice value;
	uint32_t list;
	int r = x_intern(c, "_NET_CLIENT_LIST", &list, err);

	if (r >= 0)
		r = x_get_property(c, c->root, list, 32, &value, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < value.n / 4; i++)
		if (le32_get((const uint8_t *)value.p + i * 4) == window)
			return 0;
	return cay_fail_field(err, CAY_E_NOT_FOUND, "window", "there is no window %u on the screen",
			      window);
}

/* Ask the window manager to do something with a window of its list. */
static int x_ask_manager(struct x_conn *c, uint32_t window, uint32_t request, uint32_t first,
			 uint32_t second, struct cay_err *err)
{
	struct x_event e = { { CLIENT_MESSAGE, 32 } }; /* of data of 32 bits */
	int r = x_find_window(c, window, err);

	if (r < 0)
		return r;
	le32_put(e.bytes + 4, window);
	le32_put(e.bytes + 8, request);
	le32_put(e.bytes + 12, first);
	le32_put(e.bytes + 16, second);
	return x_send_event(c, c->root, MASK_TO_MANAGER, &e, err);
}

int x_close_window(struct x_conn *c, uint32_t window, struct cay_err *err)
{
	uint32_t close;
	int r = x_intern(c, "_NET_CLOSE_WINDOW", &close, err);

	return r < 0 ? r : x_ask_manager(c, window, close, 0, FROM_PAGER, err);
}

int x_focus_window(struct x_conn *c, uint32_t window, struct cay_err *err)
{
	uint32_t active, now;
	int r = x_intern(c, "_NET_ACTIVE_WINDOW", &active, err);

	if (r >= 0)
		r = x_ask_manager(c, window, active, FROM_PAGER, 0, err);
	for (unsigned ms = 0; r >= 0 && ms < ACTIVATE_MS; ms += LOOK_MS) {
		r = x_read_window(c, active, &now, err);
		if (r < 0 || now == window)
			return r;
		(void)poll(NULL, 0, LOOK_MS);
	}
	return r < 0 ? r
		     : cay_fail(err, CAY_E_STATE, "the window manager did not activate window %u",
				window);
}
