/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "cli/core/command.h"
#include "cli/print/list.h"
#include "cli/print/print.h"
#include "text/base64.h"

struct template_args {
	struct sandbox_create_args make;
	struct template_create of;
	struct field_map files; /* PATH to a file of this machine */
	struct json_args json;
};

static const struct opt build_rows[] = {
	{ "file", 0, OPT_PAIRS, offsetof(struct template_args, files), .arg = "PATH=FILE",
	  .help = "A file of this machine to put there, 1 MiB at the most; may be repeated" },
	{ "setup", 0, OPT_TEXTS, offsetof(struct template_args, of.setup), .arg = "COMMAND",
	  .help = "A line for the image's shell, run as root when it is built; may be repeated" },
	{ "python", 0, OPT_PAIRS, offsetof(struct template_args, of.packages.python),
	  .arg = "NAME=VERSION",
	  .help = "A package for pip; NAME= is the newest; may be repeated" },
	{ "node", 0, OPT_PAIRS, offsetof(struct template_args, of.packages.node),
	  .arg = "NAME=VERSION", .help = "The same for npm" },
	{ "r", 0, OPT_PAIRS, offsetof(struct template_args, of.packages.r), .arg = "NAME=VERSION",
	  .help = "The same for R" },
};

static const struct opt_group create_options[] = {
	OPTS(opts_create, offsetof(struct template_args, make)),
	OPTS(build_rows, 0),
	OPTS_JSON(template_args, json),
	OPTS_END,
};

static const struct opt_group json_options[] = { OPTS(opts_json, 0), OPTS_END };

static void cmd_template_create_set_defaults(void *args)
{
	create_request_init(&((struct template_args *)args)->make.create);
}

int template_create_send(struct cli *c, const struct template_create *of, const char *name,
			 const char *image, const struct sandbox_create_args *make,
			 const struct opt_words *w, struct template_info *ret, struct cay_err *err)
{
	struct template_create request = of ? *of : (struct template_create){};
	struct sandbox_create *d = &request.defaults;
	struct api_call call = { .op = OP_TEMPLATE_CREATE, .request = &request };
	int r;

	if (make->idempotency_key || make->create.name || make->create.template)
		return cay_fail(
			err, CAY_E_INVALID,
			"template create: --name, --key and --template are a sandbox's own");
	request.name = name;
	*d = make->create;
	d->image = image;
	d->has_entrypoint = w->n_rest > 0;
	d->entrypoint = (struct field_texts){ (const char **)(uintptr_t)w->rest, w->n_rest };
	r = create_request_apply_args(c, make, d, err);
	return r < 0 ? r : api_call(&c->api, &call, ret, err);
}

#define FILE_MAX MIB(1)

/* What is no text travels as base64. */
static int cmd_template_set_file_content(struct arena *arena, const struct buf *text,
					 struct build_file *to)
{
	char *out;

	if (!memchr(buf_str(text), 0, text->len) && utf8_is_valid(buf_str(text), text->len)) {
		to->content = arena_strndup(arena, buf_str(text), text->len);
		return to->content ? 0 : -ENOMEM;
	}
	out = arena_alloc(arena, BASE64_TEXT(text->len) + 1, 1);
	if (!out)
		return -ENOMEM;
	base64_encode((const uint8_t *)text->data, text->len, out);
	to->content_b64 = out;
	return 0;
}

/* All of it, from wherever this person may read. */
static int cmd_template_read_file_bytes(const char *path, struct buf *ret, bool *ret_program)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	*ret_program = st.st_mode & 0100;
	for (;;) {
		char piece[KIB(16)];
		ssize_t n = read(fd, piece, sizeof(piece));
		int r = n < 0 ? -errno : buf_append(ret, piece, (size_t)n);

		if (r < 0 || n == 0)
			return r;
	}
}

static int cmd_template_read_file(struct arena *arena, const char *inside, const char *path,
				  struct build_file *to, struct cay_err *err)
{
	auto_buf text = BUF_INIT(FILE_MAX);
	bool program = false;
	int r = cmd_template_read_file_bytes(path, &text, &program);

	if (r == -ENOBUFS)
		return cay_fail(err, CAY_E_TOO_LARGE,
				"'%s' has more than 1 MiB: put it into an image, by 'cay template "
				"build'",
				path);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INVALID, -r, "read '%s'", path);
	*to = (struct build_file){ .path = inside, .mode = program ? "0755" : "0644" };
	return cmd_template_set_file_content(arena, &text, to) < 0
		       ? cay_fail(err, CAY_E_NO_MEMORY, "no memory")
		       : 0;
}

static int cmd_template_read_files(struct arena *arena, const struct field_map *files,
				   struct field_list *ret, struct cay_err *err)
{
	struct build_file *v = arena_alloc(arena, files->n + 1, sizeof(*v));
	int r = 0;

	if (!v)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	for (size_t i = 0; r >= 0 && i < files->n; i++)
		r = cmd_template_read_file(arena, files->keys[i], files->values[i], &v[i], err);
	*ret = (struct field_list){ v, files->n };
	return r;
}

static int cmd_template_create_run(struct cli *c, const void *args, const struct opt_words *w,
				   struct cay_err *err)
{
	const struct template_args *a = args;
	struct template_create of = a->of;
	auto_arena arena = ARENA_INIT(MIB(16));
	struct template_info made = {};
	int r = cmd_template_read_files(&arena, &a->files, &of.files, err);

	of.has_setup = of.setup.n > 0;
	if (r >= 0)
		r = template_create_send(c, &of, w->operands[0], w->operands[1], &a->make, w, &made,
					 err);
	if (r < 0)
		return r;
	if (made.state == TEMPLATE_BUILDING && isatty(STDERR_FILENO))
		print_note("it is being built: 'cay template log -f %s' shows how it goes",
			   w->operands[0]);
	return a->json.json ? print_json(&template_info_table, &made, err)
			    : print_id(&made.id, err);
}

const struct cmd cmd_template_create = {
	.name = "template create",
	.args = "[OPTION...] NAME IMAGE [-- COMMAND...]",
	.operands = { OPERAND_TEMPLATE, OPERAND_IMAGE },
	.min = 2,
	.max = 2,
	.rest = REST_OPTIONAL,
	.options = create_options,
	.size = sizeof(struct template_args),
	.init_args = cmd_template_create_set_defaults,
	.help = "Give a kind of sandbox a name: its image and what is said of it by default",
	.more = "Make one with cay create --template NAME; what create itself says comes over it. "
		"A name that is there gets the new settings; sandboxes that run keep theirs.",
	.run = cmd_template_create_run,
};

static int cmd_template_ls_add_cells(struct print_table *t, const void *row)
{
	const struct template_info *n = row;
	char age[PRINT_AGE_MAX];

	print_age_format(clk_wall_ns(&clk_system), n->created_ns, age);
	return print_table_add_cell(t, n->name) < 0 ||
			       print_table_add_cell(t, n->defaults.image) < 0 ||
			       print_table_add_cell(t, field_choice_name(&template_info_table,
									 "state", n->state)) < 0 ||
			       print_table_add_cell(t, age) < 0
		       ? -ENOMEM
		       : 0;
}

static int cmd_template_ls_run(struct cli *c, const void *args, const struct opt_words *,
			       struct cay_err *err)
{
	static const struct list_spec kind = {
		.op = OP_TEMPLATE_LIST,
		.list_member = "templates",
		.row = &template_info_table,
		.headings = { "NAME", "IMAGE", "STATE", "AGE" },
		.columns = 4,
		.add_cells = cmd_template_ls_add_cells,
	};

	return list_print_all_pages(&c->api, &kind, ((const struct json_args *)args)->json, err);
}

const struct cmd cmd_template_ls = {
	.name = "template ls",
	.args = "[--json]",
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "List templates",
	.run = cmd_template_ls_run,
};

static int cmd_template_show_run(struct cli *c, const void *, const struct opt_words *w,
				 struct cay_err *err)
{
	struct api_call call = { .op = OP_TEMPLATE_GET };
	struct template_info found = {};
	int r = api_find_template(&c->api, w->operands[0], &call.ids[0], err);

	if (r >= 0)
		r = api_call(&c->api, &call, &found, err);
	return r < 0 ? r : print_json(&template_info_table, &found, err);
}

const struct cmd cmd_template_show = {
	.name = "template show",
	.args = "[--json] NAME|ID",
	.operands = { OPERAND_TEMPLATE },
	.min = 1,
	.max = 1,
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "Print all that a template says, as JSON",
	.run = cmd_template_show_run,
};

struct template_pool_args {
	struct pool_conf pool;
	struct json_args json;
};

static const struct opt pool_rows[] = {
	{ "min", 0, OPT_U64, offsetof(struct template_pool_args, pool.min), .arg = "N",
	  .help = "So many are kept ready; 0, as without it, keeps none" },
	{ "max", 0, OPT_U64, offsetof(struct template_pool_args, pool.max), .arg = "N",
	  .help = "So many of the template at the most, warm or not; 0 is as many as the node "
		  "takes" },
	{ "on-empty", 0, OPT_CHOICE, offsetof(struct template_pool_args, pool.on_empty),
	  .table = &pool_conf_table, .member = "on_empty", .arg = "create|fail",
	  .help = "What a create does when none is ready" },
};

static const struct opt_group pool_options[] = {
	OPTS(pool_rows, 0),
	OPTS_JSON(template_pool_args, json),
	OPTS_END,
};

static int cmd_template_pool_run(struct cli *c, const void *args, const struct opt_words *w,
				 struct cay_err *err)
{
	const struct template_pool_args *a = args;
	struct api_call call = { .op = OP_TEMPLATE_POOL, .request = &a->pool };
	struct template_info found = {};
	int r = api_find_template(&c->api, w->operands[0], &call.ids[0], err);

	if (r >= 0)
		r = api_call(&c->api, &call, &found, err);
	return r < 0 || !a->json.json ? r : print_json(&template_info_table, &found, err);
}

const struct cmd cmd_template_pool = {
	.name = "template pool",
	.args = "[OPTION...] NAME|ID",
	.operands = { OPERAND_TEMPLATE },
	.min = 1,
	.max = 1,
	.options = pool_options,
	.size = sizeof(struct template_pool_args),
	.help = "Keep sandboxes of a template ready, from now on",
	.more = "A create takes a warm one with its own variables, limits, labels, name and "
		"deadlines; it is never given twice. 'cay template show' has the numbers.",
	.run = cmd_template_pool_run,
};

static int cmd_template_rm_run(struct cli *c, const void *args, const struct opt_words *w,
			       struct cay_err *err)
{
	struct api_call call = { .op = OP_TEMPLATE_DELETE };
	int r = api_find_template(&c->api, w->operands[0], &call.ids[0], err);

	return r < 0 ? r
		     : api_call_print(c, &call, &(struct template_info){},
				      ((const struct json_args *)args)->json, err);
}

const struct cmd cmd_template_rm = {
	.name = "template rm",
	.args = "[--json] NAME|ID",
	.operands = { OPERAND_TEMPLATE },
	.min = 1,
	.max = 1,
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "Forget a template; sandboxes made with it stay",
	.run = cmd_template_rm_run,
};

/* log */

struct template_log_args {
	bool follow;
	struct json_args json;
};

static const struct opt log_rows[] = {
	{ "follow", 'f', OPT_FLAG, offsetof(struct template_log_args, follow),
	  .help = "Go on with what it writes, until it is built or has failed" },
};
static const struct opt_group log_options[] = {
	OPTS(log_rows, 0),
	OPTS_JSON(template_log_args, json),
	OPTS_END,
};

#define LOG_LOOK_MS 500

static int cmd_template_log_print(const struct template_log *log, bool json, struct cay_err *err)
{
	auto_buf out = BUF_INIT(MIB(8));
	struct slice text = slice_of(log->text ? log->text : ""), line;
	int r = 0;

	if (json)
		return print_json(&template_log_table, log, err);
	while (r >= 0 && text.p && text.n) {
		line = slice_cut(&text, '\n');
		r = print_append_escaped(&out, line);
		if (r >= 0 && text.p)
			r = buf_putc(&out, '\n');
	}
	return r < 0 ? cay_fail(err, CAY_E_NO_MEMORY, "no memory") : print_stdout(&out, err);
}

/* Piece by piece; what is written there is a stranger's, so it is shown escaped. */
static int cmd_template_log_run(struct cli *c, const void *args, const struct opt_words *w,
				struct cay_err *err)
{
	const struct template_log_args *a = args;
	struct template_log_query query = {};
	struct api_call call = { .op = OP_TEMPLATE_LOG, .query = &query };
	int r = api_find_template(&c->api, w->operands[0], &call.ids[0], err);

	while (r >= 0) {
		struct template_log log = {};
		bool more;

		r = api_call(&c->api, &call, &log, err);
		if (r < 0)
			return r;
		more = log.next > query.offset;
		if (more || a->json.json)
			r = cmd_template_log_print(&log, a->json.json, err);
		query.offset = log.next;
		if (r < 0 || (!more && (!a->follow || log.state != TEMPLATE_BUILDING)))
			return r < 0 ? r : a->follow && log.state == TEMPLATE_FAILED;
		if (!more)
			(void)poll(NULL, 0, LOG_LOOK_MS);
	}
	return r;
}

const struct cmd cmd_template_log = {
	.name = "template log",
	.args = "[-f] [--json] NAME|ID",
	.operands = { OPERAND_TEMPLATE },
	.min = 1,
	.max = 1,
	.options = log_options,
	.size = sizeof(struct template_log_args),
	.help = "What the last build of a template wrote",
	.more = "With --follow the exit status is 1 when it fails. --json prints each piece.",
	.run = cmd_template_log_run,
};
