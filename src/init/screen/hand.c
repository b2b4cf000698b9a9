/* SPDX-License-Identifier: Apache-2.0 */
/* Actions of mouse and keyboard, and on windows */
#include <poll.h>

#include "file/tmpfile.h"
#include "init/screen/screen.h"

#define SLICE_MS 100
#define DRAG_STEP_MS 5
#define DRAG_STEP 20 /* pixels */
#define DRAG_STEPS_MAX 64
#define AMOUNT 3

/* X's numbers of buttons */
static const uint8_t buttons[BUTTON_NUM] = { [BUTTON_LEFT] = 1,
					     [BUTTON_MIDDLE] = 2,
					     [BUTTON_RIGHT] = 3,
					     [BUTTON_BACK] = 8,
					     [BUTTON_FORWARD] = 9 };
static const uint8_t wheel[SCROLL_NUM] = {
	[SCROLL_UP] = 4, [SCROLL_DOWN] = 5, [SCROLL_LEFT] = 6, [SCROLL_RIGHT] = 7
};

int hand_pause(struct hand *a, uint64_t ms, struct cay_err *err)
{
	while (a->op && ms) {
		uint64_t now = ms < SLICE_MS ? ms : SLICE_MS;

		(void)poll(NULL, 0, (int)now);
		ms -= now;
		child_op_report_progress(a->op);
		if (tmpfile_sigterm_was_received())
			return cay_fail(err, CAY_E_TIMEOUT, "the client left");
	}
	return 0;
}

/* To a place of the picture. */
static int hand_move(struct hand *a, uint64_t x, uint64_t y, struct cay_err *err)
{
	return x_fake_input(a->conn, X_MOTION, 0,
			    picture_coordinate_enlarge((uint32_t)x, a->width, a->conn->width),
			    picture_coordinate_enlarge((uint32_t)y, a->height, a->conn->height),
			    err);
}

static int hand_press_button(struct hand *a, uint8_t button, uint64_t times, struct cay_err *err)
{
	int r = 0;

	while (times-- && r >= 0) {
		r = x_fake_input(a->conn, X_BUTTON_DOWN, button, 0, 0, err);
		if (r >= 0)
			r = x_fake_input(a->conn, X_BUTTON_UP, button, 0, 0, err);
	}
	return r;
}

static uint64_t step_between(uint64_t from, uint64_t to, uint64_t i, uint64_t n)
{
	return to > from ? from + (to - from) * i / n : from - (from - to) * i / n;
}

/* In steps: programs begin to drag after the mouse has moved a little. */
static int hand_drag(struct hand *a, const struct screen_action *s, struct cay_err *err)
{
	uint32_t x, y;
	uint64_t dx, dy, n;
	int r = x_read_cursor_place(a->conn, &x, &y, err);

	if (r < 0)
		return r;
	x = picture_coordinate_reduce(x, a->conn->width, a->width);
	y = picture_coordinate_reduce(y, a->conn->height, a->height);
	dx = s->to_x > x ? s->to_x - x : x - s->to_x;
	dy = s->to_y > y ? s->to_y - y : y - s->to_y;
	n = (dx > dy ? dx : dy) / DRAG_STEP + 2;
	n = n < DRAG_STEPS_MAX ? n : DRAG_STEPS_MAX;
	a->button = buttons[s->button];
	r = x_fake_input(a->conn, X_BUTTON_DOWN, a->button, 0, 0, err);
	for (uint64_t i = 1; r >= 0 && i <= n; i++) {
		r = hand_pause(a, DRAG_STEP_MS, err);
		if (r >= 0)
			r = hand_move(a, step_between(x, s->to_x, i, n),
				      step_between(y, s->to_y, i, n), err);
	}
	return r;
}

static int hand_end(struct hand *a, struct cay_err *err)
{
	int r = 0;

	if (a->button)
		r = x_fake_input(a->conn, X_BUTTON_UP, a->button, 0, 0, err);
	a->button = 0;
	return r < 0 ? r : hand_release(a, err);
}

static int hand_press_keys(struct hand *a, const struct screen_action *s, struct cay_err *err)
{
	struct key_combination keys[KEY_COMBINATIONS_MAX];
	size_t n;
	int r = key_combinations_parse(s->keys, keys, &n, err);

	for (uint64_t times = s->has_repeat ? s->repeat : 1; r >= 0 && times; times--)
		for (size_t i = 0; r >= 0 && i < n; i++) {
			r = hand_press(a, &keys[i], err);
			/* all but `key` release theirs after they have done what they do */
			if (r >= 0 && s->type == SCREEN_KEY)
				r = hand_release(a, err);
		}
	return r;
}

static int hand_do(struct hand *a, const struct screen_action *s, struct cay_err *err)
{
	uint8_t button = buttons[s->button];
	int r = s->has_x ? hand_move(a, s->x, s->y, err) : 0;

	if (r >= 0 && s->keys)
		r = hand_press_keys(a, s, err);
	if (r < 0)
		return r;
	switch ((enum screen_action_type)s->type) {
	case SCREEN_MOVE:
	case SCREEN_KEY:
	case SCREEN_NUM_ACTIONS:
		return 0;
	case SCREEN_CLICK:
		return hand_press_button(a, button, s->has_clicks ? s->clicks : 1, err);
	case SCREEN_DOWN:
		return x_fake_input(a->conn, X_BUTTON_DOWN, button, 0, 0, err);
	case SCREEN_UP:
		return x_fake_input(a->conn, X_BUTTON_UP, button, 0, 0, err);
	case SCREEN_DRAG:
		return hand_drag(a, s, err);
	case SCREEN_SCROLL:
		return hand_press_button(a, wheel[s->has_direction ? s->direction : SCROLL_DOWN],
					 s->has_amount ? s->amount : AMOUNT, err);
	case SCREEN_TYPE:
		return hand_type(a, s->text, err);
	case SCREEN_HOLD:
	case SCREEN_WAIT:
		return hand_pause(a, s->duration_ms, err);
	case SCREEN_FOCUS:
		return x_focus_window(a->conn, (uint32_t)s->window, err);
	case SCREEN_CLOSE:
		return x_close_window(a->conn, (uint32_t)s->window, err);
	case SCREEN_COPY:
		return a->op ? screen_copy(child_op_init(a->op), s->text, err) : 0;
	}
	return 0;
}

int hand_run(struct hand *a, const struct screen_act *q, struct cay_err *err)
{
	const struct screen_action *v = q->actions.v;
	struct cay_err end_err = {};
	int r = 0, end = 0;
	bool held;

	for (size_t i = 0; r >= 0 && end >= 0 && i < q->actions.n; i++) {
		r = hand_do(a, &v[i], err);
		held = a->n_held || a->button;
		end = hand_end(a, &end_err);
		if (r < 0 && held && end >= 0) /* the reply says that they are up */
			end = x_sync(a->conn, &end_err);
		if (r < 0)
			(void)cay_err_wrap(err, r, "action %zu", i);
	}
	if (r >= 0 && end < 0)
		*err = end_err;
	return r < 0 ? r : end < 0 ? end : x_sync(a->conn, err);
}
