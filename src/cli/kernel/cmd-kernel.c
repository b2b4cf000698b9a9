/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/list.h"
#include "cli/print/progress.h"

#define AT(m) offsetof(struct kernel_create, m)

static const struct opt create_rows[] = {
	{ "language", 'l', OPT_TEXT, AT(language), .arg = "LANGUAGE",
	  .help = "python, node or r. By default python" },
	{ "name", 'n', OPT_TEXT, AT(name), .arg = "NAME", .help = "Name of the kernel" },
	{ "user", 'u', OPT_TEXT, AT(user), .arg = "USER",
	  .help = "User to run as: a name of the image, or a uid" },
	{ "workdir", 'w', OPT_TEXT, AT(cwd), .arg = "DIR", .help = "Working directory" },
	{ "setenv", 'e', OPT_PAIRS, AT(env), .arg = "KEY=VALUE",
	  .help = "Environment variable; may be repeated" },
};

const struct cmd cmd_kernel_create = {
	CMD_USAGE("kernel create", "[OPTION...] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	CMD_OPTIONS(kernel_create, OPTS(create_rows, 0)),
	.defaults = &(const struct kernel_create){ .language = "python" },
	.help = "Open a kernel: a Python, Node or R that keeps its variables",
	.more = "Prints its id. 'cay kernel run --kernel NAME' runs code in it, until 'cay kernel "
		"rm' ends it.",
	.op = OP_KERNEL_CREATE,
	.prints = "id",
};

/* What a person would look for when kernels are slower than expected. */
static int cmd_kernel_note_loaded(const void *reply, struct cay_err *)
{
	const struct kernel_list *list = reply;
	const struct loaded_kernel *l = &list->loaded;

	if (!list->has_loaded)
		return 0;
	if (l->state == LOADED_FAILED || l->state == LOADED_ENDED)
		print_note("the interpreter to fork kernels from has %s: %s",
			   l->state == LOADED_FAILED ? "failed" : "ended", l->why ? l->why : "-");
	for (size_t i = 0; i < l->missing.n; i++)
		print_note("module '%s' is not kept loaded: %s", l->missing.keys[i],
			   l->missing.values[i]);
	return 0;
}

const struct cmd cmd_kernel_ls = {
	CMD_USAGE("kernel ls", "[--json] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	.help = "List kernels of a sandbox",
	.op = OP_KERNEL_LIST,
	CMD_COLUMNS({ "ID", "id" }, { "NAME", "name" }, { "LANGUAGE", "language" },
		    { "STATE", "state" }, { "RUNS", "runs" }, { "WAITING", "queued" },
		    { "PID", "pid" }, { "AGE", "created_at", AS_AGE }),
	.print = cmd_kernel_note_loaded,
};

static int cmd_kernel_print(const void *reply, struct cay_err *err)
{
	static const struct column shown[] = {
		{ "id", "id" },
		{ "name", "name" },
		{ "language", "language" },
		{ "version", "version" },
		{ "program", "implementation" },
		{ "state", "state" },
		{ "why", "why" },
		{ "directory", "cwd" },
		{ "pid", "pid" },
		{ "created", "created_at" },
		{ "runs", "runs" },
		{ "waiting", "queued" },
		{ "restarts", "restarts" },
		{ "forked", "forked" },
		{ "stdout", "stdout_bytes", AS_SIZE },
		{ "stderr", "stderr_bytes", AS_SIZE },
		{ "ended", "end.reason" },
		{ "exit code", "end.exit_code" },
		{ "signal", "end.signal" },
	};
	auto_table t = print_table_create(2);

	for (size_t i = 0; i < ARRAY_SIZE(shown); i++) {
		auto_buf text = BUF_INIT(KIB(16));

		if (column_format(&shown[i], &kernel_info_table, reply, &text) < 0)
			return cay_no_memory(err);
		if (!str_eq(buf_str(&text), "-"))
			print_table_add_pair(&t, shown[i].heading, "%s", buf_str(&text));
	}
	return print_table_stdout(&t, err);
}

#define ACT(sym, op_, help_, more_) \
	const struct cmd cmd_kernel_##sym = { \
		CMD_USAGE("kernel " #sym, "[--json] SANDBOX KERNEL"), \
		CMD_OPERANDS(2, 2, OPERAND_SANDBOX, OPERAND_KERNEL), \
		.help = help_, \
		.more = more_, \
		.op = op_, \
	}
ACT(interrupt, OP_KERNEL_INTERRUPT, "Interrupt the code that runs in a kernel",
    "Its variables stay. Code that does not end in 2 s gets SIGTERM, 3 s later the kernel is "
    "killed.");
ACT(restart, OP_KERNEL_RESTART, "Restart a kernel: its variables are lost, its id stays", NULL);
ACT(rm, OP_KERNEL_DELETE, "End a kernel with all processes that it started, and remove it", NULL);

const struct cmd cmd_kernel_show = {
	CMD_USAGE("kernel show", "[--json] SANDBOX KERNEL"),
	CMD_OPERANDS(2, 2, OPERAND_SANDBOX, OPERAND_KERNEL),
	.help = "Show a kernel",
	.op = OP_KERNEL_GET,
	.print = cmd_kernel_print,
};
