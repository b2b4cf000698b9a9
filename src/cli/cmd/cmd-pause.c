/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/command.h"

const struct cmd cmd_pause = {
	.name = "pause",
	.args = "[--json] SANDBOX",
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	.json = true,
	.help = "Pause all processes of a sandbox",
	.more = "It keeps its memory and uses no CPU time. Its deadline still applies.",
	.op = OP_SANDBOX_PAUSE,
};

const struct cmd cmd_resume = {
	.name = "resume",
	.args = "[--json] SANDBOX",
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	.json = true,
	.help = "Resume a paused sandbox",
	.op = OP_SANDBOX_RESUME,
};
