/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/list.h"

#define INDENT_MAX 20

static int cmd_ps_format_user(const void *row, struct buf *out)
{
	const struct process *p = row;

	return p->user ? buf_puts(out, p->user)
		       : buf_printf(out, "%llu", (unsigned long long)p->uid);
}

static int cmd_ps_format_cpu(const void *row, struct buf *out)
{
	unsigned long long milli = ((const struct process *)row)->cpu_milli;

	return buf_printf(out, "%llu.%llu%%", milli / 10, milli % 10);
}

static int cmd_ps_format_memory(const void *row, struct buf *out)
{
	static const char units[] = { 'B', 'K', 'M', 'G', 'T' };
	uint64_t bytes = ((const struct process *)row)->rss_bytes;
	unsigned i = 0;

	for (; bytes >= 10000 && i < ARRAY_SIZE(units) - 1; i++)
		bytes = (bytes + 512) / 1024;
	return buf_printf(out, "%llu%c", (unsigned long long)bytes, units[i]);
}

static int cmd_ps_format_command(const void *row, struct buf *out)
{
	const struct process *p = row;
	int indent = (int)(p->depth < INDENT_MAX ? p->depth : INDENT_MAX) * 2;

	return buf_printf(out, "%*s%s", indent, "", p->command);
}

const struct cmd cmd_ps = {
	CMD_USAGE("ps", "[--json] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	.help = "List processes in a sandbox as a tree",
	.more = "CPU is the average over the life of the process. EXEC is the id of the command it "
		"belongs to, as 'cay logs' and 'cay attach' take it.",
	.op = OP_PROCESS_LIST,
	CMD_COLUMNS({ "PID", "pid" }, { "USER", .format = cmd_ps_format_user }, { "S", "state" },
		    { "CPU", .format = cmd_ps_format_cpu },
		    { "MEM", .format = cmd_ps_format_memory }, { "AGE", "started_at", AS_AGE },
		    { "EXEC", "exec" }, { "COMMAND", .format = cmd_ps_format_command }),
};

static const struct opt kill_rows[] = {
	{ "signal", 's', OPT_TEXT, offsetof(struct process_signal, signal), .arg = "SIGNAL",
	  .help = "Signal to send, e.g. KILL; by default TERM" },
	{ "tree", 't', OPT_FLAG, offsetof(struct process_signal, tree),
	  .help = "Also send it to all descendants" },
};

static int cmd_kill_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	struct api_call call = { .op = OP_PROCESS_SIGNAL, .request = c->args };
	struct process_signalled told, sum = {};
	struct id sandbox;
	int r = api_find_sandbox(&c->api, w->operands[0], &sandbox, err);

	for (size_t i = 1; r >= 0 && i < w->n_operands; i++) {
		uint64_t pid;

		if (str_parse_u64(slice_of(w->operands[i]), 1, INT32_MAX, &pid) < 0)
			return cay_fail(err, CAY_E_INVALID, "kill: invalid pid '%s'",
					w->operands[i]);
		call.ids[0] = sandbox;
		call.path_name = w->operands[i];
		r = api_call(&c->api, &call, &told, err);
		if (r < 0)
			return cay_err_wrap(err, r, "process %s", w->operands[i]);
		sum.signalled += told.signalled;
	}
	return r < 0 ? r : reply_print(c, call.op, &sum, NULL, err);
}

const struct cmd cmd_kill = {
	CMD_USAGE("kill", "[OPTION...] SANDBOX PID..."),
	CMD_OPERANDS(2, 64, OPERAND_SANDBOX),
	CMD_OPTIONS(process_signal, OPTS(kill_rows, 0)),
	.help = "Send a signal to processes in a sandbox",
	.more = "'cay ps' lists the pids.",
	.run = cmd_kill_run,
};
