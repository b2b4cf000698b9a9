/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/rows.h"
#include "cli/show.h"

static const struct opt_group options[] = { OPTS(opts_json, 0), OPTS_END };

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
	static const struct rows_kind kind = {
		.op = OP_SANDBOX_LIST,
		.list = "sandboxes",
		.row = &sandbox_table,
		.headings = { "ID", "NAME", "IMAGE", "STATE", "AGE" },
		.columns = 5,
		.cells = cells,
	};

	return rows_print(&c->api, &kind, ((const struct json_args *)args)->json, err);
}

const struct cmd cmd_ls = {
	.name = "ls",
	.args = "[--json]",
	.options = options,
	.size = sizeof(struct json_args),
	.help = "List sandboxes, newest first",
	.run = run,
};
