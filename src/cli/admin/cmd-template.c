/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include "cli/print/list.h"
#include "text/base64.h"

struct template_args {
	struct sandbox_create_args make;
	struct template_create of;
	struct field_map files; /* path in the sandbox to a local file */
	struct field_texts build_egress;
	const char *from; /* a snapshot, or NULL */
};

static const struct opt build_rows[] = {
	{ "file", 0, OPT_PAIRS, offsetof(struct template_args, files), .arg = "PATH=FILE",
	  .help = "Copy this local file there, at most 1 MiB; may be repeated" },
	{ "setup", 0, OPT_TEXTS, offsetof(struct template_args, of.setup), .arg = "COMMAND",
	  .help = "Shell command to run as root at build time; may be repeated" },
	{ "python", 0, OPT_PAIRS, offsetof(struct template_args, of.packages.python),
	  .arg = "NAME=VERSION", .help = "Package for pip; NAME= is the newest; may be repeated" },
	{ "node", 0, OPT_PAIRS, offsetof(struct template_args, of.packages.node),
	  .arg = "NAME=VERSION", .help = "The same for npm" },
	{ "r", 0, OPT_PAIRS, offsetof(struct template_args, of.packages.r), .arg = "NAME=VERSION",
	  .help = "The same for R" },
	{ "build-egress", 0, OPT_TEXTS, offsetof(struct template_args, build_egress),
	  .arg = "PRESET|NAME[:PORTS]",
	  .help = "Where the build may connect to; default: where its sandboxes may; may be "
		  "repeated" },
	{ "from", 0, OPT_TEXT, offsetof(struct template_args, from), .operand = OPERAND_SNAPSHOT,
	  .arg = "SNAPSHOT",
	  .help = "Start its sandboxes with the files of this snapshot instead of IMAGE" },
};

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
			"template create: --name, --key and --template are only for sandboxes");
	request.name = name;
	*d = make->create;
	d->image = image;
	d->has_entrypoint = w->n_rest > 0;
	d->entrypoint = (struct field_texts){ (const char **)(uintptr_t)w->rest, w->n_rest };
	r = create_request_apply_args(c, make, d, err);
	return r < 0 ? r : api_call(&c->api, &call, ret, err);
}

#define FILE_MAX MIB(1)

/* Content that is not UTF-8 text is sent as base64. */
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
		return cay_fail(
			err, CAY_E_TOO_LARGE,
			"'%s' is larger than 1 MiB; put it into an image with 'cay template build'",
			path);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INVALID, -r, "read '%s'", path);
	*to = (struct build_file){ .path = inside, .mode = program ? "0755" : "0644" };
	return cmd_template_set_file_content(arena, &text, to) < 0 ? cay_no_memory(err) : 0;
}

static int cmd_template_read_files(struct arena *arena, const struct field_map *files,
				   struct field_list *ret, struct cay_err *err)
{
	struct build_file *v = arena_alloc(arena, files->n + 1, sizeof(*v));
	int r = 0;

	if (!v)
		return cay_no_memory(err);
	for (size_t i = 0; r >= 0 && i < files->n; i++)
		r = cmd_template_read_file(arena, files->keys[i], files->values[i], &v[i], err);
	*ret = (struct field_list){ v, files->n };
	return r;
}

static int cmd_template_create_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct template_args *a = c->args;
	const char *image = w->n_operands > 1 ? w->operands[1] : NULL;
	struct sandbox_create_args make = a->make;
	struct template_create of = a->of;
	auto_arena arena = ARENA_INIT(MIB(16));
	struct template_info made = {};
	int r;

	if (!image == !a->from)
		return cay_fail(err, CAY_E_INVALID, "expected either IMAGE or --from SNAPSHOT");
	r = a->from ? api_find_snapshot(&c->api, a->from, &make.create.snapshot, err) : 0;
	if (r >= 0)
		r = cmd_template_read_files(&arena, &a->files, &of.files, err);
	of.has_setup = of.setup.n > 0;
	of.has_build_egress = a->build_egress.n > 0;
	if (r >= 0 && of.has_build_egress)
		r = egress_words_apply(c, &a->build_egress, &of.build_egress, err);
	if (r >= 0)
		r = template_create_send(c, &of, w->operands[0], image, &make, w, &made, err);
	if (r < 0)
		return r;
	if (made.state == TEMPLATE_BUILDING && isatty(STDERR_FILENO))
		print_note(
			"the template is being built; 'cay template log -f %s' follows the build",
			w->operands[0]);
	return reply_print(c, OP_TEMPLATE_CREATE, &made, "id", err);
}

const struct cmd cmd_template_create = {
	CMD_USAGE("template create", "[OPTION...] NAME [IMAGE] [-- COMMAND...]"),
	CMD_OPERANDS(1, 2, OPERAND_TEMPLATE, OPERAND_IMAGE),
	.rest = REST_OPTIONAL,
	CMD_OPTIONS(template_args, OPTS(opts_create, offsetof(struct template_args, make)),
		    OPTS(build_rows, 0)),
	.init_args = create_request_init,
	.help = "Create a template: an image or a snapshot, and default options",
	.more = "Use it with 'cay create --template NAME'; options of create override its "
		"defaults. An existing template gets the new settings; running sandboxes keep "
		"theirs. With a snapshot it is the tenant's who has that, and no other's.",
	.run = cmd_template_create_run,
};

const struct cmd cmd_template_ls = {
	CMD_USAGE("template ls", "[--json]"),
	.help = "List templates",
	.op = OP_TEMPLATE_LIST,
	CMD_COLUMNS({ "NAME", "name" }, { "IMAGE", "defaults.image" }, { "STATE", "state" },
		    { "AGE", "created_at", AS_AGE }),
};

static int cmd_template_show_print(const void *reply, struct cay_err *err)
{
	return print_json(&template_info_table, reply, err);
}

const struct cmd cmd_template_show = {
	CMD_USAGE("template show", "[--json] NAME|ID"),
	CMD_OPERANDS(1, 1, OPERAND_TEMPLATE),
	.help = "Show a template as JSON",
	.op = OP_TEMPLATE_GET,
	.print = cmd_template_show_print,
};

static const struct opt pool_rows[] = {
	{ "min", 0, OPT_U64, offsetof(struct pool_conf, min), .arg = "N",
	  .help = "Number of sandboxes to keep ready; 0, the default, keeps none" },
	{ "max", 0, OPT_U64, offsetof(struct pool_conf, max), .arg = "N",
	  .help = "Maximum number of sandboxes of the template, warm or not; 0 is no limit but the "
		  "node's" },
	{ "on-empty", 0, OPT_CHOICE, offsetof(struct pool_conf, on_empty),
	  .table = &pool_conf_table, .member = "on_empty", .arg = "create|fail",
	  .help = "What a create does when no sandbox is ready" },
};

const struct cmd cmd_template_pool = {
	CMD_USAGE("template pool", "[OPTION...] NAME|ID"),
	CMD_OPERANDS(1, 1, OPERAND_TEMPLATE),
	CMD_OPTIONS(pool_conf, OPTS(pool_rows, 0)),
	.help = "Keep sandboxes of a template ready",
	.more = "A create claims a warm sandbox and applies its own variables, limits, labels, "
		"name and deadlines. A warm sandbox is claimed only once. 'cay template show' "
		"prints the counts.",
	.op = OP_TEMPLATE_POOL,
};

const struct cmd cmd_template_rm = {
	CMD_USAGE("template rm", "[--json] NAME|ID"),
	CMD_OPERANDS(1, 1, OPERAND_TEMPLATE),
	.help = "Delete a template; its sandboxes stay",
	.op = OP_TEMPLATE_DELETE,
};

struct template_log_args {
	bool follow;
};

static const struct opt log_rows[] = {
	{ "follow", 'f', OPT_FLAG, offsetof(struct template_log_args, follow),
	  .help = "Follow the log until the build ends" },
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
	return r < 0 ? cay_no_memory(err) : print_stdout(&out, err);
}

/* The log comes from the build, so it is printed escaped. */
static int cmd_template_log_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct template_log_args *a = c->args;
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
		if (more || c->global.json)
			r = cmd_template_log_print(&log, c->global.json, err);
		query.offset = log.next;
		if (r < 0 || (!more && (!a->follow || log.state != TEMPLATE_BUILDING)))
			return r < 0 ? r : a->follow && log.state == TEMPLATE_FAILED;
		if (!more)
			(void)poll(NULL, 0, LOG_LOOK_MS);
	}
	return r;
}

const struct cmd cmd_template_log = {
	CMD_USAGE("template log", "[-f] [--json] NAME|ID"),
	CMD_OPERANDS(1, 1, OPERAND_TEMPLATE),
	CMD_OPTIONS(template_log_args, OPTS(log_rows, 0)),
	.help = "Show the log of a template's last build",
	.more = "With --follow the exit status is 1 when the build fails. --json prints each part "
		"of the log as an object.",
	.run = cmd_template_log_run,
};
