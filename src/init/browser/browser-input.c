/* SPDX-License-Identifier: Apache-2.0 */
/* Mouse and keyboard of a page: events as if a person made them */
#include "init/browser/browser.h"

#define DRAG_STEPS 10
#define WHEEL_STEP 100 /* pixels */
#define AMOUNT 3

static const char *const button_names[] = { "left", "middle", "right", "back", "forward" };

struct mouse_event {
	const char *type;
	struct browser_place at;
	unsigned button; /* enum screen_button */
	bool has_button, is_down;
	uint64_t clicks;
	unsigned modifiers;
	double delta_x, delta_y;
};

static int mouse_send(struct browser_hand *h, const struct mouse_event *e, struct cay_err *err)
{
	struct cdp *c = &h->tab->cdp;
	struct jw w;
	int r;

	cdp_begin(c, &w, "Input.dispatchMouseEvent");
	jw_str(&w, "type", e->type);
	jw_real(&w, "x", e->at.x);
	jw_real(&w, "y", e->at.y);
	jw_u64(&w, "modifiers", e->modifiers);
	jw_str(&w, "button", e->has_button ? button_names[e->button] : "none");
	if (e->is_down)
		jw_u64(&w, "buttons",
		       UINT64_C(1) << (e->button == BUTTON_RIGHT    ? 1
				       : e->button == BUTTON_MIDDLE ? 2
								    : e->button));
	if (e->clicks)
		jw_u64(&w, "clickCount", e->clicks);
	if (e->delta_x != 0 || e->delta_y != 0 || str_eq(e->type, "mouseWheel")) {
		jw_real(&w, "deltaX", e->delta_x);
		jw_real(&w, "deltaY", e->delta_y);
	}
	r = cdp_call(c, &w, NULL, err);
	return r == -EREMOTEIO ? cdp_fail_refused(c, err, "the mouse") : r;
}

int browser_hover(struct browser_hand *h, struct browser_place at, struct cay_err *err)
{
	return mouse_send(h, &(struct mouse_event){ .type = "mouseMoved", .at = at }, err);
}

int browser_click(struct browser_hand *h, const struct browser_action *a, struct browser_place at,
		  struct cay_err *err)
{
	struct mouse_event e = { .at = at, .button = a->button, .has_button = true };
	uint64_t clicks = a->has_clicks ? a->clicks : 1;
	struct browser_key keys[BROWSER_KEYS_MAX];
	size_t n;
	int r = browser_hover(h, at, err);

	if (a->keys && browser_keys_parse(a->keys, keys, &n, err) >= 0)
		e.modifiers = keys[0].modifiers;
	for (uint64_t i = 1; i <= clicks && r >= 0; i++) {
		e.clicks = i;
		e.type = "mousePressed";
		e.is_down = true;
		r = mouse_send(h, &e, err);
		e.type = "mouseReleased";
		e.is_down = false;
		if (r >= 0)
			r = mouse_send(h, &e, err);
	}
	return r;
}

/* In steps: pages begin to drag after the mouse has moved a little. */
int browser_drag(struct browser_hand *h, struct browser_place from, struct browser_place to,
		 struct cay_err *err)
{
	struct mouse_event e = {
		.type = "mousePressed", .at = from, .has_button = true, .is_down = true, .clicks = 1
	};
	int r = browser_hover(h, from, err);

	if (r >= 0)
		r = mouse_send(h, &e, err);
	e.type = "mouseMoved";
	for (int i = 1; i <= DRAG_STEPS && r >= 0; i++) {
		e.at.x = from.x + (to.x - from.x) * i / DRAG_STEPS;
		e.at.y = from.y + (to.y - from.y) * i / DRAG_STEPS;
		r = mouse_send(h, &e, err);
	}
	e.type = "mouseReleased";
	e.is_down = false;
	return r < 0 ? r : mouse_send(h, &e, err);
}

int browser_scroll(struct browser_hand *h, const struct browser_action *a, struct browser_place at,
		   struct cay_err *err)
{
	unsigned direction = a->has_direction ? a->direction : SCROLL_DOWN;
	double by = (double)(a->has_amount ? a->amount : AMOUNT) * WHEEL_STEP;
	struct mouse_event e = { .type = "mouseWheel", .at = at };

	e.delta_y = direction == SCROLL_DOWN ? by : direction == SCROLL_UP ? -by : 0;
	e.delta_x = direction == SCROLL_RIGHT ? by : direction == SCROLL_LEFT ? -by : 0;
	return mouse_send(h, &e, err);
}

static int key_send(struct browser_hand *h, const struct browser_key *k, bool down,
		    struct cay_err *err)
{
	struct cdp *c = &h->tab->cdp;
	bool types = k->text && !(k->modifiers & ~(unsigned)MODIFIER_SHIFT);
	struct jw w;
	int r;

	cdp_begin(c, &w, "Input.dispatchKeyEvent");
	jw_str(&w, "type", !down ? "keyUp" : types ? "keyDown" : "rawKeyDown");
	jw_u64(&w, "modifiers", k->modifiers);
	jw_str(&w, "key", k->name);
	jw_str(&w, "code", k->code);
	jw_u64(&w, "windowsVirtualKeyCode", k->number);
	if (down && types)
		jw_str(&w, "text", k->text);
	r = cdp_call(c, &w, NULL, err);
	return r == -EREMOTEIO ? cdp_fail_refused(c, err, "the keyboard") : r;
}

static int key_press(struct browser_hand *h, const struct browser_key *k, struct cay_err *err)
{
	int r = key_send(h, k, true, err);

	return r < 0 ? r : key_send(h, k, false, err);
}

static int key_hold(struct browser_hand *h, const struct browser_key *k, uint64_t ms,
		    struct cay_err *err)
{
	struct cay_err up_err = {};
	int r = key_send(h, k, true, err), up;

	if (r < 0)
		return r;
	r = browser_pause(h, ms, err);
	up = key_send(h, k, false, &up_err);
	if (r >= 0 && up < 0)
		*err = up_err;
	return r < 0 ? r : up;
}

int browser_press(struct browser_hand *h, const struct browser_action *a, struct cay_err *err)
{
	struct browser_key keys[BROWSER_KEYS_MAX];
	size_t n = 0;
	int r = browser_keys_parse(a->keys, keys, &n, err);

	if (r >= 0 && a->has_duration)
		return key_hold(h, &keys[0], a->duration_ms, err);
	for (uint64_t times = a->has_repeat ? a->repeat : 1; times && r >= 0; times--)
		for (size_t i = 0; i < n && r >= 0; i++)
			r = key_press(h, &keys[i], err);
	return r;
}

int browser_insert(struct browser_hand *h, const char *text, struct cay_err *err)
{
	struct cdp *c = &h->tab->cdp;
	struct jw w;
	int r;

	cdp_begin(c, &w, "Input.insertText");
	jw_str(&w, "text", text);
	r = cdp_call(c, &w, NULL, err);
	return r == -EREMOTEIO ? cdp_fail_refused(c, err, "the text") : r;
}

/* A line feed is the key Enter, a tab the key Tab; other characters arrive as a keyboard or, where
 * it has none for them, an input method would send them. */
int browser_type(struct browser_hand *h, const char *text, struct cay_err *err)
{
	int r = 0;

	for (const char *at = text; *at && r >= 0;) {
		size_t n = utf8_len(at, strlen(at));
		auto_buf one = BUF_INIT(16);
		struct browser_key k;
		size_t found;

		if (!n || buf_append(&one, at, n) < 0)
			return cay_no_memory(err);
		at += n;
		if (one.data[0] == '\r' && *at == '\n')
			continue; /* one end of a line */
		if (n > 1)
			r = browser_insert(h, buf_str(&one), err);
		else if (browser_keys_parse(strchr("\r\n", one.data[0]) ? "Enter"
					    : one.data[0] == '\t'       ? "Tab"
					    : one.data[0] == ' '        ? "space"
									: buf_str(&one),
					    &k, &found, err) >= 0)
			r = key_press(h, &k, err);
		else
			r = -EINVAL;
		if (h->op)
			child_op_report_progress(h->op);
	}
	return r;
}
