/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/command.h"

const struct cmd cmd_revoke = {
	CMD_USAGE("revoke", "[--json] SANDBOX [URL | TOKEN]"),
	CMD_OPERANDS(1, 2, OPERAND_SANDBOX),
	.help = "Revoke one or all links, previews and tokens of a sandbox",
	.more = "With the URL or the token only that one is revoked; without it, every link, "
		"preview and token created so far. New requests are refused immediately and "
		"running ones are cut off within seconds. API keys stay valid.",
	.size = sizeof(struct sandbox_revoke),
	.operand_at = { 0, OPERAND_AT(sandbox_revoke, link) },
	.op = OP_SANDBOX_REVOKE,
};
