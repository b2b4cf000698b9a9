/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/command.h"

const struct cmd cmd_pause = {
	.name = "pause",
	.args = "[--json] SANDBOX",
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	.json = true,
	.help = "Freeze every process of a sandbox",
	.more = "It keeps its memory and uses no CPU time; its deadline comes nearer all the same.",
	.op = OP_SANDBOX_PAUSE,
};

const struct cmd cmd_resume = {
	.name = "resume",
	.args = "[--json] SANDBOX",
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	.json = true,
	.help = "Let a paused sandbox go on",
	.op = OP_SANDBOX_RESUME,
};
