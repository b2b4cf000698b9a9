/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/list.h"

const struct cmd cmd_tenant_create = {
	CMD_USAGE("tenant create", "[--json] NAME"),
	CMD_OPERANDS(1, 1, OPERAND_FREE),
	.help = "Create a tenant",
	.more = "Create a key for it with 'cay key create --tenant NAME'.",
	.size = sizeof(struct tenant_create),
	.operand_at = { OPERAND_AT(tenant_create, name) },
	.op = OP_TENANT_CREATE,
	.prints = "id",
};

const struct cmd cmd_tenant_ls = {
	CMD_USAGE("tenant ls", "[--json]"),
	.help = "List tenants",
	.op = OP_TENANT_LIST,
	/* the default tenant has no age */
	CMD_COLUMNS({ "ID", "id" }, { "NAME", "name" }, { "AGE", "created_at", AS_AGE }),
};

const struct cmd cmd_tenant_rm = {
	CMD_USAGE("tenant rm", "[--json] NAME|ID"),
	CMD_OPERANDS(1, 1, OPERAND_TENANT),
	.help = "Delete a tenant that has no sandboxes and no keys",
	.op = OP_TENANT_DELETE,
};
