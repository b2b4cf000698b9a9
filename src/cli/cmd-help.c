/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/core/command.h"
#include "cli/print/pager.h"
#include "cli/print/print.h"

static int cmd_help_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	bool json = c->global.json;
	auto_buf out = BUF_INIT(KIB(256));
	const struct cmd *cmd = NULL;
	size_t used = 0;
	int r;

	if (w->n_operands) {
		cmd = cmd_find(w->operands, w->n_operands, &used);
		if (!cmd || used != w->n_operands) {
			auto_buf message = BUF_INIT(KIB(4)), hint = BUF_INIT(API_HINT_MAX - 1);

			r = cmd_describe_unknown(w->operands, w->n_operands, &message, &hint);
			api_hint_set(&c->api, r < 0 ? "" : buf_str(&hint));
			return cay_fail(err, CAY_E_INVALID, "%s", buf_str(&message));
		}
	}
	if (json)
		r = help_format_json(cmd, &out);
	else
		r = cmd ? help_format_command(cmd, &out) : help_format_list(&out);
	if (r < 0)
		return cay_no_memory(err);
	return json ? print_stdout(&out, err) : pager_show(&c->api, &out, err);
}

const struct cmd cmd_help = {
	CMD_USAGE("help", "[--json] [COMMAND]"),
	.needs = CMD_NEEDS_NOTHING,
	CMD_OPERANDS(0, 2, OPERAND_COMMAND, OPERAND_COMMAND),
	.help = "Show help for cay or a command",
	.run = cmd_help_run,
};

static int cmd_version_run(struct cli *c, const struct opt_words *, struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(1));
	struct jw w = jw_to(&out);
	auto_table t = print_table_create(1);
	struct cay_err quiet = {};
	struct health health = {};
	/* an edge returns the version only to a caller with a credential */
	bool there = api_call(&c->api, &(struct api_call){ .op = OP_SYSTEM_HEALTH }, &health,
			      &quiet) >= 0 &&
		     health.version;

	if (c->global.json) {
		jw_object_begin(&w, NULL);
		jw_str(&w, "cay", CAY_VERSION);
		if (there)
			jw_str(&w, "cayd", health.version);
		jw_end(&w);
		return print_json_finish(&w, &out, err);
	}
	print_table_add_cell(&t, "cay " CAY_VERSION);
	if (there)
		print_table_add_cellf(&t, "cayd %s", health.version);
	return print_table_stdout(&t, err);
}

const struct cmd cmd_version = {
	CMD_USAGE("version", "[--json]"),
	.ignores_settings_error = true,
	.help = "Print the version of cay, and of the daemon if it responds",
	.run = cmd_version_run,
};
