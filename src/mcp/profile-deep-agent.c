/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "mcp/profile-parts.h"

#define BACKGROUND_MS 600000

const char *const deep_modes[] = { "content", "files_only", "count", NULL };

/* In the background: a file of its own first, then the command that writes to it. */
static int ask_background(struct tool_run *run, struct cay_err *err)
{
	const char *file = part_str(run->answer.json, "stdout"), *kept;
	size_t n = strcspn(file, "\n");
	json_t *argv;
	int r;

	run_call(run, OP_EXEC_RUN);
	if (run->step == 0)
		return run_set(run, "argv", json_pack("[s, s]", "mktemp", "/tmp/bash-XXXXXX"), err);
	kept = n && file[0] == '/' ? pool_strn(&run->pool, file, n) : NULL;
	if (!kept)
		return cay_fail(err, CAY_E_MISBEHAVED, "the sandbox has no place for the output");
	run->own = (void *)(uintptr_t)kept;
	argv = json_pack("[s, s, s, s, s, s]", "sh", "-c", "exec >\"$1\" 2>&1; eval \"$2\"", "sh",
			 kept, run_arg(run, "command"));
	r = run_set(run, "argv", argv, err);
	if (r >= 0)
		r = run_set(run, "detach", json_true(), err);
	return r < 0 ? r : run_number(run, "timeout_ms", BACKGROUND_MS, err);
}

int deep_ask_bash(struct tool_run *run, struct cay_err *err)
{
	bool background = run_arg_bool(run, "run_in_background");
	int r;

	if (background && run->step < 2)
		return ask_background(run, err);
	if (run->step)
		return TOOL_SHOWN;
	run_call(run, OP_EXEC_RUN);
	r = run_text(run, "shell", run_arg(run, "command"), err);
	return r < 0 ? r : run_number(run, "timeout_ms", run_arg_number(run, "timeout_ms"), err);
}

int deep_show_bash(struct tool_run *run, struct result *out, struct cay_err *err)
{
	const json_t *j = run->answer.json;

	if (!json_is_object(j))
		return cay_fail(err, CAY_E_MISBEHAVED, "the sandbox did not say how it ended");
	if (run_arg_bool(run, "run_in_background")) {
		result_printf(out, "Running in the background as %.32s. Output: %s",
			      part_str(j, "id"), (const char *)run->own);
		return 0;
	}
	part_stream(j, "stdout", "", out);
	part_stream(j, "stderr", "", out);
	part_end(json_object_get(j, "end"), out);
	return 0;
}

int deep_show_glob(struct tool_run *run, struct result *out, struct cay_err *)
{
	const json_t *list = json_object_get(run->answer.json, "files"), *f;
	const char *where = run_arg(run, "path");
	auto_lines lines = PART_LINES_INIT;
	size_t i;

	json_array_foreach(list, i, f)
	{
		auto_buf name = BUF_INIT(KIB(8));

		if (part_name(f, "path", &name) >= 0)
			part_line(&lines, "%s%s%s", where ? where : "", where ? "/" : "",
				  buf_str(&name));
	}
	part_lines_show(&lines, "No files found",
			part_number(run->answer.json, "total") > json_array_size(list), out);
	return 0;
}

int deep_ask_grep(struct tool_run *run, struct cay_err *err)
{
	const char *glob = run_arg(run, "glob");
	bool names = str_eq(run_arg(run, "output_mode"), "files_only");
	int r;

	if (run->step)
		return TOOL_SHOWN;
	run_call(run, OP_FILE_GREP);
	r = run_map(run, err);
	if (r >= 0 && glob)
		r = run_set(run, "include", json_pack("[s]", glob), err);
	if (r >= 0 && names)
		r = run_number(run, "per_file", 1, err);
	return r < 0 ? r : run_number(run, "width", 2000, err);
}

/* Files in the order they come, each with how many matches it had. */
static void show_counts(const json_t *hits, bool counts, struct part_lines *lines)
{
	const json_t *h;
	size_t i, n = 0;

	json_array_foreach(hits, i, h)
	{
		const json_t *next = json_array_get(hits, i + 1);

		n += json_object_get(h, "column") != NULL;
		if (next && str_eq(part_str(next, "path"), part_str(h, "path")))
			continue;
		if (counts)
			part_line(lines, "%s:%zu", part_str(h, "path"), n);
		else
			part_line(lines, "%s", part_str(h, "path"));
		n = 0;
	}
}

int deep_show_grep(struct tool_run *run, struct result *out, struct cay_err *err)
{
	const char *mode = run_arg(run, "output_mode");
	const json_t *j = run->answer.json;
	auto_lines lines = PART_LINES_INIT;

	if (str_eq(mode, "content"))
		return show_hits(run, out, err);
	show_counts(json_object_get(j, "hits"), str_eq(mode, "count"), &lines);
	part_lines_show(&lines, "No matches found", json_is_true(json_object_get(j, "truncated")),
			out);
	return 0;
}

int deep_ask_read(struct tool_run *run, struct cay_err *err)
{
	return part_view_ask(run, run_arg(run, "file_path"), run_arg_number(run, "offset"),
			     run_arg_number(run, "limit"), err);
}

int deep_show_write(struct tool_run *run, struct result *out, struct cay_err *)
{
	result_printf(out, "Wrote %" PRIu64 " bytes to %s", part_number(run->answer.json, "size"),
		      run_arg(run, "file_path"));
	return 0;
}

int deep_ask_edit(struct tool_run *run, struct cay_err *err)
{
	if (run->step)
		return TOOL_SHOWN;
	return part_edit(run, run_arg(run, "file_path"),
			 run_arg_bool(run, "replace_all") ? "replace_all" : "replace",
			 run_arg(run, "old_string"), run_arg(run, "new_string"), 0, err);
}
