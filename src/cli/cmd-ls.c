/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "cli/names.h"
#include "cli/rows.h"
#include "cli/show.h"

struct ls_args {
	bool all;
	unsigned state; /* SB_NUM_STATES: all that have not ended */
	const char *group, *label;
	struct json_args json;
};

#define AT(m) offsetof(struct ls_args, m)

static const struct opt rows[] = {
	{ "all", 'a', OPT_FLAG, AT(all), .help = "Also those that ended" },
	{ "state", 0, OPT_CHOICE, AT(state), .table = &sandbox_table, .member = "state",
	  .arg = "STATE", .help = "Only those in this state, as in paused or failed" },
	{ "group", 0, OPT_TEXT, AT(group), .what = OPERAND_GROUP, .arg = "NAME",
	  .help = "Only those of this group" },
	{ "label", 0, OPT_TEXT, AT(label), .arg = "KEY[=VALUE]",
	  .help = "Only those with this label" },
};
static const struct opt_group options[] = { OPTS(rows, 0), OPTS_JSON(ls_args, json), OPTS_END };

static void preset(void *args)
{
	((struct ls_args *)args)->state = SB_NUM_STATES;
}

/* "in 59 min", "-" */
static int expires(struct show_table *t, const struct sandbox *s, uint64_t now)
{
	auto_buf text = BUF_INIT(64);
	char left[SHOW_AGE_MAX];

	if (!s->has_expires)
		return show_cell(t, "-");
	show_age(s->expires_ns, now, left);
	return buf_printf(&text, "in %s", left) < 0 ? -ENOMEM : show_cell(t, buf_str(&text));
}

static int cells(struct show_table *t, const void *row)
{
	const struct sandbox *s = row;
	uint64_t now = clk_wall_ns(&clk_system);
	char id[ID_TEXT_LEN + 1], age[SHOW_AGE_MAX];

	id_format(&s->id, id);
	show_age(now, s->created_ns, age);
	return show_cell(t, id) < 0 || show_cell(t, s->name ? s->name : "-") < 0 ||
			       show_cell(t, s->image) < 0 ||
			       show_cell(t, rows_choice(&sandbox_table, "state", s->state)) < 0 ||
			       show_cell(t, age) < 0 || expires(t, s, now) < 0
		       ? -ENOMEM
		       : 0;
}

static int run(struct cli *c, const void *args, const struct opt_words *w, struct cay_err *err)
{
	const struct ls_args *a = args;
	struct sandbox_query which = { .group = a->group, .label = a->label };
	const struct rows_kind kind = {
		.op = OP_SANDBOX_LIST,
		.list = "sandboxes",
		.row = &sandbox_table,
		.headings = { "ID", "NAME", "IMAGE", "STATE", "AGE", "EXPIRES" },
		.columns = 6,
		.cells = cells,
		.which = &which,
	};

	if (w->n_operands && (a->all || a->state != SB_NUM_STATES || a->group || a->label))
		return cay_fail(err, CAY_E_INVALID, "ls: of files there is only --json");
	if (w->n_operands)
		return names_list(c, w->operands[0], a->json.json, err);
	if (a->all && a->state != SB_NUM_STATES)
		return cay_fail(err, CAY_E_INVALID, "ls: --all and --state exclude each other");
	if (a->state != SB_NUM_STATES)
		which.state = sandbox_state_names[a->state];
	else if (!a->all)
		which.state = "live";
	return rows_print(&c->api, &kind, a->json.json, err);
}

const struct cmd cmd_ls = {
	.name = "ls",
	.args = "[OPTION...] [NAME:PATH]",
	.operands = { OPERAND_PLACE },
	.max = 1,
	.options = options,
	.size = sizeof(struct ls_args),
	.preset = preset,
	.help = "List the sandboxes there are, newest first; or the files in one",
	.run = run,
};
