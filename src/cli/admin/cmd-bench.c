/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "cli/admin/bench-stats.h"
#include "cli/core/command.h"
#include "cli/exec/session.h"
#include "cli/print/print.h"

struct bench_args {
	uint64_t n;
	const char *image;
};

static const struct opt rows[] = {
	{ "n", 'n', OPT_U64, offsetof(struct bench_args, n), 1, BENCH_STATS_MAX, .arg = "N",
	  .help = "How many times; 20 by default" },
	{ "image", 0, OPT_TEXT, offsetof(struct bench_args, image), .operand = OPERAND_IMAGE,
	  .arg = "IMAGE", .help = "Image to use; base by default" },
};

enum bench_step { STEP_FIRST, STEP_EXEC, STEP_DELETE, STEP_NUM };

static const struct {
	const char *key, *title;
} steps[STEP_NUM] = {
	[STEP_FIRST] = { "create_to_output", "create to first output" },
	[STEP_EXEC] = { "exec", "exec round trip" },
	[STEP_DELETE] = { "delete", "delete" },
};

static int cmd_bench_exec_command(struct cli *c, const struct id *id, const char *const *argv,
				  size_t n, struct session_result *ret, struct cay_err *err)
{
	struct session_spec spec = {
		.sandbox = *id,
		.request = { .has_argv = true, .argv = { (const char **)(uintptr_t)argv, n } },
		.discard = true,
	};
	int r = session_run(&c->api, &spec, ret, err);

	if (r >= 0 && ret->quit)
		return cay_fail(err, CAY_E_UNAVAILABLE, "interrupted");
	if (r >= 0 && (ret->end.reason != END_EXIT || ret->end.exit_code))
		return cay_fail(err, CAY_E_MISBEHAVED, "'%s' failed in the sandbox", argv[0]);
	return r;
}

/* One sample of each step; the sandbox is removed also after a failure. */
static int cmd_bench_measure_once(struct cli *c, const char *image, uint64_t took[static STEP_NUM],
				  struct cay_err *err)
{
	static const char *const echo[] = { "/bin/echo", "here", NULL };
	static const char *const nothing[] = { "/bin/true", NULL };
	struct sandbox_create request = { .image = image };
	uint64_t t0 = clk_boot_ns(&clk_system), t1, t2;
	struct session_result first, second;
	struct sandbox_info made = {};
	struct cay_err gone = {};
	int r, removed;

	create_request_init(&request);
	create_request_mark_given(&request);
	r = api_call(&c->api, &(struct api_call){ .op = OP_SANDBOX_CREATE, .request = &request },
		     &made, err);
	if (r < 0)
		return r;
	r = cmd_bench_exec_command(c, &made.id, echo, 2, &first, err);
	if (r >= 0 && !first.first_ns)
		r = cay_fail(err, CAY_E_MISBEHAVED, "'echo' wrote nothing");
	t1 = clk_boot_ns(&clk_system);
	if (r >= 0)
		r = cmd_bench_exec_command(c, &made.id, nothing, 1, &second, err);
	t2 = clk_boot_ns(&clk_system);
	removed =
		api_call(&c->api, &(struct api_call){ .op = OP_SANDBOX_DELETE, .ids = { made.id } },
			 &(struct sandbox_info){}, &gone);
	if (r >= 0 && removed < 0) {
		*err = gone;
		return removed;
	}
	if (r < 0)
		return r;
	took[STEP_FIRST] = first.first_ns - t0;
	took[STEP_EXEC] = t2 - t1;
	took[STEP_DELETE] = clk_boot_ns(&clk_system) - t2;
	return 0;
}

static int cmd_bench_print_json(struct bench_stats s[static STEP_NUM], struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(16));
	struct jw w = jw_to(&out);

	jw_object_begin(&w, NULL);
	jw_u64(&w, "n", s[0].n);
	for (size_t i = 0; i < STEP_NUM; i++) {
		struct bench_stats_summary sum = bench_stats_summarise(&s[i]);

		jw_object_begin(&w, steps[i].key);
		jw_u64(&w, "min_us", sum.min / 1000);
		jw_u64(&w, "p50_us", sum.p50 / 1000);
		jw_u64(&w, "p99_us", sum.p99 / 1000);
		jw_u64(&w, "max_us", sum.max / 1000);
		jw_end(&w);
	}
	jw_end(&w);
	return print_json_finish(&w, &out, err);
}

static int cmd_bench_print_table(struct bench_stats s[static STEP_NUM], struct cay_err *err)
{
	static const char *const headings[] = { "STEP", "MIN", "P50", "P99" };
	auto_table t = print_table_create_headed(headings, ARRAY_SIZE(headings));

	for (size_t i = 0; i < STEP_NUM; i++) {
		struct bench_stats_summary sum = bench_stats_summarise(&s[i]);
		const uint64_t ns[] = { sum.min, sum.p50, sum.p99 };

		print_table_add_cell(&t, steps[i].title);
		for (size_t k = 0; k < ARRAY_SIZE(ns); k++)
			print_table_add_cellf(&t, "%llu.%02u ms",
					      (unsigned long long)(ns[k] / NS_PER_MS),
					      (unsigned)(ns[k] % NS_PER_MS / 10000));
	}
	return print_table_stdout(&t, err);
}

static int cmd_bench_measure_all(struct cli *c, const struct bench_args *a,
				 struct bench_stats samples[static STEP_NUM], struct cay_err *err)
{
	for (size_t k = 0; k < STEP_NUM; k++) {
		samples[k].ns = arena_alloc(&c->arena, a->n, sizeof(*samples[k].ns));
		if (!samples[k].ns)
			return cay_no_memory(err);
	}
	for (uint64_t i = 0; i < a->n; i++) {
		uint64_t took[STEP_NUM] = {};
		int r = cmd_bench_measure_once(c, a->image, took, err);

		if (r < 0)
			return r;
		for (size_t k = 0; k < STEP_NUM; k++)
			samples[k].ns[samples[k].n++] = took[k];
		interrupt_read_signals(&c->api.intr);
		if (c->api.intr.signo)
			return cay_fail(err, CAY_E_UNAVAILABLE, "interrupted");
	}
	return 0;
}

static int cmd_bench_run(struct cli *c, const struct opt_words *, struct cay_err *err)
{
	const struct bench_args *a = c->args;
	struct bench_stats samples[STEP_NUM] = {};
	int r = interrupt_open(&c->api.intr, err);

	if (r >= 0)
		r = cmd_bench_measure_all(c, a, samples, err);
	if (r < 0)
		return r;
	return c->global.json ? cmd_bench_print_json(samples, err)
			      : cmd_bench_print_table(samples, err);
}

const struct cmd cmd_bench = {
	CMD_USAGE("bench", "[-n N] [--image IMAGE] [--json]"),
	.needs = CMD_NEEDS_THIS_MACHINE,
	CMD_OPTIONS(bench_args, OPTS(rows, 0)),
	.defaults = &(const struct bench_args){ .n = 20, .image = "base" },
	.help = "Measure create to first output, exec round trip and delete",
	.run = cmd_bench_run,
};
