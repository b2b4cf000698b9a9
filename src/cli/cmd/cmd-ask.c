/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd-ask - connections of sandboxes that wait for an answer
 *
 * `ask watch` is one who can answer for as long as it runs, also while a person thinks: connections
 * wait only while a client asks the server for more.
 */
#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/print/list.h"
#include "egress/ask-table.h"

#define WAIT_MS 20000
#define THINK_MS 2000 /* how often a row is looked at while a person thinks */
#define LINE_MAX_LEN 64

static int ask_format_target(const void *row, struct buf *out)
{
	const struct ask_info *a = row;

	return buf_printf(out, "%s:%llu", a->to, (unsigned long long)a->port);
}

static const struct opt ls_rows[] = {
	{ "group", 0, OPT_TEXT, offsetof(struct ask_query, group), .operand = OPERAND_GROUP,
	  .arg = "NAME", .help = "Only this group" },
};

static void ask_query_init(void *args)
{
	((struct ask_query *)args)->limit = 1000;
}

const struct cmd cmd_ask_ls = {
	CMD_USAGE("ask ls", "[--group NAME] [--json]"),
	CMD_OPTIONS(ask_query, OPTS(ls_rows, 0)),
	.init_args = ask_query_init,
	.help = "List what sandboxes want to connect to where their policies ask",
	.op = OP_ASK_LIST,
	CMD_COLUMNS({ "ASK", "id" }, { "SANDBOX", "sandbox" },
		    { "TO", NULL, AS_VALUE, ask_format_target }, { "STATE", "state" },
		    { "KIND", "kind" }, { "COUNT", "count" }, { "WAITING", "waiting" },
		    { "CHANGED", "changed_at", AS_AGE }, { "REMEMBERED", "remember" }),
};

struct ask_answer_args {
	struct ask_answer answer;
	uint64_t for_ms;
};

static const struct opt answer_rows[] = {
	{ "remember", 0, OPT_CHOICE, offsetof(struct ask_answer_args, answer.remember),
	  .table = &ask_answer_table, .member = "remember", .arg = "once|sandbox|group",
	  .help = "For the connections that wait, or also for later ones" },
	{ "for", 0, OPT_DURATION, offsetof(struct ask_answer_args, for_ms), 1000,
	  UINT64_C(31536000000), .arg = "TIME",
	  .help = "Forget a remembered answer after this time" },
};

static int ask_send_answer(struct cli *c, const struct id *ask, const struct ask_answer *request,
			   struct ask_info *ret, struct cay_err *err)
{
	return api_call(
		&c->api,
		&(struct api_call){ .op = OP_ASK_ANSWER, .ids = { *ask }, .request = request }, ret,
		err);
}

static int ask_print_state(struct cli *c, const struct ask_info *a, struct cay_err *err)
{
	char id[ID_TEXT_LEN + 1];

	if (c->global.json)
		return print_json(&ask_info_table, a, err);
	id_format(&a->sandbox, id);
	return print_line(err, "%s  %s:%llu  %s", id, a->to, (unsigned long long)a->port,
			  field_choice_name(&ask_info_table, "state", a->state));
}

static int cmd_ask_answer(struct cli *c, const struct opt_words *w, unsigned verdict,
			  struct cay_err *err)
{
	const struct ask_answer_args *a = c->args;
	struct ask_answer request = a->answer;
	int r = 0;

	request.verdict = verdict;
	if (a->for_ms)
		request.until_ns = clk_wall_ns(&clk_system) + a->for_ms * NS_PER_MS;
	for (size_t i = 0; r >= 0 && i < w->n_operands; i++) {
		struct ask_info done = {};
		struct id ask;

		if (id_parse(ID_ASK, slice_of(w->operands[i]), &ask) < 0)
			return cay_fail(err, CAY_E_INVALID, "'%s' is not the id of an ask",
					w->operands[i]);
		r = ask_send_answer(c, &ask, &request, &done, err);
		if (r >= 0)
			r = ask_print_state(c, &done, err);
	}
	return r;
}

static int cmd_ask_allow_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	return cmd_ask_answer(c, w, EGRESS_SPEC_ALLOW, err);
}

static int cmd_ask_deny_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	return cmd_ask_answer(c, w, EGRESS_SPEC_DENY, err);
}

const struct cmd cmd_ask_allow = {
	CMD_USAGE("ask allow", "[--remember once|sandbox|group] [--for TIME] [--json] ASK..."),
	CMD_OPERANDS(1, SIZE_MAX, OPERAND_FREE),
	CMD_OPTIONS(ask_answer_args, OPTS(answer_rows, 0)),
	.help = "Let connections go on that wait for an answer",
	.more = "What a policy denies stays denied. With --remember, also later connections to "
		"this "
		"name and port, of the sandbox or of all sandboxes of its group.",
	.run = cmd_ask_allow_run,
};

const struct cmd cmd_ask_deny = {
	CMD_USAGE("ask deny", "[--remember once|sandbox|group] [--for TIME] [--json] ASK..."),
	CMD_OPERANDS(1, SIZE_MAX, OPERAND_FREE),
	CMD_OPTIONS(ask_answer_args, OPTS(answer_rows, 0)),
	.help = "Reset connections that wait for an answer",
	.run = cmd_ask_deny_run,
};

/* Watching */

#define KEY_END 'q'

/* The first letter of a line; 0: there is none yet. */
static char ask_read_key(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	char line[LINE_MAX_LEN];

	if (poll(&in, 1, THINK_MS) == 0)
		return 0;
	return read(STDIN_FILENO, line, sizeof(line)) > 0 ? line[0] : KEY_END;
}

/* Whether it still waits; asking makes us one who can answer. */
static int ask_look_again(struct cli *c, struct ask_info *a, struct cay_err *err)
{
	const struct ask_query *watched = c->args;
	struct ask_query stay = { .group = watched->group, .wait_ms = 1, .limit = 1 };
	struct ask_list ignored = {};
	int r = api_call(&c->api, &(struct api_call){ .op = OP_ASK_LIST, .query = &stay }, &ignored,
			 err);

	if (r < 0)
		return r;
	r = api_call(&c->api, &(struct api_call){ .op = OP_ASK_GET, .ids = { a->id } }, a, err);
	if (r < 0 && err->code == CAY_E_NOT_FOUND) { /* its sandbox has ended */
		*err = (struct cay_err){};
		a->state = ASK_GONE;
		r = 0;
	}
	return r;
}

static int ask_prompt(const struct ask_info *a, struct cay_err *err)
{
	auto_buf line = BUF_INIT(KIB(2)), shown = BUF_INIT(KIB(8));
	char id[ID_TEXT_LEN + 1];

	id_format(&a->sandbox, id);
	if (buf_printf(&line, "%s%s%s wants to connect to %s:%llu%s%s", id, a->group ? " of " : "",
		       a->group ? a->group : "", a->to, (unsigned long long)a->port,
		       a->has_kind ? ", " : "",
		       a->has_kind ? field_choice_name(&ask_info_table, "kind", a->kind) : "") <
		    0 ||
	    print_append_escaped(&shown, (struct slice){ buf_str(&line), line.len }) < 0 ||
	    buf_puts(&shown, "\n  allow it [y: now, a: always, n: no, s: skip, q: quit]? ") < 0)
		return cay_no_memory(err);
	return print_stdout(&shown, err);
}

/* One that ends meanwhile needs no answer.  1: the input has ended. */
static int ask_decide(struct cli *c, struct ask_info *a, struct cay_err *err)
{
	struct ask_answer request = { .verdict = EGRESS_SPEC_ASK };
	struct ask_info done = {};
	char key = 0;
	int r = ask_prompt(a, err);

	while (r >= 0 && (!key || !strchr("yansq", key))) {
		key = ask_read_key();
		if (key)
			continue;
		r = ask_look_again(c, a, err);
		if (r >= 0 && a->state != ASK_WAITING)
			return print_line(err, "it is %s",
					  field_choice_name(&ask_info_table, "state", a->state));
	}
	if (r < 0 || key == 's' || key == KEY_END)
		return r < 0 ? r : key == KEY_END;
	request.verdict = key == 'n' ? EGRESS_SPEC_DENY : EGRESS_SPEC_ALLOW;
	request.remember = key == 'a' ? REMEMBER_SANDBOX : REMEMBER_ONCE;
	r = ask_send_answer(c, &a->id, &request, &done, err);
	if (r < 0 && (err->code == CAY_E_CONFLICT || err->code == CAY_E_NOT_FOUND)) {
		print_note("%s", err->msg); /* the program, or its sandbox, has left */
		*err = (struct cay_err){};
		return 0;
	}
	return r < 0 ? r
		     : print_line(err, "  %s",
				  field_choice_name(&ask_info_table, "state", done.state));
}

static int cmd_ask_watch_run(struct cli *c, const struct opt_words *, struct cay_err *err)
{
	const bool person = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !c->global.json;
	struct ask_query query = *(const struct ask_query *)c->args;
	int r = 0;

	query.wait_ms = WAIT_MS;
	while (r == 0) {
		struct ask_list page = {};
		struct ask_info *rows;

		r = api_call(&c->api, &(struct api_call){ .op = OP_ASK_LIST, .query = &query },
			     &page, err);
		rows = page.asks.v;
		for (size_t i = 0; r == 0 && i < page.asks.n; i++) {
			if (!person)
				r = ask_print_state(c, &rows[i], err);
			else if (rows[i].state == ASK_WAITING)
				r = ask_decide(c, &rows[i], err);
		}
		query.after = page.next;
	}
	return r < 0 ? r : 0;
}

const struct cmd cmd_ask_watch = {
	CMD_USAGE("ask watch", "[--group NAME] [--json]"),
	CMD_OPTIONS(ask_query, OPTS(ls_rows, 0)),
	.init_args = ask_query_init,
	.help = "Wait for asks; at a terminal, answer each",
	.more = "While this runs, connections wait for an answer where a policy asks; otherwise "
		"they "
		"are reset at once.",
	.run = cmd_ask_watch_run,
};
