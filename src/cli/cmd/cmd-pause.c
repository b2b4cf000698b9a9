/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/command.h"

const struct cmd cmd_pause = {
	CMD_USAGE("pause", "[--json] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	.help = "Pause all processes of a sandbox",
	.more = "It keeps its memory and uses no CPU time. Its deadline still applies.",
	.op = OP_SANDBOX_PAUSE,
};

const struct cmd cmd_resume = {
	CMD_USAGE("resume", "[--json] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	.help = "Resume a paused sandbox",
	.op = OP_SANDBOX_RESUME,
};
