/* SPDX-License-Identifier: Apache-2.0 */
/* profile-openai - the actions of OpenAI's computer, as screen.act has them */
#include <math.h>

#include "mcp/profiles/profile-screen.h"

#define WAIT_MS 2000
#define WHEEL_PIXELS 100 /* a step of the wheel scrolls programs by about so many */
#define WHEEL_MAX 100
#define ACTIONS_MAX 64 /* of screen.act */

const char *const openai_actions[] = { "click",  "double_click", "drag", "keypress",   "move",
				       "scroll", "type",         "wait", "screenshot", NULL };
const char *const openai_buttons[] = { "left", "right", "wheel", "back", "forward", NULL };

/* "ctrl+shift+t": keys that are down together.  A space and a plus are keys, too. */
static int keys_join(const json_t *keys, struct buf *out)
{
	const json_t *key;
	size_t i;

	json_array_foreach(keys, i, key)
	{
		const char *name = json_string_value(key);

		name = str_eq(name, " ") ? "space" : name;
		name = str_eq(name, "+") ? "plus" : name;
		if (buf_printf(out, "%s%s", i ? "+" : "", name) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int action_copy_place(const json_t *from, const char *x, const char *y, json_t *to)
{
	int r = json_member_copy(to, x, from, "x");

	return r < 0 ? r : json_member_copy(to, y, from, "y");
}

/* Add an action of a type, with the place and the keys of another one. */
static json_t *actions_add(json_t *actions, const char *type, const json_t *from)
{
	auto_buf keys = BUF_INIT(KIB(1));
	json_t *a = json_pack("{s:s}", "type", type);
	int r = keys_join(json_object_get(from, "keys"), &keys);

	if (json_array_append_new(actions, a) < 0 || r < 0)
		return NULL;
	if (keys.len)
		r = json_member_put(a, "keys", json_string(keys.data));
	if (r >= 0)
		r = action_copy_place(from, "x", "y", a);
	return r < 0 ? NULL : a;
}

static int actions_add_click(json_t *actions, const json_t *from, unsigned clicks)
{
	const char *button = json_member_str(from, "button");
	json_t *a = actions_add(actions, "click", from);
	int r = a ? json_member_put(a, "clicks", json_integer(clicks)) : -ENOMEM;

	if (r < 0 || !button[0])
		return r;
	return json_member_put(a, "button",
			       json_string(str_eq(button, "wheel") ? "middle" : button));
}

/* Two places are a drag; more are moves while the button is down. */
static int actions_add_drag(json_t *actions, const json_t *from)
{
	const json_t *path = json_object_get(from, "path"), *point;
	size_t i, n = json_array_size(path);
	json_t *a;

	if (n == 2) {
		a = actions_add(actions, "drag", from);
		return !a || action_copy_place(json_array_get(path, 0), "x", "y", a) < 0
			       ? -ENOMEM
			       : action_copy_place(json_array_get(path, 1), "to_x", "to_y", a);
	}
	json_array_foreach(path, i, point)
	{
		if (!actions_add(actions, "move", point) ||
		    (i == 0 && !actions_add(actions, "down", NULL)))
			return -ENOMEM;
	}
	return actions_add(actions, "up", NULL) ? 0 : -ENOMEM;
}

static int actions_add_scroll(json_t *actions, const json_t *from)
{
	static const struct {
		const char *member, *more, *less;
	} axes[] = { { "scroll_y", "down", "up" }, { "scroll_x", "right", "left" } };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(axes) && r >= 0; i++) {
		double pixels = json_number_value(json_object_get(from, axes[i].member));
		double steps = ceil(fabs(pixels) / WHEEL_PIXELS);
		json_t *a;

		if (pixels == 0)
			continue;
		a = actions_add(actions, "scroll", from);
		r = a ? json_member_put(a, "direction",
					json_string(pixels > 0 ? axes[i].more : axes[i].less))
		      : -ENOMEM;
		if (r >= 0)
			r = json_member_put(a, "amount",
					    json_integer((json_int_t)fmin(steps, WHEEL_MAX)));
	}
	return r;
}

static int actions_add_one(json_t *actions, const json_t *from)
{
	const char *type = json_member_str(from, "type");
	json_t *a;

	if (str_eq(type, "click") || str_eq(type, "double_click"))
		return actions_add_click(actions, from, str_eq(type, "click") ? 1 : 2);
	if (str_eq(type, "drag"))
		return actions_add_drag(actions, from);
	if (str_eq(type, "scroll"))
		return actions_add_scroll(actions, from);
	if (str_eq(type, "screenshot"))
		return 0;
	a = actions_add(actions, str_eq(type, "keypress") ? "key" : type, from);
	if (a && str_eq(type, "wait"))
		return json_member_put(a, "duration_ms", json_integer(WAIT_MS));
	if (a && str_eq(type, "type"))
		return json_member_copy(a, "text", from, "text");
	return a ? 0 : -ENOMEM;
}

/* What screen.act would refuse by the names of its own members. */
static int action_check(const json_t *from, struct cay_err *err)
{
	static const struct {
		const char *type, *member;
	} needs[] = { { "click", "x" },        { "click", "y" },   { "double_click", "x" },
		      { "double_click", "y" }, { "move", "x" },    { "move", "y" },
		      { "drag", "path" },      { "type", "text" }, { "keypress", "keys" } };
	const char *type = json_member_str(from, "type");

	for (size_t i = 0; i < ARRAY_SIZE(needs); i++)
		if (str_eq(type, needs[i].type) && !json_object_get(from, needs[i].member))
			return cay_fail_field(err, CAY_E_INVALID, needs[i].member,
					      "is required for %s", type);
	if (json_array_size(json_object_get(from, "path")) > 2 &&
	    json_array_size(json_object_get(from, "keys")))
		return cay_fail_field(err, CAY_E_INVALID, "keys",
				      "can be held only in a drag between two places");
	return 0;
}

int openai_next_call(struct tool_run *run, struct cay_err *err)
{
	const json_t *from, *list = json_object_get(run->args, "actions");
	auto_json actions = NULL;
	size_t i;

	if (run->step)
		return TOOL_FINISHED;
	actions = json_array();
	json_array_foreach(list, i, from)
	{
		int r = action_check(from, err);

		if (r < 0)
			return r;
		if (actions_add_one(actions, from) < 0)
			return cay_no_memory(err);
	}
	if (json_array_size(actions) > ACTIONS_MAX)
		return cay_fail_field(err, CAY_E_INVALID, "actions",
				      "are too many together: send them in several calls");
	return screen_tool_act(run, json_incref(actions), true, err);
}

int openai_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	return screen_tool_add_picture(run, out, err);
}
