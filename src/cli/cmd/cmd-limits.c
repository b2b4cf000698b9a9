/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/core/command.h"
#include "cli/print/print.h"
#include "cli/print/progress.h"
#include "text/quantity.h"

struct limits_args {
	struct limits want; /* 0: as it is */
	struct json_args json;
};

static const struct opt rows[] = {
	{ "memory", 0, OPT_BYTES, offsetof(struct limits_args, want.memory_bytes), .arg = "SIZE",
	  .help = "Memory at the most, as in 1Gi; less than it uses is refused" },
	{ "cpu", 0, OPT_MILLI, offsetof(struct limits_args, want.cpu_milli), .arg = "CORES",
	  .help = "CPU time at the most, as in 500m or 2" },
	{ "pids", 0, OPT_U64, offsetof(struct limits_args, want.pids), .arg = "N",
	  .help = "Processes and threads at the most" },
	{ "disk", 0, OPT_BYTES, offsetof(struct limits_args, want.disk_bytes), .arg = "SIZE",
	  .help = "Disk space at the most, as in 20Gi, where its disk has a quota" },
	{ "inodes", 0, OPT_U64, offsetof(struct limits_args, want.disk_inodes), .arg = "N",
	  .help = "Files and directories at the most, where its disk has a quota of them" },
};

static const struct opt_group options[] = {
	OPTS(rows, 0),
	OPTS_JSON(limits_args, json),
	OPTS_END,
};
static const struct opt_group usage_options[] = { OPTS(opts_json, 0), OPTS_END };

static int cmd_limits_format_cores(uint64_t milli, char *to, size_t size)
{
	return milli % 1000 ? snprintf(to, size, "%llum", (unsigned long long)milli)
			    : snprintf(to, size, "%llu", (unsigned long long)(milli / 1000));
}

static int cmd_limits_append_size(struct buf *out, const char *name, uint64_t bytes)
{
	char text[QUANTITY_TEXT_MAX];

	quantity_format(bytes, text);
	return buf_printf(out, "%s=%s\n", name, text);
}

static int cmd_limits_print(const struct limits *l, struct cay_err *err)
{
	auto_buf out = BUF_INIT(512);
	char cores[24];
	int r = cmd_limits_append_size(&out, "memory", l->memory_bytes);

	if (r >= 0)
		r = cmd_limits_format_cores(l->cpu_milli, cores, sizeof(cores));
	if (r >= 0)
		r = buf_printf(&out, "cpu=%s\npids=%llu\nnofile=%llu\n", cores,
			       (unsigned long long)l->pids, (unsigned long long)l->nofile);
	if (r >= 0)
		r = cmd_limits_append_size(&out, "shm", l->shm_bytes);
	if (r >= 0)
		r = cmd_limits_append_size(&out, "output-size", l->output_bytes);
	if (r >= 0 && l->has_disk_bytes)
		r = cmd_limits_append_size(&out, "disk", l->disk_bytes);
	if (r >= 0 && l->has_disk_inodes)
		r = buf_printf(&out, "inodes=%llu\n", (unsigned long long)l->disk_inodes);
	return r < 0 ? cay_fail(err, CAY_E_NO_MEMORY, "no memory") : print_stdout(&out, err);
}

static int cmd_limits_run(struct cli *c, const void *args, const struct opt_words *w,
			  struct cay_err *err)
{
	const struct limits_args *a = args;
	struct limits_change request = { .memory_bytes = a->want.memory_bytes,
					 .cpu_milli = a->want.cpu_milli,
					 .pids = a->want.pids,
					 .disk_bytes = a->want.disk_bytes,
					 .disk_inodes = a->want.disk_inodes,
					 .has_memory = a->want.memory_bytes,
					 .has_cpu = a->want.cpu_milli,
					 .has_pids = a->want.pids,
					 .has_disk_bytes = a->want.disk_bytes,
					 .has_disk_inodes = a->want.disk_inodes };
	struct api_call call = { .op = OP_SANDBOX_GET };
	struct sandbox_info now = {};
	int r = api_find_sandbox(&c->api, w->operands[0], &call.ids[0], err);

	if (request.has_memory || request.has_cpu || request.has_pids || request.has_disk_bytes ||
	    request.has_disk_inodes) {
		call.op = OP_SANDBOX_LIMITS;
		call.request = &request;
	}
	if (r >= 0)
		r = api_call(&c->api, &call, &now, err);
	if (r < 0)
		return r;
	return a->json.json ? print_json(&sandbox_info_table, &now, err)
			    : cmd_limits_print(&now.limits, err);
}

/* One row: what it uses, the most it ever did, what it may. */
static int cmd_usage_add_row(struct print_table *t, const char *what,
			     const struct buf cells[static 3])
{
	int r = print_table_add_cell(t, what);

	for (size_t i = 0; r >= 0 && i < 3; i++)
		r = print_table_add_cell(t, cells[i].len ? cells[i].data : "-");
	return r;
}

static int cmd_usage_add_memory(struct print_table *t, const struct usage *u, uint64_t limit)
{
	uint64_t bytes[] = { u->memory_bytes, u->memory_peak_bytes, limit };
	auto_buf used = BUF_INIT(64), peak = BUF_INIT(64), most = BUF_INIT(64);
	struct buf *to[] = { &used, &peak, &most };
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(bytes); i++)
		r = byte_size_format(bytes[i], to[i]);
	return r < 0 ? r : cmd_usage_add_row(t, "memory", (const struct buf[]){ used, peak, most });
}

static int cmd_usage_add_cpu(struct print_table *t, const struct usage *u, uint64_t limit)
{
	auto_buf used = BUF_INIT(64), most = BUF_INIT(64);
	char cores[24];

	if (cmd_limits_format_cores(limit, cores, sizeof(cores)) < 0 ||
	    buf_printf(&used, "%llu.%llu s", (unsigned long long)(u->cpu_ms / 1000),
		       (unsigned long long)(u->cpu_ms / 100 % 10)) < 0 ||
	    buf_printf(&most, "%s", cores) < 0)
		return -ENOMEM;
	return cmd_usage_add_row(t, "cpu", (const struct buf[]){ used, {}, most });
}

static int cmd_usage_add_pids(struct print_table *t, const struct usage *u, uint64_t limit)
{
	auto_buf used = BUF_INIT(64), most = BUF_INIT(64);

	if (buf_printf(&used, "%llu", (unsigned long long)u->processes) < 0 ||
	    buf_printf(&most, "%llu", (unsigned long long)limit) < 0)
		return -ENOMEM;
	return cmd_usage_add_row(t, "pids", (const struct buf[]){ used, {}, most });
}

static int cmd_usage_add_disk(struct print_table *t, const struct usage *u, const struct limits *l)
{
	auto_buf used = BUF_INIT(64), most = BUF_INIT(64), files = BUF_INIT(64),
		 most_files = BUF_INIT(64);
	int r = 0;

	if (u->has_disk_bytes)
		r = byte_size_format(u->disk_bytes, &used);
	if (r >= 0 && l->has_disk_bytes)
		r = byte_size_format(l->disk_bytes, &most);
	if (r >= 0 && (u->has_disk_bytes || l->has_disk_bytes))
		r = cmd_usage_add_row(t, "disk", (const struct buf[]){ used, {}, most });
	if (r >= 0 && u->has_disk_inodes)
		r = buf_printf(&files, "%llu", (unsigned long long)u->disk_inodes);
	if (r >= 0 && l->has_disk_inodes)
		r = buf_printf(&most_files, "%llu", (unsigned long long)l->disk_inodes);
	if (r >= 0 && (u->has_disk_inodes || l->has_disk_inodes))
		r = cmd_usage_add_row(t, "inodes", (const struct buf[]){ files, {}, most_files });
	return r;
}

static int cmd_usage_print(const struct usage *u, const struct limits *l, struct cay_err *err)
{
	static const char *const heads[] = { "WHAT", "USED", "PEAK", "LIMIT" };
	auto_table t = print_table_create(ARRAY_SIZE(heads));
	auto_buf out = BUF_INIT(KIB(4));
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(heads); i++)
		r = print_table_add_cell(&t, heads[i]);
	if (r >= 0)
		r = cmd_usage_add_memory(&t, u, l->memory_bytes);
	if (r >= 0)
		r = cmd_usage_add_cpu(&t, u, l->cpu_milli);
	if (r >= 0)
		r = cmd_usage_add_pids(&t, u, l->pids);
	if (r >= 0)
		r = cmd_usage_add_disk(&t, u, l);
	if (r >= 0)
		r = print_table_write(&t, &out);
	if (r >= 0 && u->oom_kills)
		r = buf_printf(&out, "%llu killed for want of memory\n",
			       (unsigned long long)u->oom_kills);
	return r < 0 ? cay_fail(err, CAY_E_NO_MEMORY, "no memory") : print_stdout(&out, err);
}

static int cmd_usage_run(struct cli *c, const void *args, const struct opt_words *w,
			 struct cay_err *err)
{
	struct api_call call = { .op = OP_SANDBOX_USAGE };
	struct sandbox_info box = {};
	struct usage now = {};
	int r = api_find_sandbox(&c->api, w->operands[0], &call.ids[0], err);

	if (r >= 0)
		r = api_call(&c->api, &call, &now, err);
	if (r < 0)
		return r;
	if (((const struct json_args *)args)->json)
		return print_json(&usage_table, &now, err);
	call.op = OP_SANDBOX_GET;
	r = api_call(&c->api, &call, &box, err);
	return r < 0 ? r : cmd_usage_print(&now, &box.limits, err);
}

const struct cmd cmd_limits = {
	.name = "limits",
	.args = "[OPTION...] SANDBOX",
	.operands = { OPERAND_SANDBOX },
	.min = 1,
	.max = 1,
	.options = options,
	.size = sizeof(struct limits_args),
	.help = "Change what a sandbox may use while it runs, and print what it may then",
	.run = cmd_limits_run,
};

const struct cmd cmd_usage = {
	.name = "usage",
	.args = "[--json] SANDBOX",
	.operands = { OPERAND_SANDBOX },
	.min = 1,
	.max = 1,
	.options = usage_options,
	.size = sizeof(struct json_args),
	.help = "Show what a sandbox uses, beside what it may",
	.run = cmd_usage_run,
};
