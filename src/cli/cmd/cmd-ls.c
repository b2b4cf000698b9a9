/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "cli/print/list.h"
#include "cli/print/print.h"
#include "cli/transfer/file-names.h"

struct ls_args {
	bool all;
	unsigned state; /* SB_NUM_STATES: all that have not ended */
	const char *group, *label;
	struct json_args json;
};

#define AT(m) offsetof(struct ls_args, m)

static const struct opt rows[] = {
	{ "all", 'a', OPT_FLAG, AT(all), .help = "Also those that ended" },
	{ "state", 0, OPT_CHOICE, AT(state), .table = &sandbox_info_table, .member = "state",
	  .arg = "STATE", .help = "Only those in this state, as in paused or failed" },
	{ "group", 0, OPT_TEXT, AT(group), .operand = OPERAND_GROUP, .arg = "NAME",
	  .help = "Only those of this group" },
	{ "label", 0, OPT_TEXT, AT(label), .arg = "KEY[=VALUE]",
	  .help = "Only those with this label" },
};
static const struct opt_group options[] = { OPTS(rows, 0), OPTS_JSON(ls_args, json), OPTS_END };

static void cmd_ls_set_defaults(void *args)
{
	((struct ls_args *)args)->state = SB_NUM_STATES;
}

/* "in 59 min", "-" */
static int cmd_ls_add_expires_cell(struct print_table *t, const struct sandbox_info *s,
				   uint64_t now)
{
	auto_buf text = BUF_INIT(64);
	char left[PRINT_AGE_MAX];

	if (!s->has_expires)
		return print_table_add_cell(t, "-");
	print_age_format(s->expires_ns, now, left);
	return buf_printf(&text, "in %s", left) < 0 ? -ENOMEM
						    : print_table_add_cell(t, buf_str(&text));
}

static int cmd_ls_add_cells(struct print_table *t, const void *row)
{
	const struct sandbox_info *s = row;
	uint64_t now = clk_wall_ns(&clk_system);
	char id[ID_TEXT_LEN + 1], age[PRINT_AGE_MAX];

	id_format(&s->id, id);
	print_age_format(now, s->created_ns, age);
	return print_table_add_cell(t, id) < 0 ||
			       print_table_add_cell(t, s->name ? s->name : "-") < 0 ||
			       print_table_add_cell(t, s->image) < 0 ||
			       print_table_add_cell(t, field_choice_name(&sandbox_info_table,
									 "state", s->state)) < 0 ||
			       print_table_add_cell(t, age) < 0 ||
			       cmd_ls_add_expires_cell(t, s, now) < 0
		       ? -ENOMEM
		       : 0;
}

static int cmd_ls_run(struct cli *c, const void *args, const struct opt_words *w,
		      struct cay_err *err)
{
	const struct ls_args *a = args;
	struct sandbox_query which = { .group = a->group, .label = a->label };
	const struct list_spec kind = {
		.op = OP_SANDBOX_LIST,
		.list_member = "sandboxes",
		.row = &sandbox_info_table,
		.headings = { "ID", "NAME", "IMAGE", "STATE", "AGE", "EXPIRES" },
		.columns = 6,
		.add_cells = cmd_ls_add_cells,
		.query = &which,
	};

	if (w->n_operands && (a->all || a->state != SB_NUM_STATES || a->group || a->label))
		return cay_fail(err, CAY_E_INVALID, "ls: of files there is only --json");
	if (w->n_operands)
		return file_names_print_dir(c, w->operands[0], a->json.json, err);
	if (a->all && a->state != SB_NUM_STATES)
		return cay_fail(err, CAY_E_INVALID, "ls: --all and --state exclude each other");
	if (a->state != SB_NUM_STATES)
		which.state = sandbox_state_names[a->state];
	else if (!a->all)
		which.state = "live";
	return list_print_all_pages(&c->api, &kind, a->json.json, err);
}

const struct cmd cmd_ls = {
	.name = "ls",
	.args = "[OPTION...] [NAME:PATH]",
	.operands = { OPERAND_LOCAL_OR_REMOTE_PATH },
	.max = 1,
	.options = options,
	.size = sizeof(struct ls_args),
	.init_args = cmd_ls_set_defaults,
	.help = "List the sandboxes there are, newest first; or the files in one",
	.run = cmd_ls_run,
};
