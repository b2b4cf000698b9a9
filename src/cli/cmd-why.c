/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/reason.h"
#include "cli/rows.h"
#include "cli/show.h"
#include "text/quantity.h"

static const struct opt_group options[] = { OPTS(opts_json, 0), OPTS_END };

#define LINE_MAX KIB(32)

/* A row: what it is, and words about it. */
__attribute__((format(printf, 3, 4))) static int say(struct show_table *t, const char *what,
						     const char *fmt, ...)
{
	auto_buf text = BUF_INIT(LINE_MAX);
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = buf_vprintf(&text, fmt, ap);
	va_end(ap);
	if (r >= 0)
		r = show_cell(t, what);
	return r < 0 ? r : show_cell(t, buf_str(&text));
}

static int say_labels(struct show_table *t, const struct field_map *labels)
{
	auto_buf text = BUF_INIT(LINE_MAX);
	int r = 0;

	for (size_t i = 0; r >= 0 && i < labels->n; i++)
		r = buf_printf(&text, "%s%s=%s", i ? " " : "", labels->keys[i], labels->values[i]);
	return r < 0 || !labels->n ? r : say(t, "labels", "%s", buf_str(&text));
}

static int say_what(struct show_table *t, const struct sandbox *s)
{
	char id[ID_TEXT_LEN + 1], memory[QUANTITY_TEXT_MAX];
	int r;

	id_format(&s->id, id);
	quantity_format(s->limits.memory_bytes, memory);
	r = s->name ? say(t, "sandbox", "%s, %s", s->name, id) : say(t, "sandbox", "%s", id);
	if (r >= 0)
		r = say(t, "image", "%s, by %s", s->image, runtime_names[s->runtime]);
	if (r >= 0)
		r = say(t, "limits", "memory %s, cpu %llum, pids %llu", memory,
			(unsigned long long)s->limits.cpu_milli,
			(unsigned long long)s->limits.pids);
	if (r >= 0 && s->group)
		r = say(t, "group", "%s", s->group);
	return r < 0 ? r : say_labels(t, &s->labels);
}

/* "2026-11-15T01:50:43.123Z, 3 min ago" */
static int say_ago(struct show_table *t, const char *what, uint64_t then, uint64_t now)
{
	char at[CLK_TEXT_LEN + 1], age[SHOW_AGE_MAX];

	clk_text(then, at);
	show_age(now, then, age);
	return say(t, what, "%s, %s ago", at, age);
}

static int say_life(struct show_table *t, const struct sandbox *s, uint64_t now)
{
	char at[CLK_TEXT_LEN + 1], left[SHOW_AGE_MAX];
	int r = say(t, "state", "%s: it has not ended",
		    rows_choice(&sandbox_table, "state", s->state));

	if (r >= 0)
		r = say_ago(t, "since", s->changed_ns, now);
	if (r >= 0)
		r = say_ago(t, "last request", s->active_ns, now);
	if (r < 0 || !s->has_expires)
		return r < 0 ? r : say(t, "deadline", "none");
	clk_text(s->expires_ns, at);
	show_age(s->expires_ns, now, left);
	return say(t, "deadline", "%s, in %s", at, left);
}

static int say_memory(struct show_table *t, const struct end *end)
{
	char limit[QUANTITY_TEXT_MAX], peak[QUANTITY_TEXT_MAX];

	if (!end->has_memory_limit || !end->has_memory_peak)
		return 0;
	quantity_format(end->memory_limit_bytes, limit);
	quantity_format(end->memory_peak_bytes, peak);
	return say(t, "memory", "limit %s, peak %s", limit, peak);
}

static int say_evidence(struct show_table *t, const struct end *end)
{
	int r = say(t, "reason", "%s: %s", rows_choice(&end_table, "reason", end->reason),
		    reasons[end->reason].words);

	if (r >= 0 && end->has_exit_code)
		r = say(t, "exit code", "%llu", (unsigned long long)end->exit_code);
	if (r >= 0 && end->signal)
		r = say(t, "signal", "%s", end->signal);
	if (r >= 0 && end->detail && end->detail[0])
		r = say(t, "evidence", "%s", end->detail);
	if (r >= 0)
		r = say_memory(t, end);
	if (r >= 0 && end->inferred)
		r = say(t, "certainty", "concluded from other facts; the kernel could not tell");
	return r < 0 ? r : say(t, "next", "%s", reasons[end->reason].advice);
}

static int say_end(struct show_table *t, const struct sandbox *s, uint64_t now)
{
	char lived[SHOW_AGE_MAX];
	int r = say(t, "state", "%s", rows_choice(&sandbox_table, "state", s->state));

	show_age(s->changed_ns, s->created_ns, lived);
	if (r >= 0)
		r = say_ago(t, "ended", s->changed_ns, now);
	if (r >= 0)
		r = say(t, "lived", "%s", lived);
	return r;
}

static int describe(const struct sandbox *s, struct show_table *t)
{
	bool over = s->state == SB_TERMINATED || s->state == SB_FAILED;
	uint64_t now = clk_wall_ns(&clk_system);
	int r = say_what(t, s);

	if (r >= 0)
		r = say_ago(t, "created", s->created_ns, now);
	if (r >= 0)
		r = over ? say_end(t, s, now) : say_life(t, s, now);
	if (r >= 0 && s->has_end)
		r = say_evidence(t, &s->end);
	else if (r >= 0 && over)
		r = say(t, "reason", "nobody said");
	return r;
}

static int run(struct cli *c, const void *args, const struct opt_words *w, struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(256));
	auto_table table = show_table_of(2);
	struct sandbox s = {};
	struct id id;
	int r = api_find_any(&c->api, w->operands[0], &id, err);

	if (r >= 0)
		r = api_call(&c->api, &(struct api_call){ .op = OP_SANDBOX_GET, .ids = { id } }, &s,
			     err);
	if (r < 0)
		return r;
	if (((const struct json_args *)args)->json)
		return print_json(&sandbox_table, &s, err);
	if (describe(&s, &table) < 0 || show_table_write(&table, &out) < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	return show_out(&out, err);
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
	.run = run,
};
