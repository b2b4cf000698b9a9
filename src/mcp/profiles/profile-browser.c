/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile-browser - tools for the browser of a sandbox, by the names of three products
 *
 * Each is one action of browser.act, or one reading.  What a page says is text of a stranger: it is
 * returned as browser.snapshot quotes it, or as the product's tool returns it.
 */
#include <inttypes.h>

#include "mcp/profiles/profile-parts.h"

#define TEXT_MAX 50000   /* characters of a page */
#define FETCH_MAX 100000 /* of one that WebFetch or find reads */
#define FOUND_MAX 20     /* lines */

const char *const page_filters[] = { "visible", "all", "interactive", NULL };
const char *const page_targets[] = { "coordinate", "ref", NULL };
const char *const page_directions[] = { "up", "down", "left", "right", NULL };

/* What a tool does: an action with members of its own, and with arguments under other names. */
static const struct page_tool {
	const char *name;   /* of the tool */
	const char *action; /* NULL: none, the page is read */
	const char *button;
	unsigned clicks;
	const char *says; /* in the result of an action that was done */
} page_tools[] = {
	{ "navigate", "navigate", NULL, 0, NULL },
	{ "left_click", "click", "left", 1, "Clicked." },
	{ "right_click", "click", "right", 1, "Right-clicked." },
	{ "middle_click", "click", "middle", 1, "Middle-clicked." },
	{ "double_click", "click", "left", 2, "Double-clicked." },
	{ "triple_click", "click", "left", 3, "Triple-clicked." },
	{ "hover", "hover", NULL, 0, "Moved the mouse." },
	{ "left_click_drag", "drag", NULL, 0, "Dragged." },
	{ "scroll", "scroll", NULL, 0, "Scrolled." },
	{ "scroll_to", "hover", NULL, 0, "Scrolled to it." },
	{ "type", "type", NULL, 0, "Typed." },
	{ "key", "press", NULL, 0, "Pressed." },
	{ "form_input", "fill", NULL, 0, "Filled in." },
	{ "wait", "wait", NULL, 0, "Waited." },
	{ "new_tab", "tab_new", NULL, 0, NULL },
	{ "close_tab", "tab_close", NULL, 0, "Closed." },
	{ "mouse_move", "hover", NULL, 0, "Moved the mouse." },
	{ "hold_key", "press", NULL, 0, "Held." },
	{ "file_upload", "upload", NULL, 0, "Uploaded." },
	{ "javascript_exec", "evaluate", NULL, 0, NULL },
	/* deep-agent */
	{ "browser_navigate", "navigate", NULL, 0, NULL },
	{ "browser_click", "click", "left", 1, "Clicked." },
	{ "browser_type", "fill", NULL, 0, "Typed." },
	{ "browser_evaluate", "evaluate", NULL, 0, NULL },
	{ "browser_wait_visible", "wait", NULL, 0, "It is visible." },
	/* SandboxHub */
	{ "open_browser", "navigate", NULL, 0, NULL },
	{ "cdp_navigate", "navigate", NULL, 0, NULL },
	{ "cdp_click_selector", "click", "left", 1, "Clicked." },
	{ "cdp_fill_input", "fill", NULL, 0, "Filled in." },
	{ "cdp_evaluate", "evaluate", NULL, 0, NULL },
	{ "cdp_scroll", "scroll", NULL, 0, "Scrolled." },
	{ "cdp_hover", "hover", NULL, 0, "Moved the mouse." },
	{ "cdp_wait_for_selector", "wait", NULL, 0, "It is there." },
};

static const struct page_tool *page_tool_of(const struct tool_run *run)
{
	size_t i = 0;

	while (!str_eq(page_tools[i].name, run->tool->name))
		i++;
	return &page_tools[i];
}

/* The place of a target, as {type: "ref", ref} or {type: "coordinate", x, y}. */
static int action_put_target(const json_t *target, const char *ref, const char *x, const char *y,
			     json_t *action)
{
	bool by_ref = str_eq(json_member_str(target, "type"), "ref");
	int r = 0;

	if (by_ref)
		return json_member_copy(action, ref, target, "ref");
	r = json_member_copy(action, x, target, "x");
	return r < 0 ? r : json_member_copy(action, y, target, "y");
}

static int action_put_places(const struct tool_run *run, json_t *action)
{
	const json_t *target = json_object_get(run->args, "target"),
		     *from = json_object_get(run->args, "from");
	int r = 0;

	if (from)
		r = action_put_target(from, "ref", "x", "y", action);
	if (r >= 0 && from)
		return action_put_target(target, "to_ref", "to_x", "to_y", action);
	return r < 0 || !target ? r : action_put_target(target, "ref", "x", "y", action);
}

/* Arguments whose values are members of an action. */
static int action_put_args(const struct tool_run *run, json_t *action)
{
	static const struct {
		const char *arg, *member;
	} same[] = {
		{ "url", "url" },
		{ "selector", "selector" },
		{ "modifiers", "keys" },
		{ "key", "keys" },
		{ "repeat", "repeat" },
		{ "text", "text" },
		{ "paths", "paths" },
		{ "value", "text" },
		{ "expression", "script" },
		{ "script", "script" },
		{ "scroll_direction", "direction" },
		{ "scroll_amount", "amount" },
		{ "direction", "direction" },
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(same) && r >= 0; i++)
		r = json_member_copy(action, same[i].member, run->args, same[i].arg);
	return r;
}

/* Where a product has another unit or spelling. */
static int action_adapt(const struct tool_run *run, const struct page_tool *tool, json_t *action)
{
	const char *url = json_member_str(action, "url");
	uint64_t amount = tool_run_arg_number(run, "amount");
	double duration = json_number_value(json_object_get(run->args, "duration"));
	int r = 0;

	if (str_eq(tool->name, "navigate") &&
	    (str_eq(url, "back") || str_eq(url, "forward") || str_eq(url, "reload"))) {
		r = json_member_put(action, "type", json_string(url));
		(void)json_object_del(action, "url");
	}
	if (r >= 0 && str_eq(tool->action, "press"))
		r = json_member_put(action, "keys", json_string(tool_run_arg_text(run, "text")));
	if (str_eq(tool->action, "press") || str_eq(tool->name, "javascript_exec"))
		(void)json_object_del(action, "text");
	if (r >= 0 && str_eq(tool->name, "hold_key"))
		r = json_member_put(action, "duration_ms",
				    json_integer((json_int_t)(duration * 1000)));
	if (r >= 0 && str_eq(tool->name, "javascript_exec"))
		r = json_member_put(action, "script", json_string(tool_run_arg_text(run, "text")));
	if (r >= 0 && str_eq(tool->name, "cdp_scroll"))
		r = json_member_put(action, "amount",
				    json_integer((json_int_t)(amount < 100 ? 1 : amount / 100)));
	if (r >= 0 && str_eq(tool->action, "wait"))
		r = json_member_put(action, "duration_ms",
				    json_integer(duration > 0 ? (json_int_t)(duration * 1000)
							      : (json_int_t)tool_run_arg_number(
									run, "timeout_ms")));
	return r;
}

static int page_make_action(const struct tool_run *run, const struct page_tool *tool, json_t *a)
{
	int r = json_member_put(a, "type", json_string(tool->action));

	if (r >= 0 && tool->button)
		r = json_member_put(a, "button", json_string(tool->button));
	if (r >= 0 && tool->clicks)
		r = json_member_put(a, "clicks", json_integer(tool->clicks));
	if (r >= 0)
		r = action_put_args(run, a);
	if (r >= 0)
		r = action_put_places(run, a);
	return r < 0 ? r : action_adapt(run, tool, a);
}

/* Add the tab that the tool was given, if any, to a call that has begun. */
static int page_set_tab(struct tool_run *run, int r, struct cay_err *err)
{
	const char *tab = tool_run_arg_text(run, "tab_id");

	return r < 0 || !tab ? r : tool_run_set(run, err, "{s:s}", "tab", tab);
}

int page_act_next_call(struct tool_run *run, struct cay_err *err)
{
	const char *state = tool_run_arg_text(run, "state");
	json_t *action;
	int r;

	if (run->step)
		return TOOL_FINISHED;
	if (state && !str_eq(state, "visible"))
		return cay_fail_field(err, CAY_E_INVALID, "state", "can only be visible");
	action = json_object();
	r = action ? page_make_action(run, page_tool_of(run), action) : -ENOMEM;
	if (r < 0) {
		json_decref(action);
		return cay_no_memory(err);
	}
	r = tool_run_call(run, OP_BROWSER_ACT, err, "{s:[o]}", "actions", action);
	return page_set_tab(run, r, err);
}

/* An action that failed is an error of the tool. */
static int page_check_done(const struct tool_run *run, struct cay_err *err)
{
	const char *error = json_member_str(run->answer.json, "error");

	return error[0] ? cay_fail(err, CAY_E_INVALID, "%s", error) : 0;
}

static void page_add_changes(const json_t *done, struct tool_result *out)
{
	const json_t *change;
	size_t i;

	json_array_foreach(json_object_get(done, "changes"), i, change)
	{
		const char *text = json_string_value(change);

		if (text)
			tool_result_note_failure(out, tool_result_printf(out, "[%s]", text));
	}
}

int page_act_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	const struct page_tool *tool = page_tool_of(run);
	const json_t *done = run->answer.json, *page = json_object_get(done, "page");
	const json_t *result = json_array_get(json_object_get(done, "results"), 0);
	uint64_t status = json_member_number(result, "status");
	int r = page_check_done(run, err);

	if (r < 0)
		return r;
	if (str_eq(tool->action, "evaluate")) {
		struct slice value = json_member_text(result, "value");

		tool_result_add_cut(out, value.n ? value : SLICE("undefined"), TEXT_MAX, NULL);
	} else if (tool->says) {
		tool_result_add_text(out, slice_of(tool->says));
	} else if (status) {
		r = tool_result_printf(out, "Navigated to %s — %s (HTTP %" PRIu64 ")",
				       json_member_str(page, "url"), json_member_str(page, "title"),
				       status);
	} else {
		r = tool_result_printf(out, "Navigated to %s — %s", json_member_str(page, "url"),
				       json_member_str(page, "title"));
	}
	page_add_changes(done, out);
	return r;
}

/* Readings. */
int page_read_next_call(struct tool_run *run, struct cay_err *err)
{
	const char *ref = tool_run_arg_text(run, "ref");
	const char *filter = tool_run_arg_text(run, "filter");
	int r;

	if (run->step)
		return TOOL_FINISHED;
	if (!filter)
		filter = str_eq(run->tool->name, "get_page_text") ? "text" : "none";
	r = tool_run_call(run, OP_BROWSER_SNAPSHOT, err, "{s:s, s:i}", "filter", filter,
			  "max_chars", TEXT_MAX / 2);
	r = page_set_tab(run, r, err);
	return r < 0 || !ref ? r : tool_run_set(run, err, "{s:s}", "ref", ref);
}

int page_read_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *page = run->answer.json;
	uint64_t left = json_member_number(page, "left");

	tool_result_add_text(out, json_member_text(page, "text"));
	if (left)
		return tool_result_printf(out, "[%" PRIu64 " more; read a part of it by its ref]",
					  left);
	return 0;
}

int page_url_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	tool_result_add_text(out, json_member_text(run->answer.json, "url"));
	return 0;
}

int page_title_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	tool_result_add_text(out, json_member_text(run->answer.json, "title"));
	return 0;
}

int page_info_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *page = run->answer.json;

	return tool_result_pack(out, "{s:s, s:s, s:I, s:I}", "url", json_member_str(page, "url"),
				"title", json_member_str(page, "title"), "width",
				(json_int_t)json_member_number(page, "width"), "height",
				(json_int_t)json_member_number(page, "height"));
}

/* The HTML or the text of an element, which the page itself gives: the products do so too. */
static int page_evaluate(struct tool_run *run, const char *of, const char *what,
			 struct cay_err *err)
{
	auto_buf script = BUF_INIT(KIB(32));
	json_t *selector = json_string(of ? of : "html");
	char *quoted = selector ? json_dumps(selector, JSON_ENCODE_ANY) : NULL;
	int r = quoted ? buf_printf(&script,
				    "(e => { if (!e) throw new Error('no element matches the "
				    "selector'); return e.%s.slice(0, %d); })"
				    "(document.querySelector(%s))",
				    what, TEXT_MAX, quoted)
		       : -ENOMEM;

	json_decref(selector);
	free(quoted);
	return r < 0 ? cay_no_memory(err)
		     : tool_run_call(run, OP_BROWSER_ACT, err, "{s:[{s:s, s:s}]}", "actions",
				     "type", "evaluate", "script", script.data);
}

int page_html_next_call(struct tool_run *run, struct cay_err *err)
{
	return run->step ? TOOL_FINISHED
			 : page_evaluate(run, tool_run_arg_text(run, "selector"), "outerHTML", err);
}

int page_text_next_call(struct tool_run *run, struct cay_err *err)
{
	const char *selector = tool_run_arg_text(run, "selector");

	return run->step ? TOOL_FINISHED
			 : page_evaluate(run, selector ? selector : "body", "innerText", err);
}

int page_scroll_by_next_call(struct tool_run *run, struct cay_err *err)
{
	auto_buf script = BUF_INIT(KIB(1));

	if (run->step)
		return TOOL_FINISHED;
	if (buf_printf(&script, "scrollBy(%lld, %lld)",
		       (long long)json_number_value(json_object_get(run->args, "x")),
		       (long long)json_number_value(json_object_get(run->args, "y"))) < 0)
		return cay_no_memory(err);
	return tool_run_call(run, OP_BROWSER_ACT, err, "{s:[{s:s, s:s}]}", "actions", "type",
			     "evaluate", "script", script.data);
}

int page_scroll_by_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	int r = page_check_done(run, err);

	return r < 0 ? r : tool_result_printf(out, "Scrolled.");
}

/* The value of that script is a text. */
int page_value_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	const json_t *result = json_array_get(json_object_get(run->answer.json, "results"), 0);
	struct slice value = json_member_text(result, "value");
	json_t *text;
	int r = page_check_done(run, err);

	if (r < 0)
		return r;
	text = json_loadb(value.p ? value.p : "", value.n, JSON_DECODE_ANY, NULL);
	if (json_is_string(text))
		tool_result_add_cut(
			out, (struct slice){ json_string_value(text), json_string_length(text) },
			TEXT_MAX, NULL);
	json_decref(text);
	return 0;
}

int page_shot_next_call(struct tool_run *run, struct cay_err *err)
{
	bool pdf = str_eq(run->tool->name, "browser_pdf");
	int r;

	if (run->step)
		return TOOL_FINISHED;
	r = tool_run_call(run, OP_BROWSER_SHOT, err, "{s:b, s:s}", "full",
			  tool_run_arg_bool(run, "full_page"), "format", pdf ? "pdf" : "png");
	return page_set_tab(run, r, err);
}

int page_zoom_next_call(struct tool_run *run, struct cay_err *err)
{
	const json_t *region = json_object_get(run->args, "region");
	json_int_t at[4];
	int r;

	if (run->step)
		return TOOL_FINISHED;
	for (size_t i = 0; i < 4; i++)
		at[i] = json_integer_value(json_array_get(region, i));
	if (at[0] < 0 || at[1] < 0 || at[2] <= at[0] || at[3] <= at[1])
		return cay_fail_field(err, CAY_E_INVALID, "region",
				      "must be x0, y0, x1, y1 with x0 < x1 and y0 < y1");
	r = tool_run_call(run, OP_BROWSER_SHOT, err, "{s:I, s:I, s:I, s:I}", "x", at[0], "y", at[1],
			  "width", at[2] - at[0], "height", at[3] - at[1]);
	return page_set_tab(run, r, err);
}

/* A tab is shown by an action in it; none is enough. */
int page_switch_next_call(struct tool_run *run, struct cay_err *err)
{
	return run->step ? TOOL_FINISHED
			 : tool_run_call(run, OP_BROWSER_ACT, err, "{s:[], s:s}", "actions", "tab",
					 tool_run_arg_text(run, "tab_id"));
}

int page_switch_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *page = json_object_get(run->answer.json, "page");

	return tool_result_printf(out, "Switched to %s — %s", json_member_str(page, "url"),
				  json_member_str(page, "title"));
}

static bool slice_holds_nocase(struct slice s, struct slice word)
{
	for (size_t at = 0; word.n && at + word.n <= s.n; at++) {
		size_t i = 0;

		while (i < word.n && ascii_to_lower(s.p[at + i]) == ascii_to_lower(word.p[i]))
			i++;
		if (i == word.n)
			return true;
	}
	return false;
}

/* How many of the words, which have spaces between them, are in the line. */
static unsigned words_count_in(struct slice words, struct slice line)
{
	unsigned n = 0;

	while (words.n)
		n += slice_holds_nocase(line, slice_cut(&words, ' '));
	return n;
}

int page_find_next_call(struct tool_run *run, struct cay_err *err)
{
	int r;

	if (run->step)
		return TOOL_FINISHED;
	r = tool_run_call(run, OP_BROWSER_SNAPSHOT, err, "{s:s, s:i}", "filter", "all", "max_chars",
			  FETCH_MAX);
	return page_set_tab(run, r, err);
}

/* The lines with most of the words. */
int page_find_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	struct slice page = json_member_text(run->answer.json, "text"),
		     words = slice_of(tool_run_arg_text(run, "query"));
	auto_lines lines = RESULT_LINES_INIT;
	unsigned most = 1, found = 0;

	for (struct slice rest = page; rest.n;) {
		unsigned n = words_count_in(words, slice_cut(&rest, '\n'));

		most = n > most ? n : most;
	}
	for (struct slice rest = page; rest.n;) {
		struct slice line = slice_cut(&rest, '\n');

		if (words_count_in(words, line) == most && found++ < FOUND_MAX)
			result_lines_printf(&lines, "%.*s", (int)line.n, line.p);
	}
	if (found > FOUND_MAX)
		result_lines_printf(&lines, "[%u more]", found - FOUND_MAX);
	return result_lines_end(&lines, "nothing on the page has any of these words",
				json_member_number(run->answer.json, "left"), out);
}

int page_tabs_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *tab, *tabs = json_object_get(run->answer.json, "tabs");
	auto_lines lines = RESULT_LINES_INIT;
	size_t i;

	json_array_foreach(tabs, i, tab)
	{
		result_lines_printf(&lines, "%s  %s  %s%s", json_member_str(tab, "id"),
				    json_member_str(tab, "title"), json_member_str(tab, "url"),
				    json_member_true(tab, "active") ? "  (active)" : "");
	}
	return result_lines_end(&lines, "no tab is open", false, out);
}

/* In a tab of its own, which is closed then: others may be at work in the one used last. */
int page_fetch_next_call(struct tool_run *run, struct cay_err *err)
{
	const char *tab = json_member_str(json_object_get(run->answer.json, "page"), "tab");

	if (run->step == 0)
		return tool_run_call(run, OP_BROWSER_ACT, err, "{s:[{s:s, s:s}], s:s, s:i}",
				     "actions", "type", "tab_new", "url",
				     tool_run_arg_text(run, "url"), "snapshot", "markdown",
				     "max_chars", FETCH_MAX);
	if (run->step > 1 || !tab[0])
		return TOOL_FINISHED;
	if (tool_run_add_row(run, json_incref(run->answer.json), err) < 0)
		return -ENOMEM;
	return tool_run_call(run, OP_BROWSER_ACT, err, "{s:[{s:s}], s:s}", "actions", "type",
			     "tab_close", "tab", tab);
}

int page_fetch_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	const json_t *rows = json_object_get(run->args, TOOL_ROWS),
		     *first = json_array_get(rows, 0);
	const json_t *page = json_object_get(first, "page");
	const char *error = json_member_str(first, "error");

	if (!first)
		return page_check_done(run, err);
	if (error[0])
		return cay_fail(err, CAY_E_INVALID, "%s", error);
	tool_result_note_failure(out,
				 tool_result_printf(out, "%s — %s", json_member_str(page, "url"),
						    json_member_str(page, "title")));
	tool_result_add_cut(out, json_member_text(page, "text"), FETCH_MAX, NULL);
	return 0;
}

int page_closed_write_result(struct tool_run *, struct tool_result *out, struct cay_err *)
{
	return tool_result_printf(out, "Closed.");
}
