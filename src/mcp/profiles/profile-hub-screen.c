/* SPDX-License-Identifier: Apache-2.0 */
/* profile-hub-screen - SandboxHub's tools for its desktop: screen, mouse, keys, windows, clipboard
 */
#include <inttypes.h>
#include <stdio.h>

#include "mcp/profiles/profile-screen.h"

/* What a tool does to the screen, by members of screen.act under its own names. */
static const struct hub_screen_tool {
	const char *name, *action;
	struct {
		const char *arg, *member;
	} same[4];
	const char *says;
} hub_screen_tools[] = {
	{ "take_screenshot", NULL, {}, "A screenshot." },
	{ "get_cursor_position", NULL, {}, NULL },
	{ "wait_and_screenshot", "wait", {}, "Waited; a screenshot." },
	{ "click_at", "click", { { "x", "x" }, { "y", "y" } }, "Clicked; a screenshot." },
	{ "move_mouse", "move", { { "x", "x" }, { "y", "y" } }, "Moved the mouse; a screenshot." },
	{ "drag_mouse",
	  "drag",
	  { { "start_x", "x" }, { "start_y", "y" }, { "end_x", "to_x" }, { "end_y", "to_y" } },
	  "Dragged; a screenshot." },
	{ "scroll",
	  "scroll",
	  { { "direction", "direction" }, { "amount", "amount" }, { "x", "x" }, { "y", "y" } },
	  "Scrolled; a screenshot." },
	{ "type_text", "type", { { "text", "text" } }, "Typed the text; a screenshot." },
	{ "press_key", "key", { { "key", "keys" } }, "Pressed the keys; a screenshot." },
	{ "focus_window", "focus", {}, "The window is active; a screenshot." },
	{ "close_window", "close", {}, "Asked the window to close; a screenshot." },
	{ "set_clipboard", "copy", { { "content", "text" } }, NULL },
};

static const struct hub_screen_tool *hub_screen_tool_of(const struct tool_run *run)
{
	size_t i = 0;

	while (!str_eq(hub_screen_tools[i].name, run->tool->name))
		i++;
	return &hub_screen_tools[i];
}

static int hub_put_button(const char *name, json_t *action, struct cay_err *err)
{
	static const struct {
		const char *name, *button;
		unsigned clicks;
	} buttons[] = {
		{ "left_click", "left", 1 },     { "right_click", "right", 1 },
		{ "middle_click", "middle", 1 }, { "double_click", "left", 2 },
		{ "triple_click", "left", 3 },
	};
	size_t i = 0;

	while (i < ARRAY_SIZE(buttons) && !str_eq(buttons[i].name, name))
		i++;
	if (i == ARRAY_SIZE(buttons))
		return cay_fail_field(err, CAY_E_INVALID, "button",
				      "must be left_click, right_click, middle_click, "
				      "double_click or triple_click");
	return json_member_put(action, "button", json_string(buttons[i].button)) < 0 ||
			       json_member_put(action, "clicks", json_integer(buttons[i].clicks)) <
				       0
		       ? cay_no_memory(err)
		       : 0;
}

/* Ids of windows are text there. */
static int hub_put_window(const char *id, json_t *action, struct cay_err *err)
{
	uint64_t window;

	if (str_parse_u64(slice_of(id), 1, UINT32_MAX, &window) < 0)
		return cay_fail_field(err, CAY_E_INVALID, "window_id",
				      "must be an id from list_windows");
	return json_member_put(action, "window", json_integer((json_int_t)window)) < 0
		       ? cay_no_memory(err)
		       : 0;
}

static int hub_fill_action(const struct tool_run *run, const struct hub_screen_tool *tool,
			   json_t *a, struct cay_err *err)
{
	const char *button = tool_run_arg_text(run, "button");
	const char *window = tool_run_arg_text(run, "window_id");
	const json_t *seconds = json_object_get(run->args, "seconds");
	int r = json_member_put(a, "type", json_string(tool->action));

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(tool->same) && tool->same[i].arg; i++)
		r = json_member_copy(a, tool->same[i].member, run->args, tool->same[i].arg);
	if (r >= 0 && seconds)
		r = json_member_put(a, "duration_ms",
				    json_integer((json_int_t)(json_number_value(seconds) * 1000)));
	if (r < 0)
		return cay_no_memory(err);
	if (button)
		return hub_put_button(button, a, err);
	return window ? hub_put_window(window, a, err) : 0;
}

int hub_screen_next_call(struct tool_run *run, struct cay_err *err)
{
	const struct hub_screen_tool *tool = hub_screen_tool_of(run);
	auto_json actions = NULL;
	json_t *action;
	int r = 0;

	if (run->step)
		return TOOL_FINISHED;
	actions = json_array();
	if (tool->action) {
		action = json_object();
		if (json_array_append_new(actions, action) < 0)
			return cay_no_memory(err);
		r = hub_fill_action(run, tool, action, err);
	}
	return r < 0 ? r : screen_tool_act(run, json_incref(actions), tool->says, err);
}

int hub_screen_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	const struct hub_screen_tool *tool = hub_screen_tool_of(run);

	if (!tool->says)
		return tool_result_printf(out, "The clipboard has this text now.");
	tool_result_add_text(out, slice_of(tool->says));
	return screen_tool_add_picture(run, out, err);
}

int hub_zoom_next_call(struct tool_run *run, struct cay_err *err)
{
	const json_int_t at[] = { json_integer_value(json_object_get(run->args, "x0")),
				  json_integer_value(json_object_get(run->args, "y0")),
				  json_integer_value(json_object_get(run->args, "x1")),
				  json_integer_value(json_object_get(run->args, "y1")) };

	return run->step ? TOOL_FINISHED : screen_tool_zoom(run, at, "x1", err);
}

int hub_zoom_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	tool_result_add_text(out, SLICE("The region in more detail."));
	return screen_tool_add_picture(run, out, err);
}

int hub_cursor_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *j = run->answer.json;

	return tool_result_pack(out, "{s:I, s:I}", "x",
				(json_int_t)json_member_number(j, "cursor_x"), "y",
				(json_int_t)json_member_number(j, "cursor_y"));
}

/* The size of pictures, then that of the screen. */
int hub_screen_info_next_call(struct tool_run *run, struct cay_err *err)
{
	int r = run->step ? tool_run_add_row(run, json_incref(run->answer.json), err) : 0;

	if (r < 0 || run->step == 2)
		return r < 0 ? r : TOOL_FINISHED;
	return run->step ? tool_run_call(run, OP_SCREEN_INFO, err, "{}")
			 : screen_tool_act(run, json_array(), false, err);
}

int hub_screen_info_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *rows = json_object_get(run->args, TOOL_ROWS);
	const json_t *picture = json_array_get(rows, 0), *screen = json_array_get(rows, 1);

	return tool_result_pack(
		out, "{s:I, s:I, s:n, s:I, s:I}", "display_width_px",
		(json_int_t)json_member_number(picture, "width"), "display_height_px",
		(json_int_t)json_member_number(picture, "height"), "display_number",
		"actual_width_px", (json_int_t)json_member_number(screen, "width"),
		"actual_height_px", (json_int_t)json_member_number(screen, "height"));
}

static json_t *hub_window(const json_t *window, const char *title_name)
{
	char id[24];
	int n = snprintf(id, sizeof(id), "%" PRIu64, json_member_number(window, "id"));

	return n < 0 ? NULL
		     : json_pack("{s:s, s:s}", "window_id", window ? id : "", title_name,
				 json_member_str(window, "title"));
}

/* A list of dictionaries; FastMCP has it as data in {"result"}. */
int hub_windows_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	const json_t *window;
	json_t *rows = json_array();
	size_t i;

	json_array_foreach(json_object_get(run->answer.json, "windows"), i, window)
	{
		if (json_array_append_new(rows, hub_window(window, "title")) < 0) {
			json_decref(rows);
			return cay_no_memory(err);
		}
	}
	tool_result_set_json(out, rows);
	out->owned = json_pack("{s:o}", "result", rows);
	out->data = out->owned;
	return 0;
}

int hub_active_window_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *window, *active = NULL;
	size_t i;

	json_array_foreach(json_object_get(run->answer.json, "windows"), i, window)
	{
		if (json_member_true(window, "active"))
			active = window;
	}
	tool_result_set_json(out, hub_window(active, "window_title"));
	return 0;
}

int hub_clipboard_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	tool_result_add_cut(out, json_member_text(run->answer.json, "text"), RESULT_TEXT, NULL);
	return 0;
}
