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
