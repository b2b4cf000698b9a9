/* SPDX-License-Identifier: Apache-2.0 */
/*
 * computer - the screen by the names that Anthropic defines: the tool computer_20250124 with zoom
 * of computer_20251124, and the members of computer_toolset_20260801, each a tool of its own
 */
#include <inttypes.h>

#include "mcp/profiles/profile-code.h"
#include "mcp/profiles/profile-screen.h"

#define MAX_WIDTH 1280 /* with this height within the 1568 tokens of a picture */
#define MAX_HEIGHT 800
#define SETTLE_MS 150

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
static const struct computer_row {
	const char *name, *type, *button;
	unsigned clicks, rules;
	const char *says; /* of a member of the toolset, done */
} computer_rows[] = {
	{ "key", "key", NULL, 0, NEEDS_TEXT, "Pressed" },
	{ "type", "type", NULL, 0, NEEDS_TEXT, "Typed." },
	{ "mouse_move", "move", NULL, 0, NEEDS_PLACE, "Moved the mouse." },
	{ "left_click", "click", "left", 1, HAS_KEYS, "Clicked." },
	{ "right_click", "click", "right", 1, HAS_KEYS, "Right-clicked." },
	{ "middle_click", "click", "middle", 1, HAS_KEYS, "Middle-clicked." },
	{ "double_click", "click", "left", 2, HAS_KEYS, "Double-clicked." },
	{ "triple_click", "click", "left", 3, HAS_KEYS, "Triple-clicked." },
	{ "left_click_drag", "drag", "left", 0, NEEDS_PLACE | HAS_KEYS, "Dragged." },
	{ "left_mouse_down", "down", "left", 0, 0, "The left button is down." },
	{ "left_mouse_up", "up", "left", 0, 0, "The left button is up." },
	{ "scroll", "scroll", NULL, 0, HAS_KEYS, "Scrolled" },
	{ "hold_key", "hold", NULL, 0, NEEDS_TEXT | NEEDS_DURATION, "Held" },
	{ "wait", "wait", NULL, 0, NEEDS_DURATION, "Waited" },
	/* they act on nothing */
	{ "screenshot", NULL, NULL, 0, 0, NULL },
	{ "cursor_position", NULL, NULL, 0, 0, NULL },
	{ "zoom", NULL, NULL, 0, 0, NULL },
};

/* The tool `computer` has it as an argument; a member of the toolset is called so. */
static const struct computer_row *computer_row_of(const struct tool_run *run)
{
	const char *name = tool_run_arg_text(run, "action");
	size_t i = 0;

	name = name ? name : run->tool->name;
	while (!str_eq(computer_rows[i].name, name))
		i++;
	return &computer_rows[i];
}

int screen_tool_act(struct tool_run *run, json_t *actions, bool with_picture, struct cay_err *err)
{
	bool acts = json_array_size(actions) > 0;

	return tool_run_call(run, OP_SCREEN_ACT, err, "{s:o, s:s, s:i, s:i, s:i}", "actions",
			     actions, "screenshot", with_picture ? "after" : "none", "max_width",
			     MAX_WIDTH, "max_height", MAX_HEIGHT, "settle_ms",
			     acts ? SETTLE_MS : 0);
}

int screen_tool_zoom(struct tool_run *run, const json_int_t at[static 4], const char *region,
		     struct cay_err *err)
{
	if (at[0] < 0 || at[1] < 0 || at[2] <= at[0] || at[3] <= at[1])
		return cay_fail_field(
			err, CAY_E_INVALID, region,
			"the corners must be x0, y0, x1, y1 with x0 < x1 and y0 < y1");
	return tool_run_call(run, OP_SCREEN_SHOT, err, "{s:I, s:I, s:I, s:I, s:i, s:i}", "x", at[0],
			     "y", at[1], "width", at[2] - at[0], "height", at[3] - at[1],
			     "max_width", MAX_WIDTH, "max_height", MAX_HEIGHT);
}

int screen_tool_add_picture(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	struct slice png = json_member_text(run->answer.json, "png"), picture = run->answer.body;
	auto_buf bytes = BUF_INIT(png.n + 1);

	if (run->call.op == OP_SCREEN_ACT) {
		if (picture_decode("image/png", png, &bytes) < 0)
			buf_clear(&bytes);
		picture = (struct slice){ bytes.data, bytes.len };
	}
	return tool_result_add_image(out, picture)
		       ? 0
		       : cay_fail(err, CAY_E_MISBEHAVED, "the sandbox returned no picture");
}

static int computer_refuse_missing(struct cay_err *err, const char *arg, const char *action)
{
	return cay_fail_field(err, CAY_E_INVALID, arg, "is required for %s", action);
}

/* Set two members of an action from an array of two numbers, if it is there. */
static int action_set_place(const struct tool_run *run, const char *arg, const char *x,
			    const char *y, json_t *action)
{
	const json_t *place = json_object_get(run->args, arg);
	int r;

	if (!place)
		return 0;
	r = json_member_put(action, x, json_incref(json_array_get(place, 0)));
	return r < 0 ? r : json_member_put(action, y, json_incref(json_array_get(place, 1)));
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
	return text ? json_member_put(action, name, json_string(text)) : 0;
}

static int action_set_number(json_t *action, const char *name, uint64_t n)
{
	return n ? json_member_put(action, name, json_integer((json_int_t)n)) : 0;
}

static int computer_check_args(const struct tool_run *run, const struct computer_row *row,
			       struct cay_err *err)
{
	static const struct {
		unsigned rule;
		const char *arg;
	} needs[] = { { NEEDS_TEXT, "text" },
		      { NEEDS_PLACE, "coordinate" },
		      { NEEDS_DURATION, "duration" } };

	for (size_t i = 0; i < ARRAY_SIZE(needs); i++)
		if (row->rules & needs[i].rule && !json_object_get(run->args, needs[i].arg))
			return computer_refuse_missing(err, needs[i].arg, row->name);
	return 0;
}

/* The members of the action that the arguments ask for, as screen.act has it. */
static int computer_fill_action(const struct tool_run *run, const struct computer_row *row,
				json_t *a)
{
	const char *text = tool_run_arg_text(run, "text"), *keys = tool_run_arg_text(run, "key");
	double duration = json_number_value(json_object_get(run->args, "duration"));
	int r = action_set_text(a, "type", row->type);

	if (r >= 0)
		r = action_set_text(a, "button", row->button);
	if (r >= 0)
		r = action_set_number(a, "clicks", row->clicks);
	if (r >= 0 && !(row->rules & (NEEDS_TEXT | NEEDS_DURATION)))
		r = action_set_places(run, str_eq(row->type, "drag"), a);
	if (r >= 0 && row->rules & HAS_KEYS)
		r = action_set_text(a, "keys", keys ? keys : text);
	if (r >= 0 && row->rules & NEEDS_TEXT)
		r = action_set_text(a, str_eq(row->type, "type") ? "text" : "keys", text);
	if (r >= 0 && row->rules & NEEDS_DURATION)
		r = json_member_put(a, "duration_ms", json_integer((json_int_t)(duration * 1000)));
	if (r >= 0 && str_eq(row->type, "key"))
		r = action_set_number(a, "repeat", tool_run_arg_number(run, "repeat"));
	if (r < 0 || !str_eq(row->type, "scroll"))
		return r;
	r = action_set_text(a, "direction", tool_run_arg_text(run, "scroll_direction"));
	return r < 0 ? r
		     : action_set_number(a, "amount", tool_run_arg_number(run, "scroll_amount"));
}

static int computer_zoom(struct tool_run *run, struct cay_err *err)
{
	const json_t *region = json_object_get(run->args, "region");
	json_int_t at[4];

	if (!region)
		return computer_refuse_missing(err, "region", "zoom");
	for (size_t i = 0; i < 4; i++)
		at[i] = json_integer_value(json_array_get(region, i));
	return screen_tool_zoom(run, at, "region", err);
}

int computer_next_call(struct tool_run *run, struct cay_err *err)
{
	const struct computer_row *row = computer_row_of(run);
	bool member = !json_object_get(run->args, "action");
	auto_json actions = NULL;
	json_t *action;
	int r;

	if (run->step)
		return TOOL_FINISHED;
	if (str_eq(row->name, "zoom"))
		return computer_zoom(run, err);
	r = computer_check_args(run, row, err);
	if (r < 0)
		return r;
	actions = json_array();
	if (row->type) {
		action = json_object();
		if (json_array_append_new(actions, action) < 0 ||
		    computer_fill_action(run, row, action) < 0)
			return cay_no_memory(err);
	}
	return screen_tool_act(run, json_incref(actions),
			       !str_eq(row->name, "cursor_position") && (!member || !row->type),
			       err);
}

static int computer_write_cursor(struct tool_run *run, struct tool_result *out)
{
	return tool_result_printf(out, "X=%" PRIu64 ",Y=%" PRIu64,
				  json_member_number(run->answer.json, "cursor_x"),
				  json_member_number(run->answer.json, "cursor_y"));
}

int computer_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	return str_eq(computer_row_of(run)->name, "cursor_position")
		       ? computer_write_cursor(run, out)
		       : screen_tool_add_picture(run, out, err);
}

int computer_member_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	const struct computer_row *row = computer_row_of(run);
	double duration = json_number_value(json_object_get(run->args, "duration"));
	const char *text = tool_run_arg_text(run, "text");

	if (!row->says)
		return computer_write_result(run, out, err);
	if (str_eq(row->type, "key"))
		return tool_result_printf(out, "%s %s.", row->says, text);
	if (str_eq(row->type, "hold"))
		return tool_result_printf(out, "%s %s for %gs.", row->says, text, duration);
	if (str_eq(row->type, "wait"))
		return tool_result_printf(out, "%s %gs.", row->says, duration);
	if (str_eq(row->type, "scroll"))
		return tool_result_printf(out, "%s %s.", row->says,
					  tool_run_arg_text(run, "scroll_direction"));
	return tool_result_printf(out, "%s", row->says);
}
