/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/cmd.h"
#include "cli/progress.h"
#include "cli/show.h"
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
};

static const struct opt_group options[] = {
	OPTS(rows, 0),
	OPTS_JSON(limits_args, json),
	OPTS_END,
};
static const struct opt_group usage_options[] = { OPTS(opts_json, 0), OPTS_END };

static int say_cores(uint64_t milli, char *to, size_t size)
{
	return milli % 1000 ? snprintf(to, size, "%llum", (unsigned long long)milli)
			    : snprintf(to, size, "%llu", (unsigned long long)(milli / 1000));
}

static int print_limits(const struct limits *l, struct cay_err *err)
{
	auto_buf out = BUF_INIT(256);
	char memory[QUANTITY_TEXT_MAX], cores[24];

	quantity_format(l->memory_bytes, memory);
	if (say_cores(l->cpu_milli, cores, sizeof(cores)) < 0 ||
	    buf_printf(&out, "memory=%s\ncpu=%s\npids=%llu\n", memory, cores,
		       (unsigned long long)l->pids) < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	return show_out(&out, err);
}

static int run_limits(struct cli *c, const void *args, const struct opt_words *w,
		      struct cay_err *err)
{
	const struct limits_args *a = args;
	struct limits_change request = { .memory_bytes = a->want.memory_bytes,
					 .cpu_milli = a->want.cpu_milli,
					 .pids = a->want.pids,
					 .has_memory = a->want.memory_bytes,
					 .has_cpu = a->want.cpu_milli,
					 .has_pids = a->want.pids };
	struct api_call call = { .op = OP_SANDBOX_GET };
	struct sandbox now = {};
	int r = api_find_sandbox(&c->api, w->operands[0], &call.ids[0], err);

	if (request.has_memory || request.has_cpu || request.has_pids) {
		call.op = OP_SANDBOX_LIMITS;
		call.request = &request;
	}
	if (r >= 0)
		r = api_call(&c->api, &call, &now, err);
	if (r < 0)
		return r;
	return a->json.json ? print_json(&sandbox_table, &now, err)
			    : print_limits(&now.limits, err);
}

/* One row: what it uses, the most it ever did, what it may. */
static int add_row(struct show_table *t, const char *what, const struct buf cells[static 3])
{
	int r = show_cell(t, what);

	for (size_t i = 0; r >= 0 && i < 3; i++)
		r = show_cell(t, cells[i].len ? cells[i].data : "-");
	return r;
}

static int add_memory(struct show_table *t, const struct usage *u, uint64_t limit)
{
	uint64_t bytes[] = { u->memory_bytes, u->memory_peak_bytes, limit };
	auto_buf used = BUF_INIT(64), peak = BUF_INIT(64), most = BUF_INIT(64);
	struct buf *to[] = { &used, &peak, &most };
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(bytes); i++)
		r = progress_size(bytes[i], to[i]);
	return r < 0 ? r : add_row(t, "memory", (const struct buf[]){ used, peak, most });
}

static int add_cpu(struct show_table *t, const struct usage *u, uint64_t limit)
{
	auto_buf used = BUF_INIT(64), most = BUF_INIT(64);
	char cores[24];

	if (say_cores(limit, cores, sizeof(cores)) < 0 ||
	    buf_printf(&used, "%llu.%llu s", (unsigned long long)(u->cpu_ms / 1000),
		       (unsigned long long)(u->cpu_ms / 100 % 10)) < 0 ||
	    buf_printf(&most, "%s", cores) < 0)
		return -ENOMEM;
	return add_row(t, "cpu", (const struct buf[]){ used, {}, most });
}

static int add_pids(struct show_table *t, const struct usage *u, uint64_t limit)
{
	auto_buf used = BUF_INIT(64), most = BUF_INIT(64);

	if (buf_printf(&used, "%llu", (unsigned long long)u->processes) < 0 ||
	    buf_printf(&most, "%llu", (unsigned long long)limit) < 0)
		return -ENOMEM;
	return add_row(t, "pids", (const struct buf[]){ used, {}, most });
}

static int print_usage(const struct usage *u, const struct limits *l, struct cay_err *err)
{
	static const char *const heads[] = { "WHAT", "USED", "PEAK", "LIMIT" };
	auto_table t = show_table_of(ARRAY_SIZE(heads));
	auto_buf out = BUF_INIT(KIB(4));
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(heads); i++)
		r = show_cell(&t, heads[i]);
	if (r >= 0)
		r = add_memory(&t, u, l->memory_bytes);
	if (r >= 0)
		r = add_cpu(&t, u, l->cpu_milli);
	if (r >= 0)
		r = add_pids(&t, u, l->pids);
	if (r >= 0)
		r = show_table_write(&t, &out);
	if (r >= 0 && u->oom_kills)
		r = buf_printf(&out, "%llu killed for want of memory\n",
			       (unsigned long long)u->oom_kills);
	return r < 0 ? cay_fail(err, CAY_E_NO_MEMORY, "no memory") : show_out(&out, err);
}

static int run_usage(struct cli *c, const void *args, const struct opt_words *w,
		     struct cay_err *err)
{
	struct api_call call = { .op = OP_SANDBOX_USAGE };
	struct sandbox box = {};
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
	return r < 0 ? r : print_usage(&now, &box.limits, err);
}

const struct cmd cmd_limits = {
	.name = "limits",
	.args = "[OPTION...] SANDBOX",
	.min = 1,
	.max = 1,
	.options = options,
	.size = sizeof(struct limits_args),
	.help = "Change what a sandbox may use while it runs, and print what it may then",
	.run = run_limits,
};

const struct cmd cmd_usage = {
	.name = "usage",
	.args = "[--json] SANDBOX",
	.min = 1,
	.max = 1,
	.options = usage_options,
	.size = sizeof(struct json_args),
	.help = "Show what a sandbox uses, beside what it may",
	.run = run_usage,
};
