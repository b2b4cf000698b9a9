/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>

#include "cli/core/command.h"
#include "cli/print/print.h"
#include "cli/print/progress.h"
#include "text/quantity.h"

static const struct opt rows[] = {
	{ "memory", 0, OPT_BYTES, offsetof(struct limits_change, memory_bytes), .arg = "SIZE",
	  .help = "Memory limit, e.g. 1Gi; less than it uses is refused" },
	{ "cpu", 0, OPT_MILLI, offsetof(struct limits_change, cpu_milli), .arg = "CORES",
	  .help = "CPU limit, e.g. 500m or 2" },
	{ "pids", 0, OPT_U64, offsetof(struct limits_change, pids), .arg = "N",
	  .help = "Limit of processes and threads" },
	{ "disk", 0, OPT_BYTES, offsetof(struct limits_change, disk_bytes), .arg = "SIZE",
	  .help = "Disk limit, e.g. 20Gi, if the disk has a quota" },
	{ "inodes", 0, OPT_U64, offsetof(struct limits_change, disk_inodes), .arg = "N",
	  .help = "Limit of files and directories, if the disk has a quota" },
};

#define CORES_MAX 24

static void cmd_limits_format_cores(uint64_t milli, char ret[static CORES_MAX])
{
	bool whole = milli % 1000 == 0;
	int n = snprintf(ret, CORES_MAX, "%llu%s",
			 (unsigned long long)(whole ? milli / 1000 : milli), whole ? "" : "m");

	assert(n > 0 && n < CORES_MAX);
}

static void cmd_limits_add_size(struct print_table *t, const char *name, uint64_t bytes)
{
	char text[QUANTITY_TEXT_MAX];

	quantity_format(bytes, text);
	print_table_add_cellf(t, "%s=%s", name, text);
}

static int cmd_limits_print(const void *reply, struct cay_err *err)
{
	const struct limits *l = &((const struct sandbox_info *)reply)->limits;
	auto_table t = print_table_create(1);
	char cores[CORES_MAX];

	cmd_limits_format_cores(l->cpu_milli, cores);
	cmd_limits_add_size(&t, "memory", l->memory_bytes);
	print_table_add_cellf(&t, "cpu=%s", cores);
	print_table_add_cellf(&t, "pids=%llu", (unsigned long long)l->pids);
	print_table_add_cellf(&t, "nofile=%llu", (unsigned long long)l->nofile);
	cmd_limits_add_size(&t, "shm", l->shm_bytes);
	cmd_limits_add_size(&t, "output-size", l->output_bytes);
	if (l->has_disk_bytes)
		cmd_limits_add_size(&t, "disk", l->disk_bytes);
	if (l->has_disk_inodes)
		print_table_add_cellf(&t, "inodes=%llu", (unsigned long long)l->disk_inodes);
	return print_table_stdout(&t, err);
}

/* Without changes it only prints. */
static int cmd_limits_prepare(struct cli *, void *args, const struct opt_words *,
			      struct api_call *call, struct cay_err *)
{
	struct limits_change *l = args;

	l->has_memory = l->memory_bytes;
	l->has_cpu = l->cpu_milli;
	l->has_pids = l->pids;
	l->has_disk_bytes = l->disk_bytes;
	l->has_disk_inodes = l->disk_inodes;
	if (!l->has_memory && !l->has_cpu && !l->has_pids && !l->has_disk_bytes &&
	    !l->has_disk_inodes)
		call->op = OP_SANDBOX_GET;
	return 0;
}

static void cmd_usage_add_size(struct print_table *t, uint64_t bytes, bool known)
{
	auto_buf text = BUF_INIT(64);
	int r = known ? byte_size_format(bytes, &text) : buf_putc(&text, '-');

	if (r < 0)
		t->failed = r;
	print_table_add_cell(t, buf_str(&text));
}

static void cmd_usage_add_number(struct print_table *t, uint64_t n, bool known)
{
	if (known)
		print_table_add_cellf(t, "%llu", (unsigned long long)n);
	else
		print_table_add_cell(t, "-");
}

static int cmd_usage_print(const struct usage *u, const struct limits *l, struct cay_err *err)
{
	static const char *const heads[] = { "WHAT", "USED", "PEAK", "LIMIT" };
	auto_table t = print_table_create_headed(heads, ARRAY_SIZE(heads));
	auto_buf out = BUF_INIT(KIB(4));
	char cores[CORES_MAX];
	int r;

	print_table_add_cell(&t, "memory");
	cmd_usage_add_size(&t, u->memory_bytes, true);
	cmd_usage_add_size(&t, u->memory_peak_bytes, true);
	cmd_usage_add_size(&t, l->memory_bytes, true);
	cmd_limits_format_cores(l->cpu_milli, cores);
	print_table_add_pair(&t, "cpu", "%llu.%llu s", (unsigned long long)(u->cpu_ms / 1000),
			     (unsigned long long)(u->cpu_ms / 100 % 10));
	print_table_add_pair(&t, "-", "%s", cores);
	print_table_add_pair(&t, "pids", "%llu", (unsigned long long)u->processes);
	print_table_add_pair(&t, "-", "%llu", (unsigned long long)l->pids);
	if (u->has_disk_bytes || l->has_disk_bytes) {
		print_table_add_cell(&t, "disk");
		cmd_usage_add_size(&t, u->disk_bytes, u->has_disk_bytes);
		print_table_add_cell(&t, "-");
		cmd_usage_add_size(&t, l->disk_bytes, l->has_disk_bytes);
	}
	if (u->has_disk_inodes || l->has_disk_inodes) {
		print_table_add_cell(&t, "inodes");
		cmd_usage_add_number(&t, u->disk_inodes, u->has_disk_inodes);
		print_table_add_cell(&t, "-");
		cmd_usage_add_number(&t, l->disk_inodes, l->has_disk_inodes);
	}
	if (u->has_egress) {
		print_table_add_pair(&t, "connections", "%llu", (unsigned long long)u->egress.open);
		print_table_add_pair(&t, "-", "-");
		print_table_add_cell(&t, "sent");
		cmd_usage_add_size(&t, u->egress.up_bytes, true);
		print_table_add_pair(&t, "-", "-");
		print_table_add_cell(&t, "received");
		cmd_usage_add_size(&t, u->egress.down_bytes, true);
		print_table_add_pair(&t, "-", "-");
	}
	r = print_table_write(&t, &out);
	if (r >= 0 && u->has_egress)
		r = buf_printf(&out,
			       "%llu connections so far: %llu denied, %llu failed; %llu names "
			       "denied\n",
			       (unsigned long long)u->egress.total,
			       (unsigned long long)u->egress.denied,
			       (unsigned long long)u->egress.failed,
			       (unsigned long long)u->egress.names_denied);
	if (r >= 0 && u->oom_kills)
		r = buf_printf(&out, "%llu processes killed by the memory limit\n",
			       (unsigned long long)u->oom_kills);
	return r < 0 ? cay_no_memory(err) : print_stdout(&out, err);
}

int sandbox_usage_print(struct cli *c, const char *word, struct cay_err *err)
{
	struct api_call call = { .op = OP_SANDBOX_USAGE };
	struct sandbox_info sandbox = {};
	struct usage now = {};
	int r = api_find_sandbox(&c->api, word, &call.ids[0], err);

	if (r >= 0)
		r = api_call(&c->api, &call, &now, err);
	if (r < 0)
		return r;
	if (c->global.json)
		return print_json(&usage_table, &now, err);
	call.op = OP_SANDBOX_GET;
	r = api_call(&c->api, &call, &sandbox, err);
	return r < 0 ? r : cmd_usage_print(&now, &sandbox.limits, err);
}

const struct cmd cmd_limits = {
	CMD_USAGE("limits", "[OPTION...] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	CMD_OPTIONS(limits_change, OPTS(rows, 0)),
	.help = "Change the limits of a running sandbox and print them",
	.prepare = cmd_limits_prepare,
	.op = OP_SANDBOX_LIMITS,
	.print = cmd_limits_print,
};
