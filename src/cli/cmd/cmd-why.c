/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "base/clock.h"
#include "cli/core/command.h"
#include "cli/print/list.h"
#include "cli/print/print.h"
#include "cli/print/reason.h"
#include "text/quantity.h"

static const struct opt_group options[] = { OPTS(opts_json, 0), OPTS_END };

#define LINE_MAX KIB(32)

/* A row: what it is, and words about it. */
__attribute__((format(printf, 3, 4))) static int cmd_why_add_row(struct print_table *t,
								 const char *what, const char *fmt,
								 ...)
{
	auto_buf text = BUF_INIT(LINE_MAX);
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = buf_vprintf(&text, fmt, ap);
	va_end(ap);
	if (r >= 0)
		r = print_table_add_cell(t, what);
	return r < 0 ? r : print_table_add_cell(t, buf_str(&text));
}

static int cmd_why_add_labels(struct print_table *t, const struct field_map *labels)
{
	auto_buf text = BUF_INIT(LINE_MAX);
	int r = 0;

	for (size_t i = 0; r >= 0 && i < labels->n; i++)
		r = buf_printf(&text, "%s%s=%s", i ? " " : "", labels->keys[i], labels->values[i]);
	return r < 0 || !labels->n ? r : cmd_why_add_row(t, "labels", "%s", buf_str(&text));
}

static int cmd_why_add_identity(struct print_table *t, const struct sandbox_info *s)
{
	char id[ID_TEXT_LEN + 1], memory[QUANTITY_TEXT_MAX];
	int r;

	id_format(&s->id, id);
	quantity_format(s->limits.memory_bytes, memory);
	r = s->name ? cmd_why_add_row(t, "sandbox", "%s, %s", s->name, id)
		    : cmd_why_add_row(t, "sandbox", "%s", id);
	if (r >= 0)
		r = cmd_why_add_row(t, "image", "%s, by %s", s->image, runtime_names[s->runtime]);
	if (r >= 0)
		r = cmd_why_add_row(t, "limits", "memory %s, cpu %llum, pids %llu", memory,
				    (unsigned long long)s->limits.cpu_milli,
				    (unsigned long long)s->limits.pids);
	if (r >= 0 && s->group)
		r = cmd_why_add_row(t, "group", "%s", s->group);
	return r < 0 ? r : cmd_why_add_labels(t, &s->labels);
}

/* "2026-11-15T01:50:43.123Z, 3 min ago" */
static int cmd_why_add_time_ago(struct print_table *t, const char *what, uint64_t then,
				uint64_t now)
{
	char at[CLK_TEXT_LEN + 1], age[PRINT_AGE_MAX];

	clk_format_rfc3339(then, at);
	print_age_format(now, then, age);
	return cmd_why_add_row(t, what, "%s, %s ago", at, age);
}

static int cmd_why_add_live_state(struct print_table *t, const struct sandbox_info *s, uint64_t now)
{
	char at[CLK_TEXT_LEN + 1], left[PRINT_AGE_MAX];
	int r = cmd_why_add_row(t, "state", "%s: it has not ended",
				field_choice_name(&sandbox_info_table, "state", s->state));

	if (r >= 0)
		r = cmd_why_add_time_ago(t, "since", s->changed_ns, now);
	if (r >= 0)
		r = cmd_why_add_time_ago(t, "last request", s->active_ns, now);
	if (r < 0 || !s->has_expires)
		return r < 0 ? r : cmd_why_add_row(t, "deadline", "none");
	clk_format_rfc3339(s->expires_ns, at);
	print_age_format(s->expires_ns, now, left);
	return cmd_why_add_row(t, "deadline", "%s, in %s", at, left);
}

static int cmd_why_add_memory(struct print_table *t, const struct end *end)
{
	char limit[QUANTITY_TEXT_MAX], peak[QUANTITY_TEXT_MAX];

	if (!end->has_memory_limit || !end->has_memory_peak)
		return 0;
	quantity_format(end->memory_limit_bytes, limit);
	quantity_format(end->memory_peak_bytes, peak);
	return cmd_why_add_row(t, "memory", "limit %s, peak %s", limit, peak);
}

static int cmd_why_add_end_reason(struct print_table *t, const struct end *end)
{
	int r = cmd_why_add_row(t, "reason", "%s: %s",
				field_choice_name(&end_table, "reason", end->reason),
				reasons[end->reason].words);

	if (r >= 0 && end->has_exit_code)
		r = cmd_why_add_row(t, "exit code", "%llu", (unsigned long long)end->exit_code);
	if (r >= 0 && end->signal)
		r = cmd_why_add_row(t, "signal", "%s", end->signal);
	if (r >= 0 && end->detail && end->detail[0])
		r = cmd_why_add_row(t, "evidence", "%s", end->detail);
	if (r >= 0)
		r = cmd_why_add_memory(t, end);
	if (r >= 0 && end->inferred)
		r = cmd_why_add_row(t, "certainty",
				    "concluded from other facts; the kernel could not tell");
	return r < 0 ? r : cmd_why_add_row(t, "next", "%s", reasons[end->reason].advice);
}

static int cmd_why_add_end_state(struct print_table *t, const struct sandbox_info *s, uint64_t now)
{
	char lived[PRINT_AGE_MAX];
	int r = cmd_why_add_row(t, "state", "%s",
				field_choice_name(&sandbox_info_table, "state", s->state));

	print_age_format(s->changed_ns, s->created_ns, lived);
	if (r >= 0)
		r = cmd_why_add_time_ago(t, "ended", s->changed_ns, now);
	if (r >= 0)
		r = cmd_why_add_row(t, "lived", "%s", lived);
	return r;
}

static int cmd_why_describe_sandbox(const struct sandbox_info *s, struct print_table *t)
{
	bool over = s->state == SB_TERMINATED || s->state == SB_FAILED;
	uint64_t now = clk_wall_ns(&clk_system);
	int r = cmd_why_add_identity(t, s);

	if (r >= 0)
		r = cmd_why_add_time_ago(t, "created", s->created_ns, now);
	if (r >= 0)
		r = over ? cmd_why_add_end_state(t, s, now) : cmd_why_add_live_state(t, s, now);
	if (r >= 0 && s->has_end)
		r = cmd_why_add_end_reason(t, &s->end);
	else if (r >= 0 && over)
		r = cmd_why_add_row(t, "reason", "nobody said");
	return r;
}

static int cmd_why_run(struct cli *c, const void *args, const struct opt_words *w,
		       struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(256));
	auto_table table = print_table_create(2);
	struct sandbox_info s = {};
	struct id id;
	int r = api_find_any_sandbox(&c->api, w->operands[0], &id, err);

	if (r >= 0)
		r = api_call(&c->api, &(struct api_call){ .op = OP_SANDBOX_GET, .ids = { id } }, &s,
			     err);
	if (r < 0)
		return r;
	if (((const struct json_args *)args)->json)
		return print_json(&sandbox_info_table, &s, err);
	if (cmd_why_describe_sandbox(&s, &table) < 0 || print_table_write(&table, &out) < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	return print_stdout(&out, err);
}

const struct cmd cmd_why = {
	.name = "why",
	.args = "[--json] SANDBOX",
	.operands = { OPERAND_SANDBOX },
	.min = 1,
	.max = 1,
	.options = options,
	.size = sizeof(struct json_args),
	.help = "Say why a sandbox ended, by what evidence, and what to do next",
	.more = "A name is that of the sandbox that lives, else of the one that ended last. Of one "
		"that has not ended it says so, and its deadline.",
	.run = cmd_why_run,
};
