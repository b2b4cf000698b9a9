/* SPDX-License-Identifier: Apache-2.0 */
/*
 * computer - the tool that Anthropic defines for screens: computer_20250124, and zoom of 20251124
 *
 * Coordinates are those of the pictures that the tool returns: the whole screen, reduced to a size
 * whose details the models see.
 */
#include <inttypes.h>

#include "mcp/profiles/profile-code.h"
#include "mcp/profiles/profile-parts.h"

#define MAX_WIDTH 1280 /* with this height within the 1568 tokens of a picture */
#define MAX_HEIGHT 800

const char *const computer_actions[] = { "key",
					 "type",
					 "mouse_move",
					 "left_click",
					 "left_click_drag",
					 "right_click",
					 "middle_click",
					 "double_click",
					 "triple_click",
					 "screenshot",
					 "cursor_position",
					 "left_mouse_down",
					 "left_mouse_up",
					 "scroll",
					 "hold_key",
					 "wait",
					 "zoom",
					 NULL };
const char *const computer_directions[] = { "up", "down", "left", "right", NULL };

enum { NEEDS_PLACE = 1, NEEDS_TEXT = 2, NEEDS_DURATION = 4, HAS_KEYS = 8 };

/* What each becomes. */
static const struct {
	const char *name, *type, *button;
	unsigned clicks, rules;
} computer_rows[] = {
	{ "key", "key", NULL, 0, NEEDS_TEXT },
	{ "type", "type", NULL, 0, NEEDS_TEXT },
	{ "mouse_move", "move", NULL, 0, NEEDS_PLACE },
	{ "left_click", "click", "left", 1, HAS_KEYS },
	{ "right_click", "click", "right", 1, HAS_KEYS },
	{ "middle_click", "click", "middle", 1, HAS_KEYS },
	{ "double_click", "click", "left", 2, HAS_KEYS },
	{ "triple_click", "click", "left", 3, HAS_KEYS },
	{ "left_click_drag", "drag", "left", 0, NEEDS_PLACE | HAS_KEYS },
	{ "left_mouse_down", "down", "left", 0, 0 },
	{ "left_mouse_up", "up", "left", 0, 0 },
	{ "scroll", "scroll", NULL, 0, HAS_KEYS },
	{ "hold_key", "hold", NULL, 0, NEEDS_TEXT | NEEDS_DURATION },
	{ "wait", "wait", NULL, 0, NEEDS_DURATION },
};

static int computer_refuse_missing(struct cay_err *err, const char *arg, const char *action)
{
	return cay_fail_field(err, CAY_E_INVALID, arg, "is required for %s", action);
}

/* Set two members of an action from an array of two numbers, if it is there. */
static int action_set_place(const struct tool_run *run, const char *arg, const char *x,
			    const char *y, json_t *action)
{
	const json_t *place = json_object_get(run->args, arg);

	if (!place)
		return 0;
	return json_object_set(action, x, json_array_get(place, 0)) < 0 ||
			       json_object_set(action, y, json_array_get(place, 1)) < 0
		       ? -ENOMEM
		       : 0;
}

/* A drag has its start in another argument, and its end in the one that others have. */
static int action_set_places(const struct tool_run *run, bool drag, json_t *action)
{
	int r = action_set_place(run, drag ? "start_coordinate" : "coordinate", "x", "y", action);

	if (r >= 0 && drag)
		r = action_set_place(run, "coordinate", "to_x", "to_y", action);
	return r;
}

static int action_set_text(json_t *action, const char *name, const char *text)
{
	return text && json_object_set_new(action, name, json_string(text)) < 0 ? -ENOMEM : 0;
}

static int action_set_number(json_t *action, const char *name, uint64_t n)
{
	return n && json_object_set_new(action, name, json_integer((json_int_t)n)) < 0 ? -ENOMEM
										       : 0;
}

/* The action that the arguments ask for, as screen.act has it; *ret is the caller's. */
static int computer_make_action(const struct tool_run *run, const char *name, json_t **ret,
				struct cay_err *err)
{
	const char *text = tool_run_arg_text(run, "text"), *keys = tool_run_arg_text(run, "key");
	double duration = json_number_value(json_object_get(run->args, "duration"));
	json_t *a = json_object();
	size_t i = 0;
	int r;

	*ret = a;
	while (!str_eq(computer_rows[i].name, name))
		i++;
	if (computer_rows[i].rules & NEEDS_TEXT && !text)
		return computer_refuse_missing(err, "text", name);
	if (computer_rows[i].rules & NEEDS_PLACE && !json_object_get(run->args, "coordinate"))
		return computer_refuse_missing(err, "coordinate", name);
	if (computer_rows[i].rules & NEEDS_DURATION && !json_object_get(run->args, "duration"))
		return computer_refuse_missing(err, "duration", name);
	r = a ? 0 : -ENOMEM;
	if (r >= 0)
		r = action_set_text(a, "type", computer_rows[i].type);
	if (r >= 0)
		r = action_set_text(a, "button", computer_rows[i].button);
	if (r >= 0)
		r = action_set_number(a, "clicks", computer_rows[i].clicks);
	if (r >= 0 && !(computer_rows[i].rules & (NEEDS_TEXT | NEEDS_DURATION)))
		r = action_set_places(run, str_eq(name, "left_click_drag"), a);
	if (r >= 0 && computer_rows[i].rules & HAS_KEYS)
		r = action_set_text(a, "keys", keys ? keys : text);
	if (r >= 0 && computer_rows[i].rules & NEEDS_TEXT)
		r = action_set_text(a, str_eq(name, "type") ? "text" : "keys", text);
	if (r >= 0 && computer_rows[i].rules & NEEDS_DURATION)
		r = json_object_set_new(a, "duration_ms",
					json_integer((json_int_t)(duration * 1000))) < 0
			    ? -ENOMEM
			    : 0;
	if (r >= 0 && str_eq(name, "scroll")) {
		r = action_set_text(a, "direction", tool_run_arg_text(run, "scroll_direction"));
		if (r >= 0)
			r = action_set_number(a, "amount",
					      tool_run_arg_number(run, "scroll_amount"));
	}
	return r < 0 ? cay_no_memory(err) : 0;
}

static int computer_zoom(struct tool_run *run, struct cay_err *err)
{
	const json_t *region = json_object_get(run->args, "region");
	json_int_t at[4];

	for (size_t i = 0; i < 4; i++)
		at[i] = json_integer_value(json_array_get(region, i));
	if (!region)
		return computer_refuse_missing(err, "region", "zoom");
	if (at[0] < 0 || at[1] < 0 || at[2] <= at[0] || at[3] <= at[1])
		return cay_fail_field(err, CAY_E_INVALID, "region",
				      "must be [x0, y0, x1, y1] with x0 < x1 and y0 < y1");
	return tool_run_call(run, OP_SCREEN_SHOT, err, "{s:I, s:I, s:I, s:I, s:i, s:i}", "x", at[0],
			     "y", at[1], "width", at[2] - at[0], "height", at[3] - at[1],
			     "max_width", MAX_WIDTH, "max_height", MAX_HEIGHT);
}

int computer_next_call(struct tool_run *run, struct cay_err *err)
{
	const char *name = tool_run_arg_text(run, "action");
	bool shot = str_eq(name, "screenshot"), cursor = str_eq(name, "cursor_position");
	json_t *actions, *action = NULL;
	int r = 0;

	if (run->step)
		return TOOL_FINISHED;
	if (str_eq(name, "zoom"))
		return computer_zoom(run, err);
	actions = json_array();
	if (!shot && !cursor)
		r = computer_make_action(run, name, &action, err);
	if (r >= 0 && action && json_array_append(actions, action) < 0)
		r = cay_no_memory(err);
	json_decref(action);
	if (r < 0) {
		json_decref(actions);
		return r;
	}
	return tool_run_call(run, OP_SCREEN_ACT, err, "{s:o, s:s, s:i, s:i, s:i}", "actions",
			     actions, "screenshot", cursor ? "none" : "after", "max_width",
			     MAX_WIDTH, "max_height", MAX_HEIGHT, "settle_ms", shot ? 0 : 150);
}

int computer_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	const json_t *j = run->answer.json;
	struct slice png = json_member_text(j, "png");
	auto_buf bytes = BUF_INIT(png.n + 1);

	if (run->call.op == OP_SCREEN_SHOT)
		return tool_result_add_image(out, run->answer.body)
			       ? 0
			       : cay_fail(err, CAY_E_MISBEHAVED, "the sandbox returned no picture");
	if (str_eq(tool_run_arg_text(run, "action"), "cursor_position"))
		return tool_result_printf(out, "X=%" PRIu64 ",Y=%" PRIu64,
					  json_member_number(j, "cursor_x"),
					  json_member_number(j, "cursor_y"));
	if (picture_decode("image/png", png, &bytes) < 0 ||
	    !tool_result_add_image(out, (struct slice){ bytes.data, bytes.len }))
		return cay_fail(err, CAY_E_MISBEHAVED, "the sandbox returned no picture");
	return 0;
}
