/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/list.h"

static bool cmd_pool_ls_row_has_pool(const void *row)
{
	return ((const struct template_info *)row)->has_pool;
}

static int cmd_pool_ls_format_max(const void *row, struct buf *out)
{
	unsigned long long max = ((const struct template_info *)row)->pool.max;

	return max ? buf_printf(out, "%llu", max) : 1;
}

const struct cmd cmd_pool_ls = {
	CMD_USAGE("pool ls", "[--json]"),
	.help = "List warm pools: their settings, sandboxes and claims",
	.more = "CLAIMED and FAILED count from the start of the daemon. 'cay template pool' "
		"changes a pool.",
	.op = OP_TEMPLATE_LIST,
	CMD_COLUMNS({ "TEMPLATE", "name" }, { "MIN", "pool.min" },
		    { "MAX", .format = cmd_pool_ls_format_max }, { "WARM", "pool_now.warm" },
		    { "STARTING", "pool_now.starting" }, { "IN USE", "pool_now.in_use" },
		    { "CLAIMED", "pool_now.claimed" }, { "FAILED", "pool_now.failed" },
		    { "ON-EMPTY", "pool.on_empty" }),
	.wanted = cmd_pool_ls_row_has_pool,
};
