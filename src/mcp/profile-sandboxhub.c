/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "mcp/profile-parts.h"
#include "text/base64.h"

#define DOWNLOAD_MAX KIB(512)

int hub_ask_shell(struct tool_run *run, struct cay_err *err)
{
	struct part_shell want = { .name = "main",
				   .command = run_arg(run, "command"),
				   .timeout_ms = part_timeout(run) };

	return part_shell_ask(run, &want, err);
}

int hub_ask_read(struct tool_run *run, struct cay_err *err)
{
	uint64_t from = run_arg_number(run, "line_start"), to = run_arg_number(run, "line_end");

	if (!from)
		from = 1;
	if (to && to < from)
		return cay_fail_field(err, CAY_E_INVALID, "line_end",
				      "must not be in front of line_start");
	return part_view_ask(run, run_arg(run, "path"), from,
			     to && to - from < 100000 ? to - from + 1 : 100000, err);
}

int hub_ask_edit(struct tool_run *run, struct cay_err *err)
{
	if (run->step)
		return TOOL_SHOWN;
	return part_edit(run, run_arg(run, "path"), "replace", run_arg(run, "old_text"),
			 run_arg(run, "new_text"), 0, err);
}

int hub_ask_upload(struct tool_run *run, struct cay_err *err)
{
	const char *name = run_arg(run, "filename");
	auto_buf path = BUF_INIT(KIB(5));
	int r;

	if (run->step)
		return TOOL_SHOWN;
	if (strchr(name, '/') || str_eq(name, ".") || str_eq(name, ".."))
		return cay_fail_field(err, CAY_E_INVALID, "filename",
				      "must be a name without a directory");
	if (buf_printf(&path, "%s/%s", run_arg(run, "dest_dir"), name) < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	run_call(run, OP_FILE_WRITE);
	r = part_body(run, "base64_content", part_text(run->args, "base64_content"), err);
	if (r >= 0)
		r = run_text(run, "path", buf_str(&path), err);
	return r < 0 ? r : run_set(run, "parents", json_true(), err);
}

int hub_show_upload(struct tool_run *run, struct result *out, struct cay_err *)
{
	result_printf(out, "uploaded %s/%s, %" PRIu64 " bytes", run_arg(run, "dest_dir"),
		      run_arg(run, "filename"), part_number(run->answer.json, "size"));
	return 0;
}

int hub_ask_download(struct tool_run *run, struct cay_err *err)
{
	if (run->step)
		return TOOL_SHOWN;
	run_call(run, OP_FILE_READ);
	return run_text(run, "path", run_arg(run, "path"), err);
}

int hub_show_download(struct tool_run *run, struct result *out, struct cay_err *err)
{
	struct slice body = run->answer.body;
	char *text;

	if (result_image(out, body))
		return 0;
	text = body.n <= DOWNLOAD_MAX ? pool_take(&run->pool, 1, BASE64_TEXT(body.n) + 1) : NULL;
	if (!text)
		return cay_fail(err, CAY_E_TOO_LARGE,
				"it has %zu bytes; a tool gives %zu at the most", body.n,
				DOWNLOAD_MAX);
	base64_encode((const uint8_t *)body.p, body.n, text);
	result_text(out, (struct slice){ text, BASE64_TEXT(body.n) });
	return 0;
}

int hub_ask_kill(struct tool_run *run, struct cay_err *err)
{
	int r;

	if (run->step)
		return TOOL_SHOWN;
	run_call(run, OP_PROCESS_SIGNAL);
	r = run_number(run, "pid", run_arg_number(run, "pid"), err);
	return r < 0 ? r
		     : run_text(run, "signal", run_arg_bool(run, "force") ? "KILL" : "TERM", err);
}

int hub_show_kill(struct tool_run *run, struct result *out, struct cay_err *)
{
	result_printf(out, "process %" PRIu64 " was sent %s", run_arg_number(run, "pid"),
		      run_arg_bool(run, "force") ? "SIGKILL" : "SIGTERM");
	return 0;
}
