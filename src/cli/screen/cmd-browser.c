/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "cli/exec/port-forward.h"
#include "cli/print/list.h"
#include "cli/print/print.h"
#include "cli/transfer/remote-path.h"

/* A request of one action. */
struct browser_args {
	struct browser_act act;
	struct browser_action action;
};

#define AT(m) offsetof(struct browser_args, m)

#define TAB_ROW \
	{ "tab", \
	  't', \
	  OPT_TEXT, \
	  AT(act.tab), \
	  .arg = "ID", \
	  .help = "Use this tab, an id from 'cay browser tabs'; default: the one used last" }

static const struct opt browser_tab_rows[] = { TAB_ROW };
static const struct opt browser_rows[] = {
	TAB_ROW,
	{ "show", 's', OPT_CHOICE, AT(act.snapshot), .arg = "WHAT", .table = &browser_act_table,
	  .member = "snapshot", .help = "Print this part of the page afterwards" },
	{ "max-chars", 0, OPT_U64, AT(act.max_chars), .min = 100, .max = 200000, .arg = "N",
	  .help = "Print at most this many characters" },
};

/* The page is read after n actions of a type, one or none. */
#define BROWSER_DEFAULTS(type_, n_) \
	&(const struct browser_args) \
	{ \
		.act = { .actions.n = (n_), \
			 .snapshot = BROWSER_VISIBLE, \
			 .max_chars = 12000, \
			 .timeout_ms = 60000 }, \
		.action.type = (type_), \
	}

static int browser_args_prepare(struct cli *, void *args, const struct opt_words *,
				struct api_call *, struct cay_err *)
{
	struct browser_args *a = args;

	a->act.actions.v = &a->action;
	return 0;
}

/* The page, as lines; above them what happened. */
static int browser_print_done(const void *reply, struct cay_err *err)
{
	const struct browser_done *done = reply;
	const struct browser_result *results = done->results.v;
	int r = 0;

	for (size_t i = 0; i < done->changes.n; i++)
		print_note("%s", done->changes.v[i]);
	if (done->error)
		return cay_fail(err, CAY_E_INVALID, "%s", done->error);
	if (done->results.n && results[0].value)
		r = print_line(err, "%s", results[0].value);
	if (r >= 0 && done->page.url && done->page.url[0])
		r = print_line(err, "%s  %s", done->page.url,
			       done->page.title ? done->page.title : "");
	if (r >= 0 && done->page.text)
		r = print_lines(done->page.text, err);
	if (r >= 0 && done->page.left)
		print_note("%" PRIu64 " lines or characters are left: raise --max-chars",
			   done->page.left);
	return r;
}

const struct cmd cmd_browser_open = {
	CMD_USAGE("browser open", "[OPTION...] SANDBOX URL"),
	CMD_OPERANDS(2, 2, OPERAND_SANDBOX, OPERAND_FREE),
	.operand_at = { 0, OPERAND_AT(browser_args, action.url) },
	CMD_OPTIONS(browser_args, OPTS(browser_rows, 0)),
	.defaults = BROWSER_DEFAULTS(BROWSER_NAVIGATE, 1),
	.help = "Open a page in the browser of a sandbox and print what it shows",
	.more = "Starts the browser if it does not run. The sandbox needs an image with a "
		"browser, such as 'desktop'.",
	.prepare = browser_args_prepare,
	.op = OP_BROWSER_ACT,
	.print = browser_print_done,
};

const struct cmd cmd_browser_read = {
	CMD_USAGE("browser read", "[OPTION...] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	CMD_OPTIONS(browser_args, OPTS(browser_rows, 0)),
	.defaults = BROWSER_DEFAULTS(BROWSER_NAVIGATE, 0),
	.help = "Print what the browser of a sandbox shows",
	.more = "A line for each control, heading and piece of text. [ref_N] names an element for "
		"'cay browser click' and 'fill'.",
	.prepare = browser_args_prepare,
	.op = OP_BROWSER_ACT,
	.print = browser_print_done,
};

const struct cmd cmd_browser_click = {
	CMD_USAGE("browser click", "[OPTION...] SANDBOX REF"),
	CMD_OPERANDS(2, 2, OPERAND_SANDBOX, OPERAND_FREE),
	.operand_at = { 0, OPERAND_AT(browser_args, action.ref) },
	CMD_OPTIONS(browser_args, OPTS(browser_rows, 0)),
	.defaults = BROWSER_DEFAULTS(BROWSER_CLICK, 1),
	.help = "Click on an element of a page",
	.more = "REF is a reference of 'cay browser read', such as ref_4.",
	.prepare = browser_args_prepare,
	.op = OP_BROWSER_ACT,
	.print = browser_print_done,
};

const struct cmd cmd_browser_fill = {
	CMD_USAGE("browser fill", "[OPTION...] SANDBOX REF TEXT"),
	CMD_OPERANDS(3, 3, OPERAND_SANDBOX, OPERAND_FREE),
	.operand_at = { 0, OPERAND_AT(browser_args, action.ref),
			OPERAND_AT(browser_args, action.text) },
	CMD_OPTIONS(browser_args, OPTS(browser_rows, 0)),
	.defaults = BROWSER_DEFAULTS(BROWSER_FILL, 1),
	.help = "Set the value of a control of a page",
	.more = "For a list, TEXT is an option; for a checkbox, true or false.",
	.prepare = browser_args_prepare,
	.op = OP_BROWSER_ACT,
	.print = browser_print_done,
};

const struct cmd cmd_browser_press = {
	CMD_USAGE("browser press", "[OPTION...] SANDBOX KEYS"),
	CMD_OPERANDS(2, 2, OPERAND_SANDBOX, OPERAND_FREE),
	.operand_at = { 0, OPERAND_AT(browser_args, action.keys) },
	CMD_OPTIONS(browser_args, OPTS(browser_rows, 0)),
	.defaults = BROWSER_DEFAULTS(BROWSER_PRESS, 1),
	.help = "Press keys in a page",
	.more = "KEYS is a combination such as ctrl+a or Enter, or several with spaces between "
		"them.",
	.prepare = browser_args_prepare,
	.op = OP_BROWSER_ACT,
	.print = browser_print_done,
};

static int cmd_browser_eval_print(const void *reply, struct cay_err *err)
{
	struct browser_done done = *(const struct browser_done *)reply;

	done.page = (struct browser_snapshot){};
	return browser_print_done(&done, err);
}

static const struct browser_args eval_defaults = {
	.act = { .actions.n = 1, .max_chars = 12000, .timeout_ms = 60000 },
	.action.type = BROWSER_EVALUATE,
};

const struct cmd cmd_browser_eval = {
	CMD_USAGE("browser eval", "[OPTION...] SANDBOX SCRIPT"),
	CMD_OPERANDS(2, 2, OPERAND_SANDBOX, OPERAND_FREE),
	.operand_at = { 0, OPERAND_AT(browser_args, action.script) },
	CMD_OPTIONS(browser_args, OPTS(browser_tab_rows, 0)),
	.defaults = &eval_defaults,
	.help = "Run JavaScript in a page and print its value as JSON",
	.prepare = browser_args_prepare,
	.op = OP_BROWSER_ACT,
	.print = cmd_browser_eval_print,
};

#undef AT

const struct cmd cmd_browser_tabs = {
	CMD_USAGE("browser tabs", "[--json] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	.help = "List the tabs of the browser of a sandbox, the one used last first",
	.op = OP_BROWSER_INFO,
	CMD_COLUMNS({ "ID", "id" }, { "TITLE", "title" }, { "URL", "url" }),
};

struct browser_shot_args {
	struct browser_shot_query query;
	const char *output;
};

#define AT(m) offsetof(struct browser_shot_args, m)

static const struct opt browser_shot_rows[] = {
	{ "output", 'o', OPT_TEXT, AT(output), .operand = OPERAND_FILE, .arg = "FILE",
	  .help = "File to write; - or none is standard output" },
	{ "tab", 't', OPT_TEXT, AT(query.tab), .arg = "ID",
	  .help = "Tab to show, an id of 'cay browser tabs'" },
	{ "full", 0, OPT_FLAG, AT(query.full),
	  .help = "Show the whole page, also what is not in view" },
};

#undef AT

static int cmd_browser_shot_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct browser_shot_args *a = c->args;
	struct api_call call = { .op = OP_BROWSER_SHOT, .query = &a->query, .accept = "*/*" };
	int r = api_find_sandbox(&c->api, w->operands[0], &call.ids[0], err);

	return r < 0 ? r : raw_reply_save(c, &call, "the picture", a->output, err);
}

const struct cmd cmd_browser_shot = {
	CMD_USAGE("browser shot", "[OPTION...] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	CMD_OPTIONS(browser_shot_args, OPTS(browser_shot_rows, 0)),
	.no_json = true,
	.help = "Get a picture of a page in the browser of a sandbox, as PNG",
	.run = cmd_browser_shot_run,
};

static int browser_note_ready(uint16_t local, uint16_t, struct cay_err *err)
{
	print_note("Ctrl-C stops");
	return print_line(err, "http://127.0.0.1:%u", local);
}

/* Start the browser, if it does not run, and find the port that it listens on. */
static int browser_find_port(struct cli *c, const struct id *sandbox, uint16_t *ret,
			     struct cay_err *err)
{
	struct browser_act nothing = { .timeout_ms = 60000, .max_chars = 100 };
	struct api_call act = { .op = OP_BROWSER_ACT, .request = &nothing, .ids[0] = *sandbox };
	struct api_call info = { .op = OP_BROWSER_INFO, .ids[0] = *sandbox };
	struct browser_info found = {};
	struct browser_done done = {};
	int r = api_call(&c->api, &act, &done, err);

	if (r >= 0)
		r = api_call(&c->api, &info, &found, err);
	if (r >= 0 && !found.has_port)
		r = cay_fail(err, CAY_E_STATE, "the browser has ended");
	*ret = (uint16_t)found.port;
	return r;
}

static int cmd_browser_connect_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	uint64_t local = 0;
	struct id sandbox;
	uint16_t port;
	int r = api_find_sandbox(&c->api, w->operands[0], &sandbox, err);

	if (r >= 0 && w->n_operands > 1 &&
	    str_parse_u64(slice_of(w->operands[1]), 0, UINT16_MAX, &local) < 0)
		return cay_fail(err, CAY_E_INVALID, "browser connect: invalid port '%s'",
				w->operands[1]);
	if (r >= 0)
		r = browser_find_port(c, &sandbox, &port, err);
	return r < 0 ? r
		     : port_forward_run(&c->api, &sandbox, (uint16_t)local, port,
					browser_note_ready, err);
}

const struct cmd cmd_browser_connect = {
	CMD_USAGE("browser connect", "SANDBOX [PORT]"),
	CMD_OPERANDS(1, 2, OPERAND_SANDBOX, OPERAND_FREE),
	.no_json = true,
	.help = "Print a URL on loopback for programs that drive browsers, such as Playwright",
	.more = "Starts the browser if it does not run, and forwards PORT, or a free one, to its "
		"DevTools until Ctrl-C.",
	.run = cmd_browser_connect_run,
};
