/* SPDX-License-Identifier: Apache-2.0 */
#include "init/screen/screen.h"

enum {
	HAS_PLACE = 1,
	HAS_TO = 2,
	HAS_BUTTON = 4,
	HAS_CLICKS = 8,
	HAS_WHEEL = 16,
	HAS_KEYS = 32,
	HAS_REPEAT = 64,
	HAS_TEXT = 128,
	HAS_DURATION = 256,
	HAS_WINDOW = 512
};

static const struct {
	unsigned takes, needs;
} action_rules[SCREEN_NUM_ACTIONS] = {
	[SCREEN_MOVE] = { HAS_PLACE | HAS_KEYS, HAS_PLACE },
	[SCREEN_CLICK] = { HAS_PLACE | HAS_BUTTON | HAS_CLICKS | HAS_KEYS, 0 },
	[SCREEN_DOWN] = { HAS_PLACE | HAS_BUTTON, 0 },
	[SCREEN_UP] = { HAS_PLACE | HAS_BUTTON, 0 },
	[SCREEN_DRAG] = { HAS_PLACE | HAS_TO | HAS_BUTTON | HAS_KEYS, HAS_TO },
	[SCREEN_SCROLL] = { HAS_PLACE | HAS_WHEEL | HAS_KEYS, 0 },
	[SCREEN_KEY] = { HAS_KEYS | HAS_REPEAT, HAS_KEYS },
	[SCREEN_HOLD] = { HAS_KEYS | HAS_DURATION, HAS_KEYS | HAS_DURATION },
	[SCREEN_TYPE] = { HAS_TEXT, HAS_TEXT },
	[SCREEN_WAIT] = { HAS_DURATION, HAS_DURATION },
	[SCREEN_FOCUS] = { HAS_WINDOW, HAS_WINDOW },
	[SCREEN_CLOSE] = { HAS_WINDOW, HAS_WINDOW },
	[SCREEN_COPY] = { HAS_TEXT, HAS_TEXT },
};

static int action_check_members(const struct screen_action *a, struct cay_err *err)
{
	const struct {
		bool there;
		unsigned bit;
		const char *name;
	} members[] = {
		{ a->has_x, HAS_PLACE, "x" },
		{ a->has_y, HAS_PLACE, "y" },
		{ a->has_to_x, HAS_TO, "to_x" },
		{ a->has_to_y, HAS_TO, "to_y" },
		{ a->has_button, HAS_BUTTON, "button" },
		{ a->has_clicks, HAS_CLICKS, "clicks" },
		{ a->has_direction, HAS_WHEEL, "direction" },
		{ a->has_amount, HAS_WHEEL, "amount" },
		{ a->keys, HAS_KEYS, "keys" },
		{ a->has_repeat, HAS_REPEAT, "repeat" },
		{ a->text, HAS_TEXT, "text" },
		{ a->has_duration, HAS_DURATION, "duration_ms" },
		{ a->has_window, HAS_WINDOW, "window" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		if (members[i].there && !(action_rules[a->type].takes & members[i].bit))
			return cay_fail_field(err, CAY_E_INVALID, members[i].name,
					      "not a member of this action");
		if (!members[i].there && action_rules[a->type].needs & members[i].bit)
			return cay_fail_field(err, CAY_E_INVALID, members[i].name,
					      "required for this action");
	}
	if (a->has_x != a->has_y)
		return cay_fail_field(err, CAY_E_INVALID, a->has_x ? "y" : "x",
				      "x and y belong together");
	return 0;
}

static int action_check_texts(const struct screen_action *a, struct cay_err *err)
{
	struct key_combination keys[KEY_COMBINATIONS_MAX];
	size_t n;

	if (a->keys && key_combinations_parse(a->keys, keys, &n, err) < 0)
		return -EINVAL;
	if (a->keys && a->type != SCREEN_KEY && n > 1)
		return cay_fail_field(err, CAY_E_INVALID, "keys",
				      "only `key` takes several combinations");
	for (const char *at = a->text; a->type == SCREEN_TYPE && at && *at;)
		if (!keysym_of_character(utf8_next(&at)))
			return cay_fail_field(err, CAY_E_INVALID, "text",
					      "has a control character that no key gives");
	return 0;
}

static int fail_in_action(struct cay_err *err, size_t i)
{
	auto_buf name = BUF_INIT(32);

	if (buf_printf(&name, "actions[%zu]", i) < 0)
		return cay_no_memory(err);
	cay_err_prefix_field(err, buf_str(&name));
	return -EINVAL;
}

int screen_actions_check(const struct screen_act *q, struct cay_err *err)
{
	const struct screen_action *v = q->actions.v;
	uint64_t waits = 0;

	for (size_t i = 0; i < q->actions.n; i++) {
		if (action_check_members(&v[i], err) < 0 || action_check_texts(&v[i], err) < 0)
			return fail_in_action(err, i);
		waits += v[i].has_duration ? v[i].duration_ms : 0;
	}
	if (waits > ACTIONS_WAIT_MAX_MS)
		return cay_fail_field(err, CAY_E_INVALID, "actions",
				      "the actions of a request wait for at most %d s together",
				      ACTIONS_WAIT_MAX_MS / 1000);
	return 0;
}

int screen_actions_check_places(const struct screen_act *q, uint32_t width, uint32_t height,
				struct cay_err *err)
{
	const struct screen_action *v = q->actions.v;

	for (size_t i = 0; i < q->actions.n; i++) {
		bool x = v[i].has_x && v[i].x >= width, y = v[i].has_y && v[i].y >= height;
		bool to_x = v[i].has_to_x && v[i].to_x >= width;
		bool to_y = v[i].has_to_y && v[i].to_y >= height;

		if (!x && !y && !to_x && !to_y)
			continue;
		(void)cay_fail_field(err, CAY_E_INVALID,
				     x      ? "x"
				     : y    ? "y"
				     : to_x ? "to_x"
					    : "to_y",
				     "outside of the picture, which is %ux%u", width, height);
		return fail_in_action(err, i);
	}
	return 0;
}
