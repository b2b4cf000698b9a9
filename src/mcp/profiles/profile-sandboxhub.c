/* SPDX-License-Identifier: Apache-2.0 */
/* profile-sandboxhub - results are the dictionaries that SandboxHub's tools return */
#include <inttypes.h>
#include <math.h>

#include "mcp/profiles/profile-output.h"
#include "text/base64.h"

#define DOWNLOAD_MAX KIB(512)
#define CMDLINE_MAX 200 /* characters of a command line, as there */
#define PROCESS_ROW 128 /* bytes of a process without its name and command line, at least */

int hub_shell_next_call(struct tool_run *run, struct cay_err *err)
{
	struct shell_tool_request want = { .name = "main",
					   .command = tool_run_arg_text(run, "command"),
					   .timeout_ms = tool_run_timeout_ms(run, 0) };

	return shell_tool_next_call(run, &want, err);
}

/* A command that ran too long: SandboxHub says so before the output. */
static int hub_add_timeout(const struct tool_run *run, struct buf *out)
{
	uint64_t ms = json_member_number(run->call.members, "timeout_ms");

	return buf_printf(out,
			  "[命令已超时 (%" PRIu64 ".%" PRIu64 "s)，进程已终止，session 继续可用]\n",
			  ms / 1000, ms / 100 % 10);
}

/* {output, error, system}.  It has no place for the exit status: `system` has one other than 0. */
int hub_shell_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	auto_buf output = BUF_INIT(OUTPUT_TEXT_MAX), note = BUF_INIT(KIB(4));
	const json_t *j = run->answer.json, *end = json_object_get(j, "end");
	const json_t *code = json_object_get(end, "exit_code");
	bool timeout = str_eq(json_member_str(end, "reason"), "timeout");
	int r = timeout ? hub_add_timeout(run, &output) : 0;

	if (!json_is_object(j))
		return cay_fail(err, CAY_E_MISBEHAVED, "the sandbox returned no result");
	if (r >= 0)
		r = output_add_stream(run, "stdout", &output);
	if (r >= 0 && timeout && output.data[output.len - 1] == '\n')
		buf_truncate(&output, output.len - 1);
	if (r >= 0 && !timeout && (!json_is_integer(code) || json_integer_value(code)))
		r = end_add_text(run, end, &note);
	if (r < 0)
		return cay_no_memory(err);
	out->error = !timeout && !end_is_result(end);
	return tool_result_pack(out, "{s:o, s:o, s:o}", "output",
				json_stringn(buf_str(&output), output.len), "error",
				output_stream_json(run, "stderr"), "system",
				json_stringn(buf_str(&note), note.len));
}

int hub_read_next_call(struct tool_run *run, struct cay_err *err)
{
	uint64_t from = tool_run_arg_number(run, "line_start"),
		 to = tool_run_arg_number(run, "line_end");

	if (!from)
		from = 1;
	if (to && to < from)
		return cay_fail_field(err, CAY_E_INVALID, "line_end",
				      "must not be before line_start");
	return file_view_next_call(run, tool_run_arg_text(run, "path"), from,
				   to && to - from < 100000 ? to - from + 1 : 100000, err);
}

int hub_edit_next_call(struct tool_run *run, struct cay_err *err)
{
	if (run->step)
		return TOOL_FINISHED;
	return file_edit_begin_call(run, tool_run_arg_text(run, "path"), "replace",
				    tool_run_arg_text(run, "old_text"),
				    tool_run_arg_text(run, "new_text"), 0, err);
}

int hub_upload_next_call(struct tool_run *run, struct cay_err *err)
{
	const char *name = tool_run_arg_text(run, "filename");
	auto_buf path = BUF_INIT(KIB(5));
	int r;

	if (run->step)
		return TOOL_FINISHED;
	if (strchr(name, '/') || str_eq(name, ".") || str_eq(name, ".."))
		return cay_fail_field(err, CAY_E_INVALID, "filename",
				      "must be a name without a directory");
	if (buf_printf(&path, "%s/%s", tool_run_arg_text(run, "dest_dir"), name) < 0)
		return cay_no_memory(err);
	r = tool_run_call(run, OP_FILE_WRITE, err, "{s:s, s:b}", "path", buf_str(&path), "parents",
			  true);
	return r < 0 ? r
		     : tool_run_set_base64_body(run, "base64_content",
						json_member_text(run->args, "base64_content"), err);
}

int hub_upload_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	return tool_result_printf(
		out, "uploaded %s/%s, %" PRIu64 " bytes", tool_run_arg_text(run, "dest_dir"),
		tool_run_arg_text(run, "filename"), json_member_number(run->answer.json, "size"));
}

int hub_download_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	struct slice body = run->answer.body;
	char *text;

	if (tool_result_add_image(out, body))
		return 0;
	text = body.n <= DOWNLOAD_MAX ? arena_alloc(&run->arena, 1, BASE64_TEXT(body.n) + 1) : NULL;
	if (!text)
		return cay_fail(err, CAY_E_TOO_LARGE, "the file has %zu bytes; the limit is %zu",
				body.n, DOWNLOAD_MAX);
	base64_encode((const uint8_t *)body.p, body.n, text);
	tool_result_add_text(out, (struct slice){ text, BASE64_TEXT(body.n) });
	return 0;
}

int hub_kill_next_call(struct tool_run *run, struct cay_err *err)
{
	int r = tool_run_default_call(run, err);

	return r != TOOL_NEXT_CALL
		       ? r
		       : tool_run_set(run, err, "{s:s}", "signal",
				      tool_run_arg_bool(run, "force") ? "KILL" : "TERM");
}

int hub_kill_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	return tool_result_printf(out, "process %" PRIu64 " was sent %s",
				  tool_run_arg_number(run, "pid"),
				  tool_run_arg_bool(run, "force") ? "SIGKILL" : "SIGTERM");
}

/* Names of psutil for the letters of the kernel. */
static const char *hub_process_status(const char *letter)
{
	static const struct {
		char letter;
		const char *name;
	} states[] = {
		{ 'R', "running" }, { 'S', "sleeping" },     { 'D', "disk-sleep" },
		{ 'T', "stopped" }, { 't', "tracing-stop" }, { 'Z', "zombie" },
		{ 'X', "dead" },    { 'x', "dead" },         { 'K', "wake-kill" },
		{ 'W', "waking" },  { 'I', "idle" },         { 'P', "parked" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(states); i++)
		if (letter[0] == states[i].letter)
			return states[i].name;
	return "unknown";
}

/* value / unit, rounded to `digits` after the point; NULL is null. */
static json_t *hub_number(const json_t *value, double unit, int digits)
{
	double scale = pow(10, digits);

	if (!json_is_number(value))
		return json_null();
	return json_real(round(json_number_value(value) / unit * scale) / scale);
}

static json_t *hub_percent(const json_t *part, const json_t *whole)
{
	double all = json_number_value(whole);

	return all > 0 ? hub_number(part, all / 100, 1) : json_null();
}

/* The program's name: the last part of the first word. */
static struct slice hub_process_name(struct slice command)
{
	struct slice rest = command, word = slice_cut(&rest, ' ');
	const char *slash = word.n ? memrchr(word.p, '/', word.n) : NULL;
	size_t skip = slash ? (size_t)(slash + 1 - word.p) : 0;

	return (struct slice){ word.p + skip, word.n - skip };
}

static json_t *hub_process_row(const json_t *process)
{
	struct slice command = json_member_text(process, "command");
	struct slice name = hub_process_name(command);
	size_t n =
		command.n < CMDLINE_MAX ? command.n : utf8_whole_prefix_len(command.p, CMDLINE_MAX);

	return json_pack("{s:I, s:s%, s:o, s:o, s:s, s:s%}", "pid",
			 (json_int_t)json_member_number(process, "pid"), "name", name.p, name.n,
			 "cpu_percent", hub_number(json_object_get(process, "cpu_milli"), 10, 1),
			 "memory_mb", hub_number(json_object_get(process, "rss_bytes"), MIB(1), 2),
			 "status", hub_process_status(json_member_str(process, "state")), "cmdline",
			 command.p, n);
}

/* A list of dictionaries; FastMCP has it as data in {"result"}. */
int hub_processes_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	const json_t *list = json_object_get(run->answer.json, "processes"), *p;
	uint64_t left_out = json_member_number(run->answer.json, "left_out");
	json_t *rows = json_array();
	size_t i, room = RESULT_TEXT;

	json_array_foreach(list, i, p)
	{
		size_t need = PROCESS_ROW + 2 * json_member_text(p, "command").n;

		room -= need < room ? need : room;
		if (!room)
			left_out++;
		else if (json_array_append_new(rows, hub_process_row(p)) < 0) {
			json_decref(rows);
			return cay_no_memory(err);
		}
	}
	tool_result_set_json(out, rows);
	out->owned = json_pack("{s:o}", "result", rows);
	out->data = out->owned;
	if (left_out)
		tool_result_printf(out, "[%" PRIu64 " more omitted]", left_out);
	return 0;
}

/* The sandbox for its limits, its processes for the use of CPUs, then its usage. */
int hub_info_next_call(struct tool_run *run, struct cay_err *err)
{
	static const enum op_id calls[] = { OP_SANDBOX_GET, OP_PROCESS_LIST, OP_SANDBOX_USAGE };
	int r = run->step ? tool_run_add_row(run, json_incref(run->answer.json), err) : 0;

	if (r < 0 || run->step >= ARRAY_SIZE(calls))
		return r < 0 ? r : TOOL_FINISHED;
	return tool_run_call(run, calls[run->step], err, "{}");
}

/* Percent of all CPUs that its processes used, each since it began. */
static json_t *hub_cpu_percent(const json_t *processes, double cpus)
{
	const json_t *p;
	double milli = 0;
	size_t i;

	json_array_foreach(json_object_get(processes, "processes"), i, p)
	{
		milli += json_number_value(json_object_get(p, "cpu_milli"));
	}
	milli /= cpus;
	return json_real(round(milli < 1000 ? milli : 1000) / 10);
}

int hub_info_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *rows = json_object_get(run->args, TOOL_ROWS);
	const json_t *limits = json_object_get(json_array_get(rows, 0), "limits");
	const json_t *usage = json_array_get(rows, 2);
	const json_t *memory = json_object_get(limits, "memory_bytes"),
		     *used = json_object_get(usage, "memory_bytes"),
		     *disk = json_object_get(limits, "disk_bytes"),
		     *filled = json_object_get(usage, "disk_bytes");
	double cpus = ceil((double)json_member_number(limits, "cpu_milli") / 1000);

	if (cpus < 1)
		cpus = 1;
	return tool_result_pack(
		out, "{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "cpu_count", (json_int_t)cpus,
		"cpu_percent", hub_cpu_percent(json_array_get(rows, 1), cpus), "memory_total_mb",
		hub_number(memory, MIB(1), 2), "memory_used_mb", hub_number(used, MIB(1), 2),
		"memory_percent", hub_percent(used, memory), "disk_total_gb",
		hub_number(disk, MIB(1024), 2), "disk_used_gb", hub_number(filled, MIB(1024), 2),
		"disk_percent", hub_percent(filled, disk));
}
