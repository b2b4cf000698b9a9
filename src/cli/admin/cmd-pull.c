/* SPDX-License-Identifier: Apache-2.0 */
/* cmd-pull - images from registries, and credentials for those */
#include "cli/core/command.h"
#include "cli/print/print.h"
#include "cli/print/progress.h"
#include "cli/print/pull-progress.h"

#define PASSWORD_MAX 4096

struct pull_args {
	const char *name;
	struct json_args json;
};

static const struct opt pull_rows[] = {
	{ "name", 0, OPT_TEXT, offsetof(struct pull_args, name), .arg = "NAME",
	  .help = "What to call it; without, it is called by its reference" },
};
static const struct opt_group pull_options[] = { OPTS(pull_rows, 0), OPTS_JSON(pull_args, json),
						 OPTS_END };

static int cmd_image_pull_run(struct cli *c, const void *args, const struct opt_words *w,
			      struct cay_err *err)
{
	const struct pull_args *a = args;
	struct image_pull request = { .reference = w->operands[0], .name = a->name };
	struct api_call call = { .op = OP_IMAGE_PULL, .request = &request };
	struct image_info made = {};
	int r = pull_progress_call(&c->api, &call, request.reference, &made, err);

	if (r < 0)
		return r;
	return a->json.json ? print_json(&image_info_table, &made, err) : print_id(&made.id, err);
}

const struct cmd cmd_image_pull = {
	.name = "image pull",
	.args = "[--name NAME] [--json] HOST[:PORT]/PATH[:TAG|@DIGEST]",
	.min = 1,
	.max = 1,
	.options = pull_options,
	.size = sizeof(struct pull_args),
	.help = "Pull an image from a registry that images.registries of cay.conf names",
	.run = cmd_image_pull_run,
};

struct prune_args {
	struct image_prune request;
	struct json_args json;
};

static const struct opt prune_rows[] = {
	{ "unused", 0, OPT_DURATION, offsetof(struct prune_args, request.unused_ms), 0,
	  UINT64_C(315360000000), .arg = "TIME",
	  .help = "Only those nobody has used for so long, as in 7d" },
};
static const struct opt_group prune_options[] = { OPTS(prune_rows, 0), OPTS_JSON(prune_args, json),
						  OPTS_END };

static int cmd_image_prune_run(struct cli *c, const void *args, const struct opt_words *,
			       struct cay_err *err)
{
	const struct prune_args *a = args;
	struct api_call call = { .op = OP_IMAGE_PRUNE, .request = &a->request };
	struct image_list gone = {};
	const struct image_info *rows;
	auto_buf out = BUF_INIT(MIB(1));
	int r = api_call(&c->api, &call, &gone, err);

	if (r < 0)
		return r;
	if (a->json.json)
		return print_json(&image_list_table, &gone, err);
	rows = gone.images.v;
	for (size_t i = 0; i < gone.images.n; i++)
		if (byte_size_format(rows[i].size_bytes, &out) < 0 ||
		    buf_printf(&out, "  %s\n", rows[i].name ? rows[i].name : rows[i].digest) < 0)
			return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	return print_stdout(&out, err);
}

const struct cmd cmd_image_prune = {
	.name = "image prune",
	.args = "[--unused TIME] [--json]",
	.options = prune_options,
	.size = sizeof(struct prune_args),
	.help = "Remove images that creates pulled and nobody uses",
	.run = cmd_image_prune_run,
};

static const struct opt_group json_options[] = { OPTS(opts_json, 0), OPTS_END };

struct image_login_args {
	const char *username;
	struct json_args json;
};

static const struct opt login_rows[] = {
	{ "username", 0, OPT_TEXT, offsetof(struct image_login_args, username), .arg = "NAME",
	  .help = "Who it is told we are" },
};
static const struct opt_group login_options[] = {
	OPTS(login_rows, 0),
	OPTS_JSON(image_login_args, json),
	OPTS_END,
};

/* A line, or all there is; the end of the line is not part of it. */
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
				"image login: the password is read from standard input");
	return 0;
}

static int cmd_image_login_run(struct cli *c, const void *args, const struct opt_words *w,
			       struct cay_err *err)
{
	const struct image_login_args *a = args;
	char password[PASSWORD_MAX + 2];
	struct registry_login request = { w->operands[0], a->username, password };
	struct api_call call = { .op = OP_REGISTRY_LOGIN, .request = &request };
	int r;

	if (!a->username)
		return cay_fail(err, CAY_E_INVALID, "image login: say --username NAME");
	r = cmd_image_login_read_password(password, err);
	if (r >= 0)
		r = api_call_print(c, &call, &(struct registry){}, a->json.json, err);
	explicit_bzero(password, sizeof(password));
	return r;
}

const struct cmd cmd_image_login = {
	.name = "image login",
	.args = "--username NAME [--json] HOST[:PORT]",
	.min = 1,
	.max = 1,
	.options = login_options,
	.size = sizeof(struct image_login_args),
	.help = "Keep the credentials of a registry; the password is read from standard input",
	.run = cmd_image_login_run,
};

static int cmd_image_logout_run(struct cli *c, const void *args, const struct opt_words *w,
				struct cay_err *err)
{
	struct registry_query query = { w->operands[0] };
	struct api_call call = { .op = OP_REGISTRY_LOGOUT, .query = &query };

	return api_call_print(c, &call, &(struct registry){},
			      ((const struct json_args *)args)->json, err);
}

const struct cmd cmd_image_logout = {
	.name = "image logout",
	.args = "[--json] HOST[:PORT]",
	.min = 1,
	.max = 1,
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "Forget the credentials of a registry",
	.run = cmd_image_logout_run,
};

static int cmd_image_logins_run(struct cli *c, const void *args, const struct opt_words *,
				struct cay_err *err)
{
	const bool json = ((const struct json_args *)args)->json;
	struct registry_list list = {};
	const struct registry *rows;
	auto_buf out = BUF_INIT(KIB(64));
	int r = api_call(&c->api, &(struct api_call){ .op = OP_REGISTRY_LIST }, &list, err);

	if (r < 0)
		return r;
	if (json)
		return print_json(&registry_list_table, &list, err);
	rows = list.registries.v;
	for (size_t i = 0; i < list.registries.n; i++)
		if (buf_printf(&out, "%s  %s\n", rows[i].registry, rows[i].username) < 0)
			return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	return print_stdout(&out, err);
}

const struct cmd cmd_image_logins = {
	.name = "image logins",
	.args = "[--json]",
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "List registries that there are credentials for",
	.run = cmd_image_logins_run,
};
