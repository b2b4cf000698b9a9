/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "cli/core/command.h"
#include "cli/print/list.h"
#include "cli/print/print.h"

static const struct opt_group json_options[] = { OPTS(opts_json, 0), OPTS_END };

/* ps */

#define INDENT_MAX 20

static int cmd_ps_format_size(uint64_t bytes, struct buf *to)
{
	static const char units[] = { 'B', 'K', 'M', 'G', 'T' };
	unsigned i = 0;

	for (; bytes >= 10000 && i < ARRAY_SIZE(units) - 1; i++)
		bytes = (bytes + 512) / 1024;
	return buf_printf(to, "%llu%c", (unsigned long long)bytes, units[i]);
}

static int cmd_ps_add_cells(struct print_table *t, const void *row)
{
	const struct process *p = row;
	auto_buf pid = BUF_INIT(32), user = BUF_INIT(96), cpu = BUF_INIT(48), rss = BUF_INIT(48),
		 command = BUF_INIT(KIB(2));
	int indent = (int)(p->depth < INDENT_MAX ? p->depth : INDENT_MAX) * 2;
	char age[PRINT_AGE_MAX], exec[ID_TEXT_LEN + 1] = "-";
	int r = buf_printf(&pid, "%llu", (unsigned long long)p->pid);

	print_age_format(clk_wall_ns(&clk_system), p->started_ns, age);
	if (p->exec.noun)
		id_format(&p->exec, exec);
	if (r >= 0)
		r = p->user ? buf_puts(&user, p->user)
			    : buf_printf(&user, "%llu", (unsigned long long)p->uid);
	if (r >= 0)
		r = buf_printf(&cpu, "%llu.%llu%%", (unsigned long long)p->cpu_milli / 10,
			       (unsigned long long)p->cpu_milli % 10);
	if (r >= 0)
		r = cmd_ps_format_size(p->rss_bytes, &rss);
	if (r >= 0)
		r = buf_printf(&command, "%*s%s", indent, "", p->command);
	if (r >= 0)
		r = print_table_add_cell(t, buf_str(&pid));
	if (r >= 0)
		r = print_table_add_cell(t, buf_str(&user));
	if (r >= 0)
		r = print_table_add_cell(t, p->state);
	if (r >= 0)
		r = print_table_add_cell(t, buf_str(&cpu));
	if (r >= 0)
		r = print_table_add_cell(t, buf_str(&rss));
	if (r >= 0)
		r = print_table_add_cell(t, age);
	if (r >= 0)
		r = print_table_add_cell(t, exec);
	return r < 0 ? r : print_table_add_cell(t, buf_str(&command));
}

static int cmd_ps_run(struct cli *c, const void *args, const struct opt_words *w,
		      struct cay_err *err)
{
	static const struct list_spec kind = { .op = OP_PROCESS_LIST,
					       .row = &process_table,
					       .headings = { "PID", "USER", "S", "CPU", "MEM",
							     "AGE", "EXEC", "COMMAND" },
					       .columns = 8,
					       .add_cells = cmd_ps_add_cells };
	struct process_list all = {};
	bool json = ((const struct json_args *)args)->json;
	int r = list_print_of_sandbox(&c->api, &kind, w->operands[0], &all, &all.processes, json,
				      err);

	if (r >= 0 && !json && all.left_out)
		print_note("%llu processes found no room", (unsigned long long)all.left_out);
	return r;
}

const struct cmd cmd_ps = {
	.name = "ps",
	.args = "[--json] SANDBOX",
	.operands = { OPERAND_SANDBOX },
	.min = 1,
	.max = 1,
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "Processes in a sandbox, as a tree",
	.more = "CPU is that of a process's whole life. EXEC is the command it belongs to: 'cay "
		"events' and exec.signal know it by that.",
	.run = cmd_ps_run,
};

/* kill */

struct kill_args {
	struct process_signal request;
	struct json_args json;
};

static const struct opt kill_rows[] = {
	{ "signal", 's', OPT_TEXT, offsetof(struct kill_args, request.signal), .arg = "SIGNAL",
	  .help = "Which one, as in KILL; else TERM" },
	{ "tree", 't', OPT_FLAG, offsetof(struct kill_args, request.tree),
	  .help = "Also to everybody below it" },
};
static const struct opt_group kill_options[] = {
	OPTS(kill_rows, 0),
	OPTS_JSON(kill_args, json),
	OPTS_END,
};

static int cmd_kill_run(struct cli *c, const void *args, const struct opt_words *w,
			struct cay_err *err)
{
	const struct kill_args *a = args;
	struct api_call call = { .op = OP_PROCESS_SIGNAL, .request = &a->request };
	struct process_signalled told, sum = {};
	struct id box;
	int r = api_find_sandbox(&c->api, w->operands[0], &box, err);

	for (size_t i = 1; r >= 0 && i < w->n_operands; i++) {
		uint64_t pid;

		if (str_parse_u64(slice_of(w->operands[i]), 1, INT32_MAX, &pid) < 0)
			return cay_fail(err, CAY_E_INVALID, "kill: '%s' is no process number",
					w->operands[i]);
		call.ids[0] = box;
		call.path_name = w->operands[i];
		r = api_call(&c->api, &call, &told, err);
		if (r < 0)
			return cay_err_wrap(err, r, "process %s", w->operands[i]);
		sum.signalled += told.signalled;
	}
	return r < 0 || !a->json.json ? r : print_json(&process_signalled_table, &sum, err);
}

const struct cmd cmd_kill = {
	.name = "kill",
	.args = "[OPTION...] SANDBOX PID...",
	.operands = { OPERAND_SANDBOX },
	.min = 2,
	.max = 64,
	.options = kill_options,
	.size = sizeof(struct kill_args),
	.help = "Send processes in a sandbox a signal",
	.more = "'cay ps' has their numbers.",
	.run = cmd_kill_run,
};
