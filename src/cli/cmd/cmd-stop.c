/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/command.h"

const struct cmd cmd_stop = {
	CMD_USAGE("stop", "[--json] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	.help = "Stop a sandbox: end its processes and keep its files",
	.more = "It keeps its id, name, labels, limits and egress policy, and uses no memory and "
		"no "
		"CPU time. Its deadline stands still. 'cay start' starts it again, also after a "
		"restart of the machine.",
	.op = OP_SANDBOX_STOP,
};

const struct cmd cmd_start = {
	CMD_USAGE("start", "[--json] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	.help = "Start a stopped sandbox from its files",
	.more = "Its services and its entrypoint start again; commands that ran before do not.",
	.op = OP_SANDBOX_START,
};

static int cmd_rollback_prepare(struct cli *c, void *args, const struct opt_words *w,
				struct api_call *, struct cay_err *err)
{
	struct sandbox_rollback *q = args;

	return api_find_snapshot(&c->api, w->operands[1], &q->snapshot, err);
}

const struct cmd cmd_rollback = {
	CMD_USAGE("rollback", "[--json] SANDBOX SNAPSHOT"),
	CMD_OPERANDS(2, 2, OPERAND_SANDBOX, OPERAND_SNAPSHOT),
	.help = "Give a sandbox the files of one of its snapshots",
	.more = "What it wrote since then is lost, and its processes end. One that runs starts "
		"again, with its services and its entrypoint; a stopped one stays stopped.",
	.op = OP_SANDBOX_ROLLBACK,
	.prepare = cmd_rollback_prepare,
	.size = sizeof(struct sandbox_rollback),
};
