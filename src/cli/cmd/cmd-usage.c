/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/list.h"

struct usage_args {
	unsigned by; /* USAGE_NUM_BY: one sandbox */
	const char *group;
};

static const struct opt rows[] = {
	{ "by", 0, OPT_CHOICE, offsetof(struct usage_args, by), .table = &usage_list_query_table,
	  .member = "by", .arg = "WHAT", .help = "Sum up by tenant, or by the values of a label" },
	{ "group", 0, OPT_TEXT, offsetof(struct usage_args, group), .operand = OPERAND_GROUP,
	  .arg = "NAME", .help = "With --by: only sandboxes of this group" },
};

static int usage_row_format_cpu(const void *row, struct buf *out)
{
	const struct usage_row *u = row;

	return buf_printf(out, "%llu.%llu s", (unsigned long long)(u->cpu_ms / 1000),
			  (unsigned long long)(u->cpu_ms / 100 % 10));
}

#define COLUMNS(heading, member) \
	{ \
		{ heading, member }, \
		{ "SANDBOXES", "sandboxes" }, \
		{ "ENDED", "ended" }, \
		{ "CPU", NULL, AS_VALUE, usage_row_format_cpu }, \
		{ "MEMORY", "memory_bytes", AS_SIZE }, \
		{ "MEMORY LIMITS", "memory_limit_bytes", AS_SIZE }, \
		{ "PROCESSES", "processes" }, \
		{ "DISK", "disk_bytes", AS_SIZE }, \
		COLUMNS_END, \
	}

static const struct column tenant_columns[] = COLUMNS("TENANT", "name");
static const struct column value_columns[] = COLUMNS("VALUE", "value");

static int cmd_usage_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct usage_args *a = c->args;
	struct usage_list_query query = { .by = a->by, .group = a->group };
	struct api_call call = { .op = OP_TENANT_USAGE, .query = &query };

	if (a->by == USAGE_NUM_BY && !w->n_operands)
		return cay_fail(err, CAY_E_INVALID,
				"usage: give a sandbox, or --by tenant, or --by label and a label");
	if (a->by == USAGE_NUM_BY && a->group)
		return cay_fail(err, CAY_E_INVALID, "usage: --group can only be used with --by");
	if (a->by == USAGE_NUM_BY)
		return sandbox_usage_print(c, w->operands[0], err);
	if (a->by == USAGE_BY_TENANT && w->n_operands)
		return cay_fail(err, CAY_E_INVALID, "usage: --by tenant takes no other word");
	if (a->by == USAGE_BY_LABEL && !w->n_operands)
		return cay_fail(err, CAY_E_INVALID,
				"usage: --by label needs the name of a label, such as team");
	query.label = a->by == USAGE_BY_LABEL ? w->operands[0] : NULL;
	return list_print(c, &call, query.label ? value_columns : tenant_columns, NULL, NULL, err);
}

const struct cmd cmd_usage = {
	CMD_USAGE("usage", "[--by tenant | --by label] [--group NAME] [--json] [SANDBOX|LABEL]"),
	CMD_OPERANDS(0, 1, OPERAND_SANDBOX),
	CMD_OPTIONS(usage_args, OPTS(rows, 0)),
	.defaults = &(const struct usage_args){ .by = USAGE_NUM_BY },
	.help = "Show resource usage and limits of a sandbox, or of all by tenant or label",
	.more = "With --by tenant an operator gets a row for every tenant, any other key its own. "
		"With --by label and the name of a label, the sandboxes of your tenant are summed "
		"up by their values of that label. CPU time includes ended sandboxes whose records "
		"are kept.",
	.run = cmd_usage_run,
};
