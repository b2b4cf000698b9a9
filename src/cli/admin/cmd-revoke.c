/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/command.h"

const struct cmd cmd_revoke = {
	.name = "revoke",
	.args = "[--json] SANDBOX [URL | TOKEN]",
	CMD_OPERANDS(1, 2, OPERAND_SANDBOX),
	.json = true,
	.help = "Take back a link, a preview or a token of a sandbox, or all there are",
	.more = "With the URL that was handed out, or the token, it is that one; without, it is "
		"every link, preview and token made so far. New requests with it are refused at "
		"once, those under way are cut off within seconds. Keys are not touched.",
	.size = sizeof(struct sandbox_revoke),
	.operand_at = { 0, OPERAND_AT(sandbox_revoke, link) },
	.op = OP_SANDBOX_REVOKE,
};
