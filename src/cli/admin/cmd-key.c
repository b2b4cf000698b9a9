/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "cli/print/list.h"
#include "cli/setup/secret-file.h"

#define TTL_MAX_MS UINT64_C(315576000000)
#define OVERLAP_MAX_MS UINT64_C(86400000)

static const struct opt out_rows[] = {
	{ "out", 0, OPT_TEXT, 0, .operand = OPERAND_FILE, .arg = "FILE",
	  .help = "Write the secret to FILE (mode 0600); print only the prefix" },
};

static int cmd_key_print_secret(const struct key_made *made, bool json, struct cay_err *err)
{
	int r = json ? print_json(&key_made_table, made, err) : print_line(err, "%s", made->secret);

	if (r >= 0)
		print_note("save this key now: it will not be shown again");
	return r;
}

static int cmd_key_deliver_secret(const struct secret_file *to, const struct key_made *made,
				  bool json, struct cay_err *err)
{
	struct cay_err why = {};
	int r;

	if (to->dir < 0)
		return cmd_key_print_secret(made, json, err);
	r = secret_file_write(to, made->secret, &why);
	if (r < 0) { /* no other copy of the secret exists */
		(void)cmd_key_print_secret(made, json, err);
		*err = why;
		return r;
	}
	return json ? print_json(&key_info_table, &made->key, err)
		    : print_line(err, "%s", made->key.prefix);
}

static int cmd_key_issue_secret(struct cli *c, const struct api_call *call, const char *out,
				struct cay_err *err)
{
	struct key_made made = {};
	struct secret_file to;
	int r = secret_file_open(&c->arena, out, &to, err);

	if (r >= 0)
		r = api_call(&c->api, call, &made, err);
	if (r >= 0)
		r = cmd_key_deliver_secret(&to, &made, c->global.json, err);
	secret_file_close(&to);
	return r;
}

struct key_create_args {
	struct key_create request;
	const char *tenant;
	const char *out; /* where the secret goes; NULL: standard output */
};

static const struct opt create_rows[] = {
	{ "tenant", 0, OPT_TEXT, offsetof(struct key_create_args, tenant),
	  .operand = OPERAND_TENANT, .arg = "NAME|ID",
	  .help = "Tenant that owns it; by default the default tenant" },
	{ "scope", 0, OPT_CHOICE, offsetof(struct key_create_args, request.scope),
	  .table = &key_create_table, .member = "scope", .arg = "read|write|operator",
	  .help = "What it may do; write by default" },
	{ "group", 0, OPT_TEXT, offsetof(struct key_create_args, request.group), .arg = "NAME",
	  .help = "Bind it to a group: it has that group's sandboxes and uploads only" },
	{ "ttl", 0, OPT_DURATION, offsetof(struct key_create_args, request.ttl_ms), 1000,
	  TTL_MAX_MS, .arg = "TIME", .help = "Lifetime, e.g. 30d; by default until it is revoked" },
};

static int cmd_key_create_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct key_create_args *a = c->args;
	struct key_create request = a->request;
	int r = api_find_tenant(&c->api, a->tenant ? a->tenant : "default", &request.tenant, err);

	request.name = w->operands[0];
	request.has_ttl = request.ttl_ms > 0;
	return r < 0 ? r
		     : cmd_key_issue_secret(
			       c, &(struct api_call){ .op = OP_KEY_CREATE, .request = &request },
			       a->out, err);
}

const struct cmd cmd_key_create = {
	CMD_USAGE("key create", "[OPTION]... NAME"),
	CMD_OPERANDS(1, 1, OPERAND_FREE),
	CMD_OPTIONS(key_create_args, OPTS(create_rows, 0),
		    OPTS(out_rows, offsetof(struct key_create_args, out))),
	.defaults = &(const struct key_create_args){ .request = { .scope = KEY_WRITE } },
	.help = "Create an API key and print its secret once",
	.more = "Programs send the secret as 'Authorization: Bearer'. Cay stores only its hash.",
	.run = cmd_key_create_run,
};

static int cmd_key_ls_format_state(const void *row, struct buf *out)
{
	const struct key_info *k = row;

	if (k->revoked)
		return buf_puts(out, "revoked");
	return buf_puts(out, k->has_expires && k->expires_ns <= clk_wall_ns(&clk_system) ? "expired"
											 : "good");
}

static int cmd_key_ls_format_left(const void *row, struct buf *out)
{
	const struct key_info *k = row;
	uint64_t now = clk_wall_ns(&clk_system);
	char left[PRINT_AGE_MAX];

	if (!k->has_expires || k->revoked || k->expires_ns <= now)
		return 1;
	print_age_format(k->expires_ns, now, left);
	return buf_puts(out, left);
}

const struct cmd cmd_key_ls = {
	CMD_USAGE("key ls", "[--json]"),
	.help = "List API keys of all tenants, without their secrets",
	.op = OP_KEY_LIST,
	CMD_COLUMNS({ "PREFIX", "prefix" }, { "NAME", "name" }, { "TENANT", "tenant" },
		    { "SCOPE", "scope" }, { "STATE", .format = cmd_key_ls_format_state },
		    { "AGE", "created_at", AS_AGE }, { "USED", "last_used_at", AS_AGE },
		    { "LEFT", .format = cmd_key_ls_format_left }),
};

const struct cmd cmd_key_revoke = {
	CMD_USAGE("key revoke", "[--json] PREFIX|ID"),
	CMD_OPERANDS(1, 1, OPERAND_KEY),
	.help = "Revoke an API key permanently",
	.op = OP_KEY_REVOKE,
};

struct key_rotate_args {
	struct key_rotate request;
	const char *out; /* where the secret goes; NULL: standard output */
};

static const struct opt rotate_rows[] = {
	{ "overlap", 0, OPT_DURATION, offsetof(struct key_rotate_args, request.overlap_ms), 0,
	  OVERLAP_MAX_MS, .arg = "TIME",
	  .help = "How long the old secret stays valid, e.g. 1h; at most a day" },
};

static int cmd_key_rotate_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct key_rotate_args *a = c->args;
	struct api_call call = { .op = OP_KEY_ROTATE, .request = &a->request };
	int r = api_find_key(&c->api, w->operands[0], &call.ids[0], err);

	return r < 0 ? r : cmd_key_issue_secret(c, &call, a->out, err);
}

const struct cmd cmd_key_rotate = {
	CMD_USAGE("key rotate", "[OPTION]... PREFIX|ID"),
	CMD_OPERANDS(1, 1, OPERAND_KEY),
	CMD_OPTIONS(key_rotate_args, OPTS(rotate_rows, 0),
		    OPTS(out_rows, offsetof(struct key_rotate_args, out))),
	.help = "Give an API key a new secret and print it once",
	.more = "Without --overlap the old secret is invalid immediately.",
	.run = cmd_key_rotate_run,
};
