/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/profiles/profile-parts.h"

#define LEVELS 2

const char *const anthropic_commands[] = { "view", "create", "str_replace", "insert", NULL };

static int anthropic_refuse_missing_arg(struct cay_err *err, const char *arg, const char *command)
{
	return cay_fail_field(err, CAY_E_INVALID, arg, "is required for %s", command);
}

int anthropic_bash_next_call(struct tool_run *run, struct cay_err *err)
{
	struct shell_tool_request want = { .name = "bash",
					   .command = tool_run_arg_text(run, "command"),
					   .restart = tool_run_arg_bool(run, "restart"),
					   .timeout_ms = tool_run_timeout_ms(run, 0) };

	if (want.restart)
		want.command = NULL;
	else if (!want.command)
		return cay_fail_field(err, CAY_E_INVALID, "command", "is missing");
	return shell_tool_next_call(run, &want, err);
}

int anthropic_bash_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	const json_t *j = run->answer.json, *end = json_object_get(j, "end");

	if (tool_run_arg_bool(run, "restart")) {
		tool_result_add_text(out, SLICE("tool has been restarted."));
		return 0;
	}
	if (!json_is_object(j))
		return cay_fail(err, CAY_E_MISBEHAVED, "the sandbox returned no result");
	tool_result_add_streams(j, "", out);
	if (!str_eq(json_member_str(end, "reason"), "exit") || json_member_number(end, "exit_code"))
		tool_result_add_exit(run, end, out);
	return 0;
}

static int anthropic_create_next_call(struct tool_run *run, struct cay_err *err)
{
	int r;

	if (!json_object_get(run->args, "file_text"))
		return anthropic_refuse_missing_arg(err, "file_text", "create");
	r = tool_run_call(run, OP_FILE_WRITE, err, "{s:s, s:b}", "path",
			  tool_run_arg_text(run, "path"), "parents", true);
	run->call.body = json_member_text(run->args, "file_text");
	return r;
}

static int anthropic_change_next_call(struct tool_run *run, const char *name, struct cay_err *err)
{
	const char *old = tool_run_arg_text(run, "old_str"),
		   *new = tool_run_arg_text(run, "new_str");
	bool insert = str_eq(name, "insert");

	if (insert && !json_object_get(run->args, "insert_line"))
		return anthropic_refuse_missing_arg(err, "insert_line", name);
	if (insert && !new)
		return anthropic_refuse_missing_arg(err, "new_str", name);
	if (!insert && !old)
		return anthropic_refuse_missing_arg(err, "old_str", name);
	return file_edit_begin_call(run, tool_run_arg_text(run, "path"),
				    insert ? "insert" : "replace", insert ? NULL : old,
				    new ? new : "", tool_run_arg_number(run, "insert_line"), err);
}

/* view_range, as a first line and a count. */
static int anthropic_read_view_range(const struct tool_run *run, uint64_t *first, uint64_t *limit,
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

/* Its type first, then its contents. */
static int anthropic_view_next_call(struct tool_run *run, struct cay_err *err)
{
	const char *path = tool_run_arg_text(run, "path");
	uint64_t first, limit;
	int r = anthropic_read_view_range(run, &first, &limit, err);

	if (r < 0)
		return r;
	if (run->step == 0)
		return tool_run_call(run, OP_FILE_STAT, err, "{s:s, s:b}", "path", path, "follow",
				     true);
	if (run->call.op == OP_FILE_LIST)
		return TOOL_FINISHED;
	if (run->step > 1 || !str_eq(json_member_str(run->answer.json, "type"), "directory")) {
		run->step--; /* file_view_next_call() counts from here */
		r = file_view_next_call(run, path, first, limit, err);
		run->step++;
		return r;
	}
	return tool_run_call(run, OP_FILE_LIST, err, "{s:s, s:i}", "path", path, "depth", LEVELS);
}

int anthropic_edit_next_call(struct tool_run *run, struct cay_err *err)
{
	const char *command = tool_run_arg_text(run, "command");

	if (str_eq(command, "view"))
		return anthropic_view_next_call(run, err);
	if (run->step)
		return TOOL_FINISHED;
	return str_eq(command, "create") ? anthropic_create_next_call(run, err)
					 : anthropic_change_next_call(run, command, err);
}

static int anthropic_dir_write_result(struct tool_run *run, struct tool_result *out)
{
	const json_t *j = run->answer.json, *e;
	auto_lines lines = RESULT_LINES_INIT;
	size_t i;

	json_array_foreach(json_object_get(j, "entries"), i, e)
	{
		auto_buf name = BUF_INIT(KIB(8));

		if (json_member_filename(e, "path", &name) >= 0 && name.data && name.data[0] != '.')
			result_lines_printf(
				&lines, "%s/%s%s", tool_run_arg_text(run, "path"), name.data,
				str_eq(json_member_str(e, "type"), "directory") ? "/" : "");
	}
	return result_lines_end(&lines, "[empty directory]", json_member_true(j, "truncated"), out);
}

int anthropic_edit_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	struct slice diff = json_member_text(run->answer.json, "diff");
	const char *path = tool_run_arg_text(run, "path");

	if (run->call.op == OP_FILE_LIST)
		return anthropic_dir_write_result(run, out);
	if (run->call.op == OP_FILE_VIEW || run->call.op == OP_FILE_READ)
		return file_view_write_result(run, out, err);
	if (run->call.op == OP_FILE_WRITE) {
		return tool_result_printf(out, "File created successfully at: %s", path);
	}
	tool_result_printf(out, "The file %s has been edited.", path);
	if (diff.n)
		tool_result_add_cut(out, diff, RESULT_OUTPUT, NULL);
	return 0;
}
