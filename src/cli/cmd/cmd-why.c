/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "cli/print/list.h"
#include "cli/print/reason.h"
#include "text/quantity.h"

#define LINE_MAX KIB(32)

static void cmd_why_add_labels(struct print_table *t, const struct field_map *labels)
{
	auto_buf text = BUF_INIT(LINE_MAX);
	int r = 0;

	for (size_t i = 0; r >= 0 && i < labels->n; i++)
		r = buf_printf(&text, "%s%s=%s", i ? " " : "", labels->keys[i], labels->values[i]);
	if (r < 0)
		t->failed = r;
	if (labels->n)
		print_table_add_pair(t, "labels", "%s", buf_str(&text));
}

static void cmd_why_add_identity(struct print_table *t, const struct sandbox_info *s)
{
	char id[ID_TEXT_LEN + 1], memory[QUANTITY_TEXT_MAX];

	id_format(&s->id, id);
	quantity_format(s->limits.memory_bytes, memory);
	print_table_add_pair(t, "sandbox", "%s%s%s", s->name ? s->name : "", s->name ? ", " : "",
			     id);
	print_table_add_pair(t, "image", "%s, by %s", s->image, runtime_names[s->runtime]);
	print_table_add_pair(t, "limits", "memory %s, cpu %llum, pids %llu", memory,
			     (unsigned long long)s->limits.cpu_milli,
			     (unsigned long long)s->limits.pids);
	if (s->group)
		print_table_add_pair(t, "group", "%s", s->group);
	cmd_why_add_labels(t, &s->labels);
}

/* "2026-11-15T01:50:43.123Z, 3 min ago" */
static void cmd_why_add_time_ago(struct print_table *t, const char *what, uint64_t then,
				 uint64_t now)
{
	char at[CLK_TEXT_LEN + 1], age[PRINT_AGE_MAX];

	clk_format_rfc3339(then, at);
	print_age_format(now, then, age);
	print_table_add_pair(t, what, "%s, %s ago", at, age);
}

static void cmd_why_add_live_state(struct print_table *t, const struct sandbox_info *s,
				   uint64_t now)
{
	char at[CLK_TEXT_LEN + 1], left[PRINT_AGE_MAX];

	print_table_add_pair(
		t, "state", "%s: %s", field_choice_name(&sandbox_info_table, "state", s->state),
		!s->dozing               ? "it has not ended"
		: s->wake == WAKE_BY_KEY ? "it dozes, because it was idle; a request wakes it"
					 : "it dozes, because it was idle; 'cay resume' wakes it");
	cmd_why_add_time_ago(t, "since", s->changed_ns, now);
	cmd_why_add_time_ago(t, "last request", s->active_ns, now);
	if (!s->has_expires) {
		print_table_add_pair(t, "deadline", "none");
		return;
	}
	clk_format_rfc3339(s->expires_ns, at);
	print_age_format(s->expires_ns, now, left);
	print_table_add_pair(t, "deadline", "%s, in %s", at, left);
}

static void cmd_why_add_end_reason(struct print_table *t, const struct end *end)
{
	char limit[QUANTITY_TEXT_MAX], peak[QUANTITY_TEXT_MAX];

	print_table_add_pair(t, "reason", "%s: %s",
			     field_choice_name(&end_table, "reason", end->reason),
			     reasons[end->reason].words);
	if (end->has_blame)
		print_table_add_pair(t, "blame", "%s%s", blame_names[end->blame],
				     end->retryable ? "; the same can succeed when created again"
						    : "");
	if (end->has_exit_code)
		print_table_add_pair(t, "exit code", "%llu", (unsigned long long)end->exit_code);
	if (end->signal)
		print_table_add_pair(t, "signal", "%s", end->signal);
	if (end->detail && end->detail[0])
		print_table_add_pair(t, "evidence", "%s", end->detail);
	if (end->has_memory_limit && end->has_memory_peak) {
		quantity_format(end->memory_limit_bytes, limit);
		quantity_format(end->memory_peak_bytes, peak);
		print_table_add_pair(t, "memory", "limit %s, peak %s", limit, peak);
	}
	if (end->has_used) {
		quantity_format(end->used.memory_peak_bytes, peak);
		print_table_add_pair(t, "used", "%llu.%llu s of CPU, at most %s of memory",
				     (unsigned long long)(end->used.cpu_ms / 1000),
				     (unsigned long long)(end->used.cpu_ms / 100 % 10), peak);
	}
	if (end->inferred)
		print_table_add_pair(t, "certainty",
				     "inferred; the kernel did not report the cause");
	print_table_add_pair(t, "next", "%s", reasons[end->reason].advice);
}

static void cmd_why_add_end_state(struct print_table *t, const struct sandbox_info *s, uint64_t now)
{
	char lived[PRINT_AGE_MAX];

	print_age_format(s->changed_ns, s->created_ns, lived);
	print_table_add_pair(t, "state", "%s",
			     field_choice_name(&sandbox_info_table, "state", s->state));
	cmd_why_add_time_ago(t, "ended", s->changed_ns, now);
	print_table_add_pair(t, "lived", "%s", lived);
}

static int cmd_why_print(const void *reply, struct cay_err *err)
{
	const struct sandbox_info *s = reply;
	bool over = s->state == SB_TERMINATED || s->state == SB_FAILED;
	auto_table t = print_table_create(2);
	uint64_t now = clk_wall_ns(&clk_system);

	cmd_why_add_identity(&t, s);
	cmd_why_add_time_ago(&t, "created", s->created_ns, now);
	if (over)
		cmd_why_add_end_state(&t, s, now);
	else
		cmd_why_add_live_state(&t, s, now);
	if (s->has_end)
		cmd_why_add_end_reason(&t, &s->end);
	else if (over)
		print_table_add_pair(&t, "reason", "not recorded");
	return print_table_stdout(&t, err);
}

const struct cmd cmd_why = {
	CMD_USAGE("why", "[--json] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_ANY_SANDBOX),
	.help = "Show why a sandbox ended and what to do next",
	.more = "A name refers to the running sandbox or, if there is none, to the one that ended "
		"last. For a sandbox that has not ended, shows its state and deadline.",
	.op = OP_SANDBOX_GET,
	.print = cmd_why_print,
};
