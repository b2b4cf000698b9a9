/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/list.h"
#include "cli/transfer/file-names.h"

struct ls_args {
	bool all;
	unsigned state; /* SB_NUM_STATES: any that has not ended */
	const char *group, *label, *tenant;
};

#define AT(m) offsetof(struct ls_args, m)

static const struct opt rows[] = {
	{ "all", 'a', OPT_FLAG, AT(all), .help = "Include ended sandboxes" },
	{ "state", 0, OPT_CHOICE, AT(state), .table = &sandbox_info_table, .member = "state",
	  .arg = "STATE", .help = "Only sandboxes in this state, e.g. paused or failed" },
	{ "group", 0, OPT_TEXT, AT(group), .operand = OPERAND_GROUP, .arg = "NAME",
	  .help = "Only this group" },
	{ "label", 0, OPT_TEXT, AT(label), .arg = "LABELS",
	  .help = "Only sandboxes with these labels, as in team=blue,run" },
	{ "tenant", 0, OPT_TEXT, AT(tenant), .operand = OPERAND_TENANT, .arg = "NAME|ID",
	  .help = "Sandboxes of this tenant; for an operator, who can remove them by id" },
};

static const struct column columns[] = {
	{ "ID", "id" },
	{ "NAME", "name" },
	{ "IMAGE", "image" },
	{ "STATE", "state" },
	{ "AGE", "created_at", AS_AGE },
	{ "EXPIRES", "expires_at", AS_LEFT },
	COLUMNS_END,
};

static int cmd_ls_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct ls_args *a = c->args;
	struct sandbox_query which = { .group = a->group, .label = a->label };
	if (w->n_operands &&
	    (a->all || a->state != SB_NUM_STATES || a->group || a->label || a->tenant))
		return cay_fail(err, CAY_E_INVALID, "ls: only --json can be used with NAME:PATH");
	if (w->n_operands)
		return file_names_print_dir(c, w->operands[0], c->global.json, err);
	if (a->all && a->state != SB_NUM_STATES)
		return cay_fail(err, CAY_E_INVALID, "ls: --all and --state cannot be combined");
	if (a->state != SB_NUM_STATES)
		which.state = sandbox_state_names[a->state];
	else if (!a->all)
		which.state = "live";
	if (a->tenant) {
		int r = api_find_tenant(&c->api, a->tenant, &which.tenant, err);

		if (r < 0)
			return r;
	}
	return list_print(c, &(struct api_call){ .op = OP_SANDBOX_LIST, .query = &which }, columns,
			  NULL, NULL, err);
}

const struct cmd cmd_ls = {
	CMD_USAGE("ls", "[OPTION...] [NAME:PATH]"),
	CMD_OPERANDS(0, 1, OPERAND_LOCAL_OR_REMOTE_PATH),
	CMD_OPTIONS(ls_args, OPTS(rows, 0)),
	.defaults = &(const struct ls_args){ .state = SB_NUM_STATES },
	.help = "List sandboxes (newest first), or files in a sandbox",
	.run = cmd_ls_run,
};
