/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "cli/client/api.h"
#include "cli/core/command.h"
#include "cli/print/list.h"
#include "cli/print/print.h"

#define WAIT_MS 20000
#define PAGE_ARENA_MAX MIB(1)
#define LINE_FORMAT "%-24s  %-7s  %-7s  "

struct egress_log_args {
	struct egress_log_filter query;
	bool follow, denied;
};

#define AT(m) offsetof(struct egress_log_args, m)
static const struct opt log_rows[] = {
	{ "follow", 'f', OPT_FLAG, AT(follow), .help = "Wait for more, until the sandbox ends" },
	{ "denied", 0, OPT_FLAG, AT(denied), .help = "Only what was denied" },
	{ "name", 0, OPT_TEXT, AT(query.name), .arg = "NAME", .help = "Only about this name" },
};

static int egress_decision_write_words(const struct egress_decision *d, struct buf *out)
{
	const char *to = d->name ? d->name : d->address ? d->address : "-";
	int r = buf_printf(out, "%s:%llu", to, (unsigned long long)d->port);

	if (r >= 0 && d->name && d->address)
		r = buf_printf(out, " at %s", d->address);
	if (r >= 0 && d->verdict)
		r = buf_printf(out, ", %s", d->reason);
	if (r >= 0 && d->has_rule)
		r = buf_printf(out, ", rule %llu of the %s", (unsigned long long)d->rule,
			       field_choice_name(&egress_decision_table, "layer", d->layer));
	if (r >= 0 && str_eq(d->op, "closed"))
		r = buf_printf(out, ", %llu bytes sent, %llu received",
			       (unsigned long long)d->up_bytes, (unsigned long long)d->down_bytes);
	if (r >= 0 && d->more)
		r = buf_printf(out, ", and %llu more", (unsigned long long)d->more);
	return r;
}

static int egress_decision_format(const struct egress_decision *d, bool json, struct buf *out,
				  struct cay_err *err)
{
	auto_buf words = BUF_INIT(KIB(1));
	char at[CLK_TEXT_LEN + 1];
	int r;

	if (json) {
		r = api_json_encode(&egress_decision_table, d, out, err);
		return r < 0 ? r : buf_putc(out, '\n');
	}
	clk_format_rfc3339(d->time_ns, at);
	r = buf_printf(out, LINE_FORMAT, at,
		       field_choice_name(&egress_decision_table, "verdict", d->verdict), d->op);
	if (r >= 0)
		r = egress_decision_write_words(d, &words);
	if (r >= 0)
		r = print_append_escaped(out, (struct slice){ buf_str(&words), words.len });
	return r < 0 ? r : buf_putc(out, '\n');
}

static int cmd_egress_log_print_page(struct cli *c, const struct egress_log_page *page,
				     struct cay_err *err)
{
	const struct egress_decision *rows = page->decisions.v;
	int r = 0;

	if (page->dropped)
		print_note("older decisions are no longer remembered; the log on the node has "
			   "them");
	for (size_t i = 0; r >= 0 && i < page->decisions.n; i++) {
		auto_buf line = BUF_INIT(KIB(4));

		if (egress_decision_format(&rows[i], c->global.json, &line, err) < 0)
			return cay_no_memory(err);
		r = print_stdout(&line, err);
	}
	return r;
}

/* 0: there is no more now. */
static int cmd_egress_log_next_page(struct cli *c, struct api_call *call,
				    struct egress_log_filter *query, struct cay_err *err)
{
	const struct arena before = c->api.arena;
	struct egress_log_page page = {};
	int r;

	c->api.arena = ARENA_INIT(PAGE_ARENA_MAX); /* a page at a time: there may be many */
	r = api_call(&c->api, call, &page, err);
	if (r >= 0)
		r = cmd_egress_log_print_page(c, &page, err);
	arena_fini(&c->api.arena);
	c->api.arena = before;
	query->after = page.next;
	return r < 0 ? r : page.decisions.n > 0;
}

static int cmd_egress_log_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct egress_log_args *a = c->args;
	struct egress_log_filter query = a->query;
	struct api_call call = { .op = OP_EGRESS_LOG, .query = &query };
	bool any = false;
	int r = api_find_sandbox(&c->api, w->operands[0], &call.ids[0], err);

	query.has_verdict = a->denied;
	query.verdict = EGRESS_DENIED;
	while (r >= 0) {
		r = cmd_egress_log_next_page(c, &call, &query, err);
		if (r == 0 && !a->follow)
			return 0;
		if (r == 0)
			query.wait_ms = WAIT_MS;
		any |= r >= 0;
	}
	if (a->follow && any && err->code == CAY_E_STATE) {
		*err = (struct cay_err){};
		print_note("the sandbox has ended");
		return 0;
	}
	return r;
}

const struct cmd cmd_egress_log = {
	CMD_USAGE("egress log", "[-f] [--denied] [--name NAME] [--json] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	CMD_OPTIONS(egress_log_args, OPTS(log_rows, 0)),
	.help = "List the last decisions about connections and names of a sandbox",
	.more = "cay-egress remembers the last few hundred of a sandbox since it started. --json "
		"prints one a line. The log on the node has all: see 'cay audit verify'.",
	.run = cmd_egress_log_run,
};
