/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "mcp/profile-parts.h"

#define LEVELS 2

const char *const anthropic_commands[] = { "view", "create", "str_replace", "insert", NULL };

static int missing(struct cay_err *err, const char *arg, const char *command)
{
	return cay_fail_field(err, CAY_E_INVALID, arg, "is required for %s", command);
}

int anthropic_ask_bash(struct tool_run *run, struct cay_err *err)
{
	struct part_shell want = { .name = "bash",
				   .command = run_arg(run, "command"),
				   .restart = run_arg_bool(run, "restart"),
				   .timeout_ms = part_timeout(run) };

	if (want.restart)
		want.command = NULL;
	else if (!want.command)
		return cay_fail_field(err, CAY_E_INVALID, "command", "is missing");
	return part_shell_ask(run, &want, err);
}

int anthropic_show_bash(struct tool_run *run, struct result *out, struct cay_err *err)
{
	const json_t *j = run->answer.json, *end = json_object_get(j, "end");
	uint64_t status = part_number(end, "exit_code");

	if (run_arg_bool(run, "restart")) {
		result_text(out, SLICE("tool has been restarted."));
		return 0;
	}
	if (!json_is_object(j))
		return cay_fail(err, CAY_E_MISBEHAVED, "the sandbox did not say how it ended");
	part_stream(j, "stdout", "", out);
	part_stream(j, "stderr", "", out);
	/* a command that fails is no failure of the tool */
	if (!json_object_get(end, "exit_code"))
		part_end(end, out);
	else if (status)
		result_printf(out, "[exit %" PRIu64 "]", status);
	return 0;
}

static int ask_create(struct tool_run *run, struct cay_err *err)
{
	const json_t *text = json_object_get(run->args, "file_text");
	int r;

	if (!text)
		return missing(err, "file_text", "create");
	run_call(run, OP_FILE_WRITE);
	run->call.body = (struct slice){ json_string_value(text), json_string_length(text) };
	r = run_text(run, "path", run_arg(run, "path"), err);
	return r < 0 ? r : run_set(run, "parents", json_true(), err);
}

static int ask_change(struct tool_run *run, const char *command, struct cay_err *err)
{
	const char *old = run_arg(run, "old_str"), *new = run_arg(run, "new_str");
	bool insert = str_eq(command, "insert");

	if (insert && !json_object_get(run->args, "insert_line"))
		return missing(err, "insert_line", command);
	if (insert && !new)
		return missing(err, "new_str", command);
	if (!insert && !old)
		return missing(err, "old_str", command);
	return part_edit(run, run_arg(run, "path"), insert ? "insert" : "replace",
			 insert ? NULL : old, new ? new : "", run_arg_number(run, "insert_line"),
			 err);
}

/* view_range, as a first line and a count. */
static int range_of(const struct tool_run *run, uint64_t *first, uint64_t *limit,
		    struct cay_err *err)
{
	const json_t *range = json_object_get(run->args, "view_range");
	json_int_t from = json_integer_value(json_array_get(range, 0));
	json_int_t to = json_integer_value(json_array_get(range, 1));

	*first = 1;
	*limit = 100000;
	if (!range)
		return 0;
	if (from < 1 || (to != -1 && to < from) || to - from >= (json_int_t)*limit)
		return cay_fail_field(
			err, CAY_E_INVALID, "view_range",
			"must be [start, end] with 1 <= start <= end, or [start, -1]");
	*first = (uint64_t)from;
	if (to != -1)
		*limit = (uint64_t)(to - from + 1);
	return 0;
}

/* What it is, then what is in it. */
static int ask_view(struct tool_run *run, struct cay_err *err)
{
	const char *path = run_arg(run, "path");
	uint64_t first, limit;
	int r = range_of(run, &first, &limit, err);

	if (r < 0)
		return r;
	if (run->step == 0) {
		run_call(run, OP_FILE_STAT);
		r = run_text(run, "path", path, err);
		return r < 0 ? r : run_set(run, "follow", json_true(), err);
	}
	if (run->call.op == OP_FILE_LIST)
		return TOOL_SHOWN;
	if (run->step > 1 || !str_eq(part_str(run->answer.json, "type"), "directory")) {
		run->step--; /* the rest counts from here */
		r = part_view_ask(run, path, first, limit, err);
		run->step++;
		return r;
	}
	run_call(run, OP_FILE_LIST);
	r = run_text(run, "path", path, err);
	return r < 0 ? r : run_number(run, "depth", LEVELS, err);
}

int anthropic_ask_edit(struct tool_run *run, struct cay_err *err)
{
	const char *command = run_arg(run, "command");

	if (str_eq(command, "view"))
		return ask_view(run, err);
	if (run->step)
		return TOOL_SHOWN;
	return str_eq(command, "create") ? ask_create(run, err) : ask_change(run, command, err);
}

static int show_dir(struct tool_run *run, struct result *out)
{
	const json_t *j = run->answer.json, *e;
	auto_lines lines = PART_LINES_INIT;
	size_t i;

	json_array_foreach(json_object_get(j, "entries"), i, e)
	{
		auto_buf name = BUF_INIT(KIB(8));

		if (part_name(e, "path", &name) >= 0 && name.data && name.data[0] != '.')
			part_line(&lines, "%s/%s%s", run_arg(run, "path"), name.data,
				  str_eq(part_str(e, "type"), "directory") ? "/" : "");
	}
	part_lines_show(&lines, "[an empty directory]",
			json_is_true(json_object_get(j, "truncated")), out);
	return 0;
}

int anthropic_show_edit(struct tool_run *run, struct result *out, struct cay_err *err)
{
	struct slice diff = part_text(run->answer.json, "diff");
	const char *path = run_arg(run, "path");

	if (run->call.op == OP_FILE_LIST)
		return show_dir(run, out);
	if (run->call.op == OP_FILE_VIEW || run->call.op == OP_FILE_READ)
		return part_view_show(run, out, err);
	if (run->call.op == OP_FILE_WRITE) {
		result_printf(out, "File created successfully at: %s", path);
		return 0;
	}
	result_printf(out, "The file %s has been edited.", path);
	if (diff.n)
		result_cut(out, diff, RESULT_TEXT / 2, NULL);
	return 0;
}
