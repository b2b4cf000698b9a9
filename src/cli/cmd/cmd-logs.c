/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>

#include "cli/exec/session.h"
#include "cli/print/list.h"
#include "cli/print/reason.h"
#include "wire/frame-reader.h"

struct logs_args {
	bool follow, list;
	unsigned stream; /* BOTH, or of exec_streams */
	uint64_t offset;
};

#define BOTH UINT_MAX

static const struct opt rows[] = {
	{ "follow", 'f', OPT_FLAG, offsetof(struct logs_args, follow),
	  .help = "Follow the output until the command ends or Ctrl-C" },
	{ "stream", 0, OPT_CHOICE, offsetof(struct logs_args, stream),
	  .table = &exec_output_query_table, .member = "stream", .arg = "stdout|stderr",
	  .help = "Only this stream" },
	{ "offset", 0, OPT_U64, offsetof(struct logs_args, offset), .max = INT64_MAX, .arg = "N",
	  .help = "Start at this byte of each stream" },
	{ "list", 'l', OPT_FLAG, offsetof(struct logs_args, list),
	  .help = "List commands instead, including those that ended" },
};

static int cmd_logs_format_bytes(const void *row, struct buf *out)
{
	const struct exec_info *e = row;

	uint64_t bytes = e->stdout_bytes + e->stderr_bytes;

	return buf_printf(out, "%llu", (unsigned long long)bytes);
}

static int cmd_logs_format_end(const void *row, struct buf *out)
{
	const struct exec_info *e = row;

	return e->has_end ? reason_format_line(&e->end, out) : 1;
}

static const struct column columns[] = {
	{ "EXEC", "id" },
	{ "STATE", "state" },
	{ "AGE", "started_at", AS_AGE },
	{ "BYTES", .format = cmd_logs_format_bytes },
	{ "END", .format = cmd_logs_format_end },
	COLUMNS_END,
};

static int cmd_logs_find_newest_exec(struct cli *c, const struct id *sandbox, struct id *ret,
				     struct cay_err *err)
{
	struct exec_list all = {};
	const struct exec_info *v;
	size_t last = 0;
	int r = api_call(&c->api, &(struct api_call){ .op = OP_EXEC_LIST, .ids = { *sandbox } },
			 &all, err);

	if (r < 0)
		return r;
	v = all.execs.v;
	if (!all.execs.n) {
		api_hint_set(&c->api, "'cay exec SANDBOX COMMAND' runs one; 'cay service logs' "
				      "shows the output of services");
		return cay_fail(err, CAY_E_NOT_FOUND, "no command has run in the sandbox yet");
	}
	for (size_t i = 1; i < all.execs.n; i++)
		if (v[i].started_ns >= v[last].started_ns)
			last = i;
	*ret = v[last].id;
	return 0;
}

/* The exec named by word, else the main program, else the newest exec. */
static int cmd_logs_find_exec(struct cli *c, const struct id *sandbox, const char *word,
			      struct id *ret, struct cay_err *err)
{
	struct sandbox_info info = {};
	int r;

	if (word && id_parse(ID_EXEC, slice_of(word), ret) < 0) {
		api_hint_set(&c->api, "'cay logs --list SANDBOX' lists them");
		return cay_fail(err, CAY_E_INVALID, "'%s' is not an exec id", word);
	}
	if (word)
		return 0;
	r = api_call(&c->api, &(struct api_call){ .op = OP_SANDBOX_GET, .ids = { *sandbox } },
		     &info, err);
	if (r < 0)
		return r;
	if (info.entry && id_parse(ID_EXEC, slice_of(info.entry), ret) == 0)
		return 0;
	return cmd_logs_find_newest_exec(c, sandbox, ret, err);
}

static int cmd_logs_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct logs_args *a = c->args;
	struct session_result result;
	struct session_spec spec = {
		.watch_existing = true,
		.once = !a->follow,
		.offset = a->offset,
		.streams = a->stream == BOTH ? STREAM_BIT(FRAME_STDOUT) | STREAM_BIT(FRAME_STDERR)
			   : a->stream == 0  ? STREAM_BIT(FRAME_STDOUT)
					     : STREAM_BIT(FRAME_STDERR),
	};
	struct api_call list = { .op = OP_EXEC_LIST };
	int r;

	if (c->global.json && !a->list)
		return cay_fail(err, CAY_E_INVALID, "logs: --json needs --list");
	r = api_find_sandbox(&c->api, w->operands[0], &spec.sandbox, err);
	list.ids[0] = spec.sandbox;
	if (r >= 0 && a->list)
		return list_print(c, &list, columns, NULL, NULL, err);
	if (r >= 0)
		r = cmd_logs_find_exec(c, &spec.sandbox, w->n_operands > 1 ? w->operands[1] : NULL,
				       &spec.exec, err);
	if (r >= 0)
		r = interrupt_open(&c->api.intr, err);
	return r < 0 ? r : session_run(&c->api, &spec, &result, err);
}

const struct cmd cmd_logs = {
	CMD_USAGE("logs", "[OPTION...] SANDBOX [EXEC]"),
	CMD_OPERANDS(1, 2, OPERAND_SANDBOX),
	CMD_OPTIONS(logs_args, OPTS(rows, 0)),
	.defaults = &(const struct logs_args){ .stream = BOTH },
	.help = "Show a command's stdout and stderr",
	.more = "Without EXEC, shows the sandbox's main program or, if it has none, the command "
		"started last. Ctrl-C does not affect the command. A sandbox keeps a limited "
		"amount of output (--output-size of create); lost output is reported.",
	.run = cmd_logs_run,
};
