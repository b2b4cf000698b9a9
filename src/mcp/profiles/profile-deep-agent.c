/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "mcp/profiles/profile-output.h"

#define BACKGROUND_MS 600000

const char *const deep_modes[] = { "content", "files_only", "count", NULL };

/* Background: create a file for the output, then start the command that writes to it. */
static int deep_background_next_call(struct tool_run *run, struct cay_err *err)
{
	const char *file = json_member_str(run->answer.json, "stdout"), *kept;
	size_t n = strcspn(file, "\n");

	if (run->step == 0)
		return tool_run_call(run, OP_EXEC_RUN, err, "{s:[s, s]}", "argv", "mktemp",
				     "/tmp/bash-XXXXXX");
	kept = n && file[0] == '/' ? arena_strndup(&run->arena, file, n) : NULL;
	if (!kept)
		return cay_fail(err, CAY_E_MISBEHAVED,
				"the sandbox could not create a file for the output");
	run->tool_state = (void *)(uintptr_t)kept;
	return tool_run_call(run, OP_EXEC_RUN, err, "{s:[s, s, s, s, s, s], s:b, s:i}", "argv",
			     "sh", "-c", "exec >\"$1\" 2>&1; eval \"$2\"", "sh", kept,
			     tool_run_arg_text(run, "command"), "detach", true, "timeout_ms",
			     BACKGROUND_MS);
}

int deep_bash_next_call(struct tool_run *run, struct cay_err *err)
{
	int r;

	if (tool_run_arg_bool(run, "run_in_background") && run->step < 2)
		return deep_background_next_call(run, err);
	if (run->step)
		return TOOL_FINISHED;
	r = tool_run_call(
		run, OP_EXEC_RUN, err, "{s:s, s:I}", "shell", tool_run_arg_text(run, "command"),
		"timeout_ms",
		(json_int_t)tool_run_timeout_ms(run, tool_run_arg_number(run, "timeout_ms")));
	return r < 0 ? r : exec_tool_limit_output(run, err);
}

int deep_bash_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	auto_buf text = BUF_INIT(OUTPUT_TEXT_MAX);
	const json_t *j = run->answer.json;

	if (!json_is_object(j))
		return cay_fail(err, CAY_E_MISBEHAVED, "the sandbox returned no result");
	if (tool_run_arg_bool(run, "run_in_background")) {
		return tool_result_printf(out, "Running in the background as %.32s. Output: %s",
					  json_member_str(j, "id"), (const char *)run->tool_state);
	}
	tool_result_note_failure(out, output_add_lines(run, &text));
	if (text.len)
		tool_result_add_text(out, (struct slice){ text.data, text.len });
	tool_result_add_exit(run, json_object_get(j, "end"), out);
	return 0;
}

int deep_glob_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *list = json_object_get(run->answer.json, "files"), *f;
	const char *where = tool_run_arg_text(run, "path");
	auto_lines lines = RESULT_LINES_INIT;
	size_t i;

	json_array_foreach(list, i, f)
	{
		auto_buf name = BUF_INIT(KIB(8));

		if (json_member_filename(f, "path", &name) >= 0)
			result_lines_printf(&lines, "%s%s%s", where ? where : "", where ? "/" : "",
					    buf_str(&name));
	}
	return result_lines_end(
		&lines, "No files found",
		json_member_number(run->answer.json, "total") > json_array_size(list), out);
}

int deep_grep_next_call(struct tool_run *run, struct cay_err *err)
{
	const char *glob = tool_run_arg_text(run, "glob");
	bool names = str_eq(tool_run_arg_text(run, "output_mode"), "files_only");
	int r = tool_run_default_call(run, err);

	if (r == TOOL_NEXT_CALL && glob)
		r = tool_run_set(run, err, "{s:[s]}", "include", glob);
	if (r == TOOL_NEXT_CALL && names)
		r = tool_run_set(run, err, "{s:i}", "per_file", 1);
	return r == TOOL_NEXT_CALL ? tool_run_set(run, err, "{s:i}", "width", 2000) : r;
}

/* The files in order, each with its number of matches. */
static void deep_grep_write_counts(const json_t *hits, bool counts, struct result_lines *lines)
{
	const json_t *h;
	size_t i, n = 0;

	json_array_foreach(hits, i, h)
	{
		const json_t *next = json_array_get(hits, i + 1);

		n += json_object_get(h, "column") != NULL;
		if (next && str_eq(json_member_str(next, "path"), json_member_str(h, "path")))
			continue;
		if (counts)
			result_lines_printf(lines, "%s:%zu", json_member_str(h, "path"), n);
		else
			result_lines_printf(lines, "%s", json_member_str(h, "path"));
		n = 0;
	}
}

int deep_grep_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	const char *mode = tool_run_arg_text(run, "output_mode");
	const json_t *j = run->answer.json;
	auto_lines lines = RESULT_LINES_INIT;

	if (str_eq(mode, "content"))
		return native_grep_write_result(run, out, err);
	deep_grep_write_counts(json_object_get(j, "hits"), str_eq(mode, "count"), &lines);
	return result_lines_end(&lines, "No matches found", json_member_true(j, "truncated"), out);
}

int deep_read_next_call(struct tool_run *run, struct cay_err *err)
{
	return file_view_next_call(run, tool_run_arg_text(run, "file_path"),
				   tool_run_arg_number(run, "offset"),
				   tool_run_arg_number(run, "limit"), err);
}

int deep_write_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	return tool_result_printf(out, "Wrote %" PRIu64 " bytes to %s",
				  json_member_number(run->answer.json, "size"),
				  tool_run_arg_text(run, "file_path"));
}

int deep_edit_next_call(struct tool_run *run, struct cay_err *err)
{
	if (run->step)
		return TOOL_FINISHED;
	return file_edit_begin_call(
		run, tool_run_arg_text(run, "file_path"),
		tool_run_arg_bool(run, "replace_all") ? "replace_all" : "replace",
		tool_run_arg_text(run, "old_string"), tool_run_arg_text(run, "new_string"), 0, err);
}
