/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "cli/core/command.h"
#include "cli/print/list.h"
#include "cli/print/print.h"

static const struct opt_group json_options[] = { OPTS(opts_json, 0), OPTS_END };

static int cmd_tenant_create_run(struct cli *c, const void *args, const struct opt_words *w,
				 struct cay_err *err)
{
	struct tenant_create request = { .name = w->operands[0] };
	struct api_call call = { .op = OP_TENANT_CREATE, .request = &request };
	struct tenant_info made = {};
	int r = api_call(&c->api, &call, &made, err);

	if (r < 0)
		return r;
	return ((const struct json_args *)args)->json ? print_json(&tenant_info_table, &made, err)
						      : print_id(&made.id, err);
}

const struct cmd cmd_tenant_create = {
	.name = "tenant create",
	.args = "[--json] NAME",
	.min = 1,
	.max = 1,
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "Make a tenant: somebody who has sandboxes of their own",
	.more = "Give it a key with cay key create --tenant NAME.",
	.run = cmd_tenant_create_run,
};

static int cmd_tenant_ls_add_cells(struct print_table *t, const void *row)
{
	const struct tenant_info *n = row;
	char id[ID_TEXT_LEN + 1], age[PRINT_AGE_MAX] = "-";

	id_format(&n->id, id);
	if (n->created_ns) /* the default tenant was always there */
		print_age_format(clk_wall_ns(&clk_system), n->created_ns, age);
	return print_table_add_cell(t, id) < 0 || print_table_add_cell(t, n->name) < 0 ||
			       print_table_add_cell(t, age) < 0
		       ? -ENOMEM
		       : 0;
}

static int cmd_tenant_ls_run(struct cli *c, const void *args, const struct opt_words *,
			     struct cay_err *err)
{
	static const struct list_spec kind = {
		.op = OP_TENANT_LIST,
		.list_member = "tenants",
		.row = &tenant_info_table,
		.headings = { "ID", "NAME", "AGE" },
		.columns = 3,
		.add_cells = cmd_tenant_ls_add_cells,
	};

	return list_print_all_pages(&c->api, &kind, ((const struct json_args *)args)->json, err);
}

const struct cmd cmd_tenant_ls = {
	.name = "tenant ls",
	.args = "[--json]",
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "List tenants",
	.run = cmd_tenant_ls_run,
};

static int cmd_tenant_rm_run(struct cli *c, const void *args, const struct opt_words *w,
			     struct cay_err *err)
{
	struct api_call call = { .op = OP_TENANT_DELETE };
	int r = api_find_tenant(&c->api, w->operands[0], &call.ids[0], err);

	return r < 0 ? r
		     : api_call_print(c, &call, &(struct tenant_info){},
				      ((const struct json_args *)args)->json, err);
}

const struct cmd cmd_tenant_rm = {
	.name = "tenant rm",
	.args = "[--json] NAME|ID",
	.operands = { OPERAND_TENANT },
	.min = 1,
	.max = 1,
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "Remove a tenant that has neither sandboxes nor keys",
	.run = cmd_tenant_rm_run,
};
