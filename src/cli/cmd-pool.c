/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd.h"
#include "cli/rows.h"
#include "cli/show.h"

static bool has_pool(const void *row)
{
	return ((const struct template *)row)->has_pool;
}

static int number(struct show_table *t, uint64_t n, bool known)
{
	auto_buf text = BUF_INIT(32);

	if (!known)
		return show_cell(t, "-");
	return buf_printf(&text, "%llu", (unsigned long long)n) < 0 ? -ENOMEM
								    : show_cell(t, buf_str(&text));
}

static int cells(struct show_table *t, const void *row)
{
	const struct template *n = row;

	return show_cell(t, n->name) < 0 || number(t, n->pool.min, true) < 0 ||
			       number(t, n->pool.max, n->pool.max > 0) < 0 ||
			       number(t, n->now.warm, n->has_now) < 0 ||
			       number(t, n->now.starting, n->has_now) < 0 ||
			       number(t, n->now.claimed, n->has_now) < 0 ||
			       number(t, n->now.failed, n->has_now) < 0 ||
			       show_cell(t, rows_choice(&pool_conf_table, "on_empty",
							n->pool.on_empty)) < 0
		       ? -ENOMEM
		       : 0;
}

static int run(struct cli *c, const void *args, const struct opt_words *, struct cay_err *err)
{
	static const struct rows_kind kind = {
		.op = OP_TEMPLATE_LIST,
		.list = "templates",
		.row = &template_table,
		.headings = { "TEMPLATE", "MIN", "MAX", "WARM", "STARTING", "CLAIMED", "FAILED",
			      "ON-EMPTY" },
		.columns = 8,
		.cells = cells,
		.wanted = has_pool,
	};

	return rows_print(&c->api, &kind, ((const struct json_args *)args)->json, err);
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
	.run = run,
};
