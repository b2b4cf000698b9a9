/* SPDX-License-Identifier: Apache-2.0 */
/* cmd-pull - images from registries, and registry credentials */
#include "cli/client/registry-auth.h"
#include "cli/core/command.h"
#include "cli/print/print.h"
#include "cli/print/progress.h"
#include "cli/print/pull-progress.h"

#define PASSWORD_MAX 4096

struct image_pull_args {
	struct image_pull request;
	const char *tenant, *registry_auth;
};

static const struct opt pull_rows[] = {
	{ "name", 0, OPT_TEXT, offsetof(struct image_pull_args, request.name), .arg = "NAME",
	  .help = "Name; by default the reference" },
	{ "tenant", 0, OPT_TEXT, offsetof(struct image_pull_args, tenant),
	  .operand = OPERAND_TENANT, .arg = "NAME|ID",
	  .help = "Tenant that owns it: only this tenant can use it" },
	{ "registry-auth", 0, OPT_TEXT, offsetof(struct image_pull_args, registry_auth),
	  .operand = OPERAND_FILE, .arg = "FILE",
	  .help = "File with USER:PASSWORD, for this pull only; - is stdin" },
};

static int cmd_image_pull_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct image_pull_args *a = c->args;
	struct image_pull request = a->request;
	struct api_call call = { .op = OP_IMAGE_PULL, .request = &request };
	struct image_info made = {};
	int r = a->tenant ? api_find_tenant(&c->api, a->tenant, &request.tenant, err) : 0;

	request.reference = w->operands[0];
	request.has_registry_auth = a->registry_auth;
	if (r >= 0 && a->registry_auth)
		r = registry_auth_read(a->registry_auth, &c->arena, &request.registry_auth, err);
	if (r >= 0)
		r = pull_progress_call(&c->api, &call, request.reference, &made, err);
	return r < 0 ? r : reply_print(c, call.op, &made, "id", err);
}

const struct cmd cmd_image_pull = {
	CMD_USAGE("image pull", "[OPTION]... HOST[:PORT]/PATH[:TAG|@DIGEST]"),
	CMD_OPERANDS(1, 1, OPERAND_FREE),
	CMD_OPTIONS(image_pull_args, OPTS(pull_rows, 0)),
	.help = "Pull an image from a registry",
	.run = cmd_image_pull_run,
};

static const struct opt prune_rows[] = {
	{ "unused", 0, OPT_DURATION, offsetof(struct image_prune, unused_ms), 0,
	  UINT64_C(315360000000), .arg = "TIME",
	  .help = "Only images unused for this long, e.g. 7d" },
};

static int cmd_image_prune_print(const void *reply, struct cay_err *err)
{
	const struct image_list *gone = reply;
	const struct image_info *rows = gone->images.v;
	auto_buf out = BUF_INIT(MIB(1));

	for (size_t i = 0; i < gone->images.n; i++)
		if (byte_size_format(rows[i].size_bytes, &out) < 0 ||
		    buf_printf(&out, "  %s\n", rows[i].name ? rows[i].name : rows[i].digest) < 0)
			return cay_no_memory(err);
	return print_stdout(&out, err);
}

const struct cmd cmd_image_prune = {
	CMD_USAGE("image prune", "[--unused TIME] [--json]"),
	CMD_OPTIONS(image_prune, OPTS(prune_rows, 0)),
	.help = "Remove unused images that were pulled by a create",
	.op = OP_IMAGE_PRUNE,
	.print = cmd_image_prune_print,
};

struct registry_args {
	const char *username, *tenant;
};

#define TENANT_ROW \
	{ "tenant", \
	  0, \
	  OPT_TEXT, \
	  offsetof(struct registry_args, tenant), \
	  .operand = OPERAND_TENANT, \
	  .arg = "NAME|ID", \
	  .help = "Tenant that they serve; by default every tenant" }

static const struct opt login_rows[] = {
	{ "username", 0, OPT_TEXT, offsetof(struct registry_args, username), .arg = "NAME",
	  .help = "User name at the registry" },
	TENANT_ROW,
};

static const struct opt logout_rows[] = { TENANT_ROW };

/* One line of standard input, without its end. */
static int cmd_image_login_read_password(char ret[static PASSWORD_MAX + 2], struct cay_err *err)
{
	size_t n = 0;

	while (n < PASSWORD_MAX + 1) {
		ssize_t got = read(STDIN_FILENO, ret + n, PASSWORD_MAX + 1 - n);

		if (got < 0)
			return cay_fail_sys(err, CAY_E_INVALID, errno, "read the password");
		if (got == 0)
			break;
		n += (size_t)got;
		if (memchr(ret, '\n', n))
			break;
	}
	ret[n] = 0;
	ret[strcspn(ret, "\r\n")] = 0;
	if (!ret[0] || n > PASSWORD_MAX)
		return cay_fail(err, CAY_E_INVALID,
				"image login: expected a password on standard input");
	return 0;
}

static int cmd_image_login_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	char password[PASSWORD_MAX + 2];
	const struct registry_args *a = c->args;
	struct registry_login request = { .registry = w->operands[0],
					  .username = a->username,
					  .password = password };
	struct api_call call = { .op = OP_REGISTRY_LOGIN, .request = &request };
	int r;

	if (!request.username)
		return cay_fail(err, CAY_E_INVALID, "image login: missing --username NAME");
	r = a->tenant ? api_find_tenant(&c->api, a->tenant, &request.tenant, err) : 0;
	if (r >= 0)
		r = cmd_image_login_read_password(password, err);
	if (r >= 0)
		r = api_call_print(c, &call, NULL, err);
	explicit_bzero(password, sizeof(password));
	return r;
}

const struct cmd cmd_image_login = {
	CMD_USAGE("image login", "--username NAME [--tenant NAME|ID] [--json] HOST[:PORT]"),
	CMD_OPERANDS(1, 1, OPERAND_FREE),
	CMD_OPTIONS(registry_args, OPTS(login_rows, 0)),
	.help = "Store registry credentials; read the password from stdin",
	.run = cmd_image_login_run,
};

static int cmd_image_logout_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct registry_args *a = c->args;
	struct registry_query query = { .registry = w->operands[0] };
	struct api_call call = { .op = OP_REGISTRY_LOGOUT, .query = &query };
	int r = a->tenant ? api_find_tenant(&c->api, a->tenant, &query.tenant, err) : 0;

	return r < 0 ? r : api_call_print(c, &call, NULL, err);
}

const struct cmd cmd_image_logout = {
	CMD_USAGE("image logout", "[--tenant NAME|ID] [--json] HOST[:PORT]"),
	CMD_OPERANDS(1, 1, OPERAND_FREE),
	CMD_OPTIONS(registry_args, OPTS(logout_rows, 0)),
	.help = "Delete the credentials of a registry",
	.run = cmd_image_logout_run,
};

static int cmd_image_logins_print(const void *reply, struct cay_err *err)
{
	const struct registry_list *list = reply;
	const struct registry *rows = list->registries.v;
	auto_table t = print_table_create(1);

	for (size_t i = 0; i < list->registries.n; i++) {
		char id[ID_TEXT_LEN + 1] = "";

		if (rows[i].tenant.noun != ID_NONE)
			id_format(&rows[i].tenant, id);
		print_table_add_cellf(&t, "%s  %s%s%s%s", rows[i].registry, rows[i].username,
				      id[0] ? "  " : "", id,
				      rows[i].unreadable ? "  cannot be opened; run 'cay image "
							   "login' again"
							 : "");
	}
	return print_table_stdout(&t, err);
}

const struct cmd cmd_image_logins = {
	CMD_USAGE("image logins", "[--json]"),
	.help = "List registries with stored credentials",
	.op = OP_REGISTRY_LIST,
	.print = cmd_image_logins_print,
};
