/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/command.h"

static const struct opt_group options[] = { OPTS(opts_json, 0), OPTS_END };

static int cmd_pause_change_state(struct cli *c, enum op_id op, const void *args,
				  const struct opt_words *w, struct cay_err *err)
{
	struct sandbox_info now = {};
	struct id id;
	int r = api_find_sandbox(&c->api, w->operands[0], &id, err);

	if (r >= 0)
		r = api_call(&c->api, &(struct api_call){ .op = op, .ids = { id } }, &now, err);
	if (r < 0 || !((const struct json_args *)args)->json)
		return r;
	return print_json(&sandbox_info_table, &now, err);
}

static int cmd_pause_run(struct cli *c, const void *args, const struct opt_words *w,
			 struct cay_err *err)
{
	return cmd_pause_change_state(c, OP_SANDBOX_PAUSE, args, w, err);
}

static int cmd_resume_run(struct cli *c, const void *args, const struct opt_words *w,
			  struct cay_err *err)
{
	return cmd_pause_change_state(c, OP_SANDBOX_RESUME, args, w, err);
}

const struct cmd cmd_pause = {
	.name = "pause",
	.args = "[--json] SANDBOX",
	.operands = { OPERAND_SANDBOX },
	.min = 1,
	.max = 1,
	.options = options,
	.size = sizeof(struct json_args),
	.help = "Freeze every process of a sandbox",
	.more = "It keeps its memory and uses no CPU time; its deadline comes nearer all the same.",
	.run = cmd_pause_run,
};

const struct cmd cmd_resume = {
	.name = "resume",
	.args = "[--json] SANDBOX",
	.operands = { OPERAND_SANDBOX },
	.min = 1,
	.max = 1,
	.options = options,
	.size = sizeof(struct json_args),
	.help = "Let a paused sandbox go on",
	.run = cmd_resume_run,
};
