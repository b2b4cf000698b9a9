/* SPDX-License-Identifier: Apache-2.0 */
/* cmd-upload - files of a group, stored outside its sandboxes */
#include <fcntl.h>
#include <sys/stat.h>

#include "cli/print/list.h"

#define FILES_MAX 1000

static const struct opt group_rows[] = {
	{ "group", 0, OPT_TEXT, 0, .operand = OPERAND_GROUP, .arg = "NAME",
	  .help = "Group of the files (required)" },
};
static const struct opt name_rows[] = {
	{ "name", 0, OPT_TEXT, offsetof(struct upload_put_query, name), .arg = "NAME",
	  .help = "Name; by default the last part of the path" },
};

static int cmd_upload_check_group(const char *group, struct cay_err *err)
{
	return group ? 0 : cay_fail(err, CAY_E_INVALID, "upload: missing --group NAME");
}

static int cmd_upload_add_file(struct cli *c, const struct upload_put_query *a, const char *path,
			       struct upload_info *ret, struct cay_err *err)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	const char *slash = strrchr(path, '/');
	struct upload_put_query query = { .group = a->group,
					  .name = a->name ? a->name
						  : slash ? slash + 1
							  : path };
	struct api_call call = { .op = OP_UPLOAD_PUT,
				 .query = &query,
				 .content_type = "application/octet-stream",
				 .body_length = HTTP_CLIENT_CHUNKED };
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "open '%s'", path);
	if (!S_ISREG(st.st_mode))
		return cay_fail(err, CAY_E_INVALID, "'%s' is not a regular file", path);
	/* the server refuses a file that changes size while it is sent */
	query.has_size = true;
	query.size = (uint64_t)st.st_size;
	r = file_content_send(c, &call, fd, query.size, ret, err);
	return r < 0 ? cay_err_wrap(err, r, "%s", path) : 0;
}

static int cmd_upload_rm_file(struct cli *c, const struct upload_put_query *a, const char *name,
			      struct upload_info *ret, struct cay_err *err)
{
	struct upload_query query = { .group = a->group, .name = name };
	int r = api_call(&c->api, &(struct api_call){ .op = OP_UPLOAD_DELETE, .query = &query },
			 ret, err);

	return r < 0 ? cay_err_wrap(err, r, "%s", name) : 0;
}

typedef int each_fn(struct cli *c, const struct upload_put_query *a, const char *word,
		    struct upload_info *ret, struct cay_err *err);

/* Stops at the first failure; the completed ones are printed. */
static int cmd_upload_for_each_operand(struct cli *c, const struct upload_put_query *a,
				       const struct opt_words *w, each_fn *fn, struct cay_err *err)
{
	struct upload_info *rows = arena_alloc(&c->arena, w->n_operands, sizeof(*rows));
	struct upload_list list = { .uploads = { rows, 0 } };
	struct cay_err why = {};
	int r = cmd_upload_check_group(a->group, err), told = 0;

	if (r >= 0 && !rows)
		r = cay_no_memory(err);
	for (size_t i = 0; r >= 0 && i < w->n_operands; i++) {
		r = fn(c, a, w->operands[i], &rows[i], err);
		list.uploads.n += r >= 0;
	}
	if (c->global.json && list.uploads.n)
		told = print_json(&upload_list_table, &list, r < 0 ? &why : err);
	return r < 0 ? r : told;
}

static int cmd_upload_add_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct upload_put_query *a = c->args;

	if (a->name && w->n_operands > 1)
		return cay_fail(err, CAY_E_INVALID,
				"upload add: --name can only be used with one file");
	return cmd_upload_for_each_operand(c, a, w, cmd_upload_add_file, err);
}

const struct cmd cmd_upload_add = {
	CMD_USAGE("upload add", "--group NAME [--name NAME] [--json] FILE..."),
	CMD_OPERANDS(1, FILES_MAX, OPERAND_FILE, OPERAND_FILE),
	CMD_OPTIONS(upload_put_query, OPTS(group_rows, offsetof(struct upload_put_query, group)),
		    OPTS(name_rows, 0)),
	.help = "Upload files for all sandboxes of a group",
	.more = "An existing file of that name is replaced once the new one is complete. 'cay "
		"upload rm' and 'cay group rm' remove uploads.",
	.run = cmd_upload_add_run,
};

static int cmd_upload_ls_prepare(struct cli *, void *args, const struct opt_words *,
				 struct api_call *, struct cay_err *err)
{
	return cmd_upload_check_group(((const struct group_query *)args)->group, err);
}

const struct cmd cmd_upload_ls = {
	CMD_USAGE("upload ls", "--group NAME [--json]"),
	CMD_OPTIONS(group_query, OPTS(group_rows, offsetof(struct group_query, group))),
	.help = "List the uploads of a group",
	.prepare = cmd_upload_ls_prepare,
	.op = OP_UPLOAD_LIST,
	CMD_COLUMNS({ "NAME", "name" }, { "SIZE", "size", AS_SIZE },
		    { "AGE", "created_at", AS_AGE }),
};

static int cmd_upload_rm_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	return cmd_upload_for_each_operand(c, c->args, w, cmd_upload_rm_file, err);
}

const struct cmd cmd_upload_rm = {
	CMD_USAGE("upload rm", "--group NAME [--json] NAME..."),
	CMD_OPERANDS(1, FILES_MAX, OPERAND_FREE),
	CMD_OPTIONS(upload_put_query, OPTS(group_rows, offsetof(struct upload_put_query, group))),
	.help = "Remove uploads of a group; copies in sandboxes stay",
	.run = cmd_upload_rm_run,
};
