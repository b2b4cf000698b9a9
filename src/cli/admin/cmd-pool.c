/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/command.h"
#include "cli/print/list.h"
#include "cli/print/print.h"

static bool cmd_pool_ls_row_has_pool(const void *row)
{
	return ((const struct template_info *)row)->has_pool;
}

static int cmd_pool_ls_add_number(struct print_table *t, uint64_t n, bool known)
{
	auto_buf text = BUF_INIT(32);

	if (!known)
		return print_table_add_cell(t, "-");
	return buf_printf(&text, "%llu", (unsigned long long)n) < 0
		       ? -ENOMEM
		       : print_table_add_cell(t, buf_str(&text));
}

static int cmd_pool_ls_add_cells(struct print_table *t, const void *row)
{
	const struct template_info *n = row;

	return print_table_add_cell(t, n->name) < 0 ||
			       cmd_pool_ls_add_number(t, n->pool.min, true) < 0 ||
			       cmd_pool_ls_add_number(t, n->pool.max, n->pool.max > 0) < 0 ||
			       cmd_pool_ls_add_number(t, n->now.warm, n->has_now) < 0 ||
			       cmd_pool_ls_add_number(t, n->now.starting, n->has_now) < 0 ||
			       cmd_pool_ls_add_number(t, n->now.claimed, n->has_now) < 0 ||
			       cmd_pool_ls_add_number(t, n->now.failed, n->has_now) < 0 ||
			       print_table_add_cell(t,
						    field_choice_name(&pool_conf_table, "on_empty",
								      n->pool.on_empty)) < 0
		       ? -ENOMEM
		       : 0;
}

static int cmd_pool_ls_run(struct cli *c, const void *args, const struct opt_words *,
			   struct cay_err *err)
{
	static const struct list_spec kind = {
		.op = OP_TEMPLATE_LIST,
		.list_member = "templates",
		.row = &template_info_table,
		.headings = { "TEMPLATE", "MIN", "MAX", "WARM", "STARTING", "CLAIMED", "FAILED",
			      "ON-EMPTY" },
		.columns = 8,
		.add_cells = cmd_pool_ls_add_cells,
		.row_is_wanted = cmd_pool_ls_row_has_pool,
	};

	return list_print_all_pages(&c->api, &kind, ((const struct json_args *)args)->json, err);
}

static const struct opt_group options[] = { OPTS(opts_json, 0), OPTS_END };

const struct cmd cmd_pool_ls = {
	.name = "pool ls",
	.args = "[--json]",
	.options = options,
	.size = sizeof(struct json_args),
	.help = "List warm pools: what each is to have, has, and has given",
	.more = "CLAIMED and FAILED count since the daemon's start. 'cay template pool' changes "
		"one.",
	.run = cmd_pool_ls_run,
};
