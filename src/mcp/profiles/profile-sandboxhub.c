/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "mcp/profiles/profile-parts.h"
#include "text/base64.h"

#define DOWNLOAD_MAX KIB(512)

int hub_shell_next_call(struct tool_run *run, struct cay_err *err)
{
	struct shell_tool_request want = { .name = "main",
					   .command = tool_run_arg_text(run, "command"),
					   .timeout_ms = run->settings->mcp_timeout_ms };

	return shell_tool_next_call(run, &want, err);
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
