/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/command.h"
#include "cli/print/list.h"
#include "cli/print/print.h"
#include "cli/transfer/remote-path.h"

struct screenshot_args {
	struct screen_shot_query query;
	const char *output;
	bool no_cursor;
};

#define AT(m) offsetof(struct screenshot_args, m)

static const struct opt screenshot_rows[] = {
	{ "output", 'o', OPT_TEXT, AT(output), .operand = OPERAND_FILE, .arg = "FILE",
	  .help = "File to write; - or none is standard output" },
	{ "max-width", 0, OPT_U64, AT(query.max_width), .max = 65535, .arg = "N",
	  .help = "Reduce the picture to at most N pixels in width" },
	{ "max-height", 0, OPT_U64, AT(query.max_height), .max = 65535, .arg = "N",
	  .help = "Reduce the picture to at most N pixels in height" },
	{ "no-cursor", 0, OPT_FLAG, AT(no_cursor), .help = "Leave the cursor out" },
};

#undef AT

static int cmd_screenshot_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct screenshot_args *a = c->args;
	struct screen_shot_query query = a->query;
	struct api_call call = { .op = OP_SCREEN_SHOT, .query = &query, .accept = "*/*" };
	int r = api_find_sandbox(&c->api, w->operands[0], &call.ids[0], err);

	query.cursor = !a->no_cursor;
	return r < 0 ? r : raw_reply_save(c, &call, "the picture", a->output, err);
}

const struct cmd cmd_screenshot = {
	CMD_USAGE("screenshot", "[OPTION...] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	CMD_OPTIONS(screenshot_args, OPTS(screenshot_rows, 0)),
	.no_json = true,
	.help = "Get a picture of the screen of a sandbox, as PNG",
	.more = "The sandbox needs an X server, as the image 'desktop' has.",
	.run = cmd_screenshot_run,
};

/* A request of one action. */
struct screen_args {
	struct screen_act act;
	struct screen_action action;
};

#define AT(m) offsetof(struct screen_args, action.m)

static int screen_args_finish(void *args)
{
	struct screen_args *a = args;

	a->act.actions = (struct field_list){ &a->action, 1 };
	a->action.has_button = a->action.type == SCREEN_CLICK;
	a->action.has_clicks = a->action.clicks;
	a->action.has_repeat = a->action.repeat;
	return 0;
}

static const struct opt click_rows[] = {
	{ "button", 'b', OPT_CHOICE, AT(button), .arg = "BUTTON", .table = &screen_action_table,
	  .member = "button", .help = "Button to click with" },
	{ "clicks", 'n', OPT_U64, AT(clicks), .min = 1, .max = 3, .arg = "N",
	  .help = "2 for a double click" },
	{ "keys", 'k', OPT_TEXT, AT(keys), .arg = "KEYS",
	  .help = "Keys to hold meanwhile, such as ctrl+shift" },
};

static int cmd_click_prepare(struct cli *, void *args, const struct opt_words *w, struct api_call *,
			     struct cay_err *err)
{
	struct screen_args *a = args;

	if (str_parse_u64(slice_of(w->operands[1]), 0, 65535, &a->action.x) < 0 ||
	    str_parse_u64(slice_of(w->operands[2]), 0, 65535, &a->action.y) < 0)
		return cay_fail(err, CAY_E_INVALID, "click: X and Y are numbers of pixels");
	a->action.type = SCREEN_CLICK;
	a->action.has_x = a->action.has_y = true;
	return screen_args_finish(args);
}

const struct cmd cmd_click = {
	CMD_USAGE("click", "[OPTION...] SANDBOX X Y"),
	CMD_OPERANDS(3, 3, OPERAND_SANDBOX, OPERAND_FREE),
	CMD_OPTIONS(screen_args, OPTS(click_rows, 0)),
	.help = "Click on the screen of a sandbox",
	.prepare = cmd_click_prepare,
	.op = OP_SCREEN_ACT,
};

static int cmd_type_prepare(struct cli *, void *args, const struct opt_words *w, struct api_call *,
			    struct cay_err *)
{
	struct screen_args *a = args;

	a->action.type = SCREEN_TYPE;
	a->action.text = w->operands[1];
	return screen_args_finish(args);
}

const struct cmd cmd_type = {
	CMD_USAGE("type", "[--json] SANDBOX TEXT"),
	CMD_OPERANDS(2, 2, OPERAND_SANDBOX, OPERAND_FREE),
	CMD_OPTIONS(screen_args, OPTS_END),
	.help = "Type text on the screen of a sandbox",
	.more = "A line feed in TEXT is the key Return, a tab the key Tab.",
	.prepare = cmd_type_prepare,
	.op = OP_SCREEN_ACT,
};

static const struct opt press_rows[] = {
	{ "repeat", 'n', OPT_U64, AT(repeat), .min = 1, .max = 100, .arg = "N",
	  .help = "How often" },
};

static int cmd_press_prepare(struct cli *, void *args, const struct opt_words *w, struct api_call *,
			     struct cay_err *)
{
	struct screen_args *a = args;

	a->action.type = SCREEN_KEY;
	a->action.keys = w->operands[1];
	return screen_args_finish(args);
}

const struct cmd cmd_press = {
	CMD_USAGE("press", "[OPTION...] SANDBOX KEYS"),
	CMD_OPERANDS(2, 2, OPERAND_SANDBOX, OPERAND_FREE),
	CMD_OPTIONS(screen_args, OPTS(press_rows, 0)),
	.help = "Press keys on the screen of a sandbox",
	.more = "KEYS is a combination such as ctrl+s, Return or alt+F4, or several with spaces "
		"between them.",
	.prepare = cmd_press_prepare,
	.op = OP_SCREEN_ACT,
};

#undef AT

static int cmd_clipboard_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	struct screen_action copy = { .type = SCREEN_COPY, .text = w->operands[1] };
	struct screen_act act = { .actions = { &copy, 1 } };
	struct api_call set = { .op = OP_SCREEN_ACT, .request = &act };
	struct api_call get = { .op = OP_SCREEN_CLIPBOARD };
	struct api_call *call = w->n_operands > 1 ? &set : &get;
	struct screen_clipboard found = {};
	struct screen_done done = {};
	int r = api_find_sandbox(&c->api, w->operands[0], &call->ids[0], err);

	if (r >= 0)
		r = api_call(&c->api, call, call == &set ? (void *)&done : &found, err);
	return r < 0 || call == &set ? r : print_lines(found.text, err);
}

const struct cmd cmd_clipboard = {
	CMD_USAGE("clipboard", "SANDBOX [TEXT]"),
	CMD_OPERANDS(1, 2, OPERAND_SANDBOX, OPERAND_FREE),
	.no_json = true,
	.help = "Print the text on the clipboard of a sandbox's screen, or set it",
	.run = cmd_clipboard_run,
};

const struct cmd cmd_window_ls = {
	CMD_USAGE("window ls", "[--json] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	.help = "List the windows on the screen of a sandbox, the oldest first",
	.op = OP_SCREEN_INFO,
	CMD_COLUMNS({ "ID", "id" }, { "ACTIVE", "active" }, { "CLASS", "class" },
		    { "TITLE", "title" }),
};

/* The type of the action is that of the command's defaults. */
static int cmd_window_prepare(struct cli *, void *args, const struct opt_words *w,
			      struct api_call *, struct cay_err *err)
{
	struct screen_args *a = args;

	if (str_parse_u64(slice_of(w->operands[1]), 1, UINT32_MAX, &a->action.window) < 0)
		return cay_fail(err, CAY_E_INVALID,
				"invalid window '%s': 'cay window ls' lists their ids",
				w->operands[1]);
	a->action.has_window = true;
	return screen_args_finish(args);
}

const struct cmd cmd_window_focus = {
	CMD_USAGE("window focus", "[--json] SANDBOX WINDOW"),
	CMD_OPERANDS(2, 2, OPERAND_SANDBOX, OPERAND_FREE),
	CMD_OPTIONS(screen_args, OPTS_END),
	.defaults = &(const struct screen_args){ .action.type = SCREEN_FOCUS },
	.help = "Bring a window to the front, where it gets what is typed",
	.prepare = cmd_window_prepare,
	.op = OP_SCREEN_ACT,
};

const struct cmd cmd_window_close = {
	CMD_USAGE("window close", "[--json] SANDBOX WINDOW"),
	CMD_OPERANDS(2, 2, OPERAND_SANDBOX, OPERAND_FREE),
	CMD_OPTIONS(screen_args, OPTS_END),
	.defaults = &(const struct screen_args){ .action.type = SCREEN_CLOSE },
	.help = "Close a window, as its close button does",
	.prepare = cmd_window_prepare,
	.op = OP_SCREEN_ACT,
};

struct desktop_args {
	struct preview_create request;
	bool watch;
};

#define AT(m) offsetof(struct desktop_args, m)

static const struct opt desktop_rows[] = {
	{ "watch", 'w', OPT_FLAG, AT(watch),
	  .help = "Whoever has the URL can look, but neither click, type nor paste" },
	{ "ttl", 0, OPT_DURATION, AT(request.ttl_ms), 1000, UINT64_C(31622400000), .arg = "TIME",
	  .help = "Lifetime, e.g. 10m or 7d, up to edge.link_max; by default an hour" },
};

#undef AT

static int cmd_desktop_prepare(struct cli *, void *args, const struct opt_words *,
			       struct api_call *, struct cay_err *)
{
	struct desktop_args *a = args;

	a->request.has_screen = true;
	a->request.screen = a->watch ? SCREEN_WATCH : SCREEN_CONTROL;
	return 0;
}

static int cmd_desktop_print(const void *reply, struct cay_err *err)
{
	const struct preview_made *made = reply;

	return print_line(err, "%s", made->url);
}

const struct cmd cmd_desktop = {
	CMD_USAGE("desktop", "[OPTION...] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	CMD_OPTIONS(desktop_args, OPTS(desktop_rows, 0)),
	.defaults = &(const struct desktop_args){ .request = { .ttl_ms = 3600000 } },
	.help = "Create a URL that shows the screen of a sandbox in a browser",
	.more = "The page watches until its viewer takes control; several can look at once. The "
		"URL "
		"gives access without a key until it expires, is revoked ('cay revoke') or the "
		"sandbox ends. The sandbox needs a VNC server, as the image 'desktop' has, and the "
		"node a domain for previews (edge.previews) and noVNC (edge.novnc).",
	.prepare = cmd_desktop_prepare,
	.op = OP_SANDBOX_PREVIEW,
	.print = cmd_desktop_print,
};
