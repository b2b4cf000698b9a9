/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "cli/core/command.h"
#include "cli/print/print.h"
#include "cli/setup/secret-file.h"

#define TTL_MAX_MS UINT64_C(86400000)

struct token_args {
	struct token_create request;
	const char *out; /* or NULL: standard output */
};

static const struct opt rows[] = {
	{ "scope", 0, OPT_CHOICE, offsetof(struct token_args, request.scope),
	  .table = &token_create_table, .member = "scope", .arg = "read|write",
	  .help = "What it may do; read by default" },
	{ "ttl", 0, OPT_DURATION, offsetof(struct token_args, request.ttl_ms), 1000, TTL_MAX_MS,
	  .arg = "TIME", .help = "Lifetime, e.g. 10m; by default an hour, at most a day" },
	{ "out", 0, OPT_TEXT, offsetof(struct token_args, out), .operand = OPERAND_FILE,
	  .arg = "FILE", .help = "Write the token to FILE (mode 0600); print its expiry" },
};

static int cmd_token_deliver(struct cli *c, const struct secret_file *to,
			     const struct token_made *made, struct cay_err *err)
{
	char until[CLK_TEXT_LEN + 1];
	int r;

	if (to->dir < 0)
		return reply_print(c, OP_SANDBOX_TOKEN, made, "token", err);
	r = secret_file_write(to, made->token, err);
	clk_format_rfc3339(made->expires_ns, until);
	return r < 0 ? r : print_line(err, "%s", until);
}

static int cmd_token_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct token_args *a = c->args;
	struct api_call call = { .op = OP_SANDBOX_TOKEN, .request = &a->request };
	struct token_made made = {};
	struct secret_file to = { -EBADF, NULL };
	int r;

	if (a->out && c->global.json)
		return cay_fail(err, CAY_E_INVALID, "token: --out and --json cannot be combined");
	r = secret_file_open(&c->arena, a->out, &to, err);
	if (r >= 0)
		r = api_find_sandbox(&c->api, w->operands[0], &call.ids[0], err);
	if (r >= 0)
		r = api_call(&c->api, &call, &made, err);
	if (r >= 0)
		r = cmd_token_deliver(c, &to, &made, err);
	secret_file_close(&to);
	return r;
}

const struct cmd cmd_token = {
	CMD_USAGE("token", "[OPTION...] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	CMD_OPTIONS(token_args, OPTS(rows, 0)),
	.defaults = &(const struct token_args){ .request = { .ttl_ms = 3600000 } },
	.help = "Create a token for one sandbox and print it",
	.more = "The token gives a program access to this sandbox only. The program sends it as "
		"'Authorization: Bearer', or 'cay context add' stores it; the sandbox is then "
		"named by its id. 'cay revoke' revokes the token.",
	.run = cmd_token_run,
};

const struct cmd cmd_revoke = {
	CMD_USAGE("revoke", "[--json] SANDBOX [URL | TOKEN]"),
	CMD_OPERANDS(1, 2, OPERAND_SANDBOX),
	.help = "Revoke one or all links, exports, previews and tokens of a sandbox",
	.more = "With the URL or the token only that one is revoked; without it, every link, "
		"export, preview and token created so far. New requests are refused immediately "
		"and "
		"running ones are cut off within seconds. API keys stay valid.",
	.size = sizeof(struct sandbox_revoke),
	.operand_at = { 0, OPERAND_AT(sandbox_revoke, link) },
	.op = OP_SANDBOX_REVOKE,
};
