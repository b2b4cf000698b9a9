/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/rows.h"
#include "cli/show.h"

struct ls_args {
	bool all;
	struct json_args json;
};

static const struct opt rows[] = {
	{ "all", 'a', OPT_FLAG, offsetof(struct ls_args, all), .help = "Also those that ended" },
};
static const struct opt_group options[] = { OPTS(rows, 0), OPTS_JSON(ls_args, json), OPTS_END };

static bool ended(const void *row)
{
	return ((const struct sandbox *)row)->has_end;
}

static int cells(struct show_table *t, const void *row)
{
	const struct sandbox *s = row;
	char id[ID_TEXT_LEN + 1], age[SHOW_AGE_MAX];

	id_format(&s->id, id);
	show_age(clk_wall_ns(&clk_system), s->created_ns, age);
	return show_cell(t, id) < 0 || show_cell(t, s->name ? s->name : "-") < 0 ||
			       show_cell(t, s->image) < 0 ||
			       show_cell(t, rows_choice(&sandbox_table, "state", s->state)) < 0 ||
			       show_cell(t, age) < 0
		       ? -ENOMEM
		       : 0;
}

static int run(struct cli *c, const void *args, const struct opt_words *, struct cay_err *err)
{
	const struct ls_args *a = args;
	const struct rows_kind kind = {
		.op = OP_SANDBOX_LIST,
		.list = "sandboxes",
		.row = &sandbox_table,
		.headings = { "ID", "NAME", "IMAGE", "STATE", "AGE" },
		.columns = 5,
		.cells = cells,
		.skip = a->all ? NULL : ended,
	};

	return rows_print(&c->api, &kind, a->json.json, err);
}

const struct cmd cmd_ls = {
	.name = "ls",
	.args = "[--all] [--json]",
	.options = options,
	.size = sizeof(struct ls_args),
	.help = "List the sandboxes there are, newest first",
	.run = run,
};
