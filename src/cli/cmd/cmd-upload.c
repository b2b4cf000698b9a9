/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd-upload - files of a group, kept outside its sandboxes
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "cli/core/command.h"
#include "cli/print/list.h"
#include "cli/transfer/transfer.h"

#define FILES_MAX 1000

struct upload_args {
	const char *group, *name;
	struct json_args json;
};

static const struct opt group_rows[] = {
	{ "group", 0, OPT_TEXT, offsetof(struct upload_args, group), .operand = OPERAND_GROUP,
	  .arg = "NAME", .help = "The group they are of; it has to be said" },
};
static const struct opt name_rows[] = {
	{ "name", 0, OPT_TEXT, offsetof(struct upload_args, name), .arg = "NAME",
	  .help = "What to call it; else the path's last part" },
};
static const struct opt_group options[] = { OPTS(group_rows, 0), OPTS_JSON(upload_args, json),
					    OPTS_END };
static const struct opt_group add_options[] = { OPTS(group_rows, 0), OPTS(name_rows, 0),
						OPTS_JSON(upload_args, json), OPTS_END };

static int cmd_upload_check_group(const struct upload_args *a, struct cay_err *err)
{
	return a->group ? 0
			: cay_fail(err, CAY_E_INVALID, "upload: say of which group with --group");
}

static int cmd_upload_add_send_content(int fd, struct transfer *carry, struct cay_err *err)
{
	char piece[KIB(16)];
	ssize_t n;
	int r = 0;

	while (r >= 0 && (n = read(fd, piece, sizeof(piece))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		r = n < 0 ? cay_fail_sys(err, CAY_E_INVALID, errno, "read it")
			  : transfer_write(carry, piece, (size_t)n, err);
	}
	return r;
}

static int cmd_upload_add_file(struct cli *c, const struct upload_args *a, const char *path,
			       struct upload_info *ret, struct cay_err *err)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	auto_free struct transfer *carry = NULL;
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
		return cay_fail(err, CAY_E_INVALID, "'%s' is no file", path);
	carry = malloc(sizeof(*carry));
	if (!carry)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	/* one that changes while it is read is refused, whole or not at all */
	query.has_size = true;
	query.size = (uint64_t)st.st_size;
	r = transfer_open(carry, &c->api, &call, query.size, err);
	if (r >= 0)
		r = cmd_upload_add_send_content(fd, carry, err);
	if (r >= 0 || r == -ECANCELED)
		r = transfer_finish_send(carry, ret, err);
	transfer_fini(carry);
	return r < 0 ? cay_err_wrap(err, r, "%s", path) : 0;
}

static int cmd_upload_rm_file(struct cli *c, const struct upload_args *a, const char *name,
			      struct upload_info *ret, struct cay_err *err)
{
	struct upload_query query = { .group = a->group, .name = name };
	int r = api_call(&c->api, &(struct api_call){ .op = OP_UPLOAD_DELETE, .query = &query },
			 ret, err);

	return r < 0 ? cay_err_wrap(err, r, "%s", name) : 0;
}

typedef int each_fn(struct cli *c, const struct upload_args *a, const char *word,
		    struct upload_info *ret, struct cay_err *err);

/* One after the other, until one fails; what was done is told. */
static int cmd_upload_for_each_operand(struct cli *c, const struct upload_args *a,
				       const struct opt_words *w, each_fn *fn, struct cay_err *err)
{
	struct upload_info *rows = arena_alloc(&c->arena, w->n_operands, sizeof(*rows));
	struct upload_list list = { .uploads = { rows, 0 } };
	struct cay_err why = {};
	int r = cmd_upload_check_group(a, err), told = 0;

	if (r >= 0 && !rows)
		r = cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	for (size_t i = 0; r >= 0 && i < w->n_operands; i++) {
		r = fn(c, a, w->operands[i], &rows[i], err);
		list.uploads.n += r >= 0;
	}
	if (a->json.json && list.uploads.n)
		told = print_json(&upload_list_table, &list, r < 0 ? &why : err);
	return r < 0 ? r : told;
}

static int cmd_upload_add_run(struct cli *c, const void *args, const struct opt_words *w,
			      struct cay_err *err)
{
	const struct upload_args *a = args;

	if (a->name && w->n_operands > 1)
		return cay_fail(err, CAY_E_INVALID, "upload add: --name is for one file");
	return cmd_upload_for_each_operand(c, a, w, cmd_upload_add_file, err);
}

const struct cmd cmd_upload_add = {
	.name = "upload add",
	.args = "--group NAME [--name NAME] [--json] FILE...",
	.operands = { OPERAND_FILE, OPERAND_FILE },
	.min = 1,
	.max = FILES_MAX,
	.options = add_options,
	.size = sizeof(struct upload_args),
	.help = "Put files into the upload area of a group, for every sandbox of it",
	.more = "One that has the name already is replaced, when all of the new one has come.  "
		"They "
		"go when the group does (cay group rm), or by cay upload rm.",
	.run = cmd_upload_add_run,
};

static int cmd_upload_ls_add_cells(struct print_table *t, const void *row)
{
	const struct upload_info *u = row;
	auto_buf size = BUF_INIT(32);
	char age[PRINT_AGE_MAX];

	print_age_format(clk_wall_ns(&clk_system), u->created_ns, age);
	return byte_size_format(u->size, &size) < 0 || print_table_add_cell(t, u->name) < 0 ||
			       print_table_add_cell(t, buf_str(&size)) < 0 ||
			       print_table_add_cell(t, age) < 0
		       ? -ENOMEM
		       : 0;
}

static int cmd_upload_ls_run(struct cli *c, const void *args, const struct opt_words *,
			     struct cay_err *err)
{
	static const struct list_spec kind = {
		.op = OP_UPLOAD_LIST,
		.list_member = "uploads",
		.row = &upload_info_table,
		.headings = { "NAME", "SIZE", "AGE" },
		.columns = 3,
		.add_cells = cmd_upload_ls_add_cells,
	};
	const struct upload_args *a = args;
	struct group_query query = { .group = a->group };
	struct upload_list all = {};
	int r = cmd_upload_check_group(a, err);

	return r < 0 ? r
		     : list_print_reply(&c->api, &kind,
					&(struct api_call){ .op = kind.op, .query = &query }, &all,
					&all.uploads, a->json.json, err);
}

const struct cmd cmd_upload_ls = {
	.name = "upload ls",
	.args = "--group NAME [--json]",
	.options = options,
	.size = sizeof(struct upload_args),
	.help = "List the uploads of a group",
	.run = cmd_upload_ls_run,
};

static int cmd_upload_rm_run(struct cli *c, const void *args, const struct opt_words *w,
			     struct cay_err *err)
{
	return cmd_upload_for_each_operand(c, args, w, cmd_upload_rm_file, err);
}

const struct cmd cmd_upload_rm = {
	.name = "upload rm",
	.args = "--group NAME [--json] NAME...",
	.min = 1,
	.max = FILES_MAX,
	.options = options,
	.size = sizeof(struct upload_args),
	.help = "Remove uploads of a group; what sandboxes have of them stays",
	.run = cmd_upload_rm_run,
};
