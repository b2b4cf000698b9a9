/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/command.h"

static const struct opt_group options[] = { OPTS(opts_json, 0), OPTS_END };

static int cmd_revoke_run(struct cli *c, const void *args, const struct opt_words *w,
			  struct cay_err *err)
{
	struct sandbox_revoke request = { .link = w->n_operands > 1 ? w->operands[1] : NULL };
	struct api_call call = { .op = OP_SANDBOX_REVOKE, .request = &request };
	struct sandbox_info now = {};
	int r = api_find_sandbox(&c->api, w->operands[0], &call.ids[0], err);

	if (r >= 0)
		r = api_call(&c->api, &call, &now, err);
	if (r < 0 || !((const struct json_args *)args)->json)
		return r;
	return print_json(&sandbox_info_table, &now, err);
}

const struct cmd cmd_revoke = {
	.name = "revoke",
	.args = "[--json] SANDBOX [URL | TOKEN]",
	.operands = { OPERAND_SANDBOX },
	.min = 1,
	.max = 2,
	.options = options,
	.size = sizeof(struct json_args),
	.help = "Take back a link, a preview or a token of a sandbox, or all there are",
	.more = "With the URL that was handed out, or the token, it is that one; without, it is "
		"every link, preview and token made so far. New requests with it are refused at "
		"once, those under way are cut off within seconds. Keys are not touched.",
	.run = cmd_revoke_run,
};
