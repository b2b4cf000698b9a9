/* SPDX-License-Identifier: Apache-2.0 */
/* profile-native - native tools that call more than one operation, and replies as text */
#include <inttypes.h>
#include <math.h>

#include "mcp/profiles/profile-state.h"
#include "wire/frame.h"

const char *const native_streams[] = { "stdout", "stderr", NULL };
const char *const native_encodings[] = { "utf-8", "base64", NULL };

/* The operator's image or template, when the model names none. */
static int native_create_set_image(struct tool_run *run, struct cay_err *err)
{
	const struct settings *s = run->settings;

	if (!s || tool_run_arg_text(run, "image") || tool_run_arg_text(run, "template"))
		return 0;
	return tool_run_set(run, err, "{s:s}", s->mcp_template[0] ? "template" : "image",
			    s->mcp_template[0] ? s->mcp_template : s->mcp_image);
}

int native_sandbox_create_next_call(struct tool_run *run, struct cay_err *err)
{
	const char *from = tool_run_arg_text(run, "from");
	int r = from ? create_from_next_call(run, from, err) : tool_run_default_call(run, err);

	if (r == TOOL_NEXT_CALL && !from)
		r = native_create_set_image(run, err);
	return r == TOOL_NEXT_CALL ? tool_run_set(run, err, "{s:s*}", "group", run->group) : r;
}

static const char *native_text_or_dash(const char *s)
{
	return s[0] ? s : "-";
}

int native_sandbox_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *j = run->answer.json;

	tool_result_printf(out, "%s (%s): %s, image %s", json_member_str(j, "id"),
			   native_text_or_dash(json_member_str(j, "name")),
			   json_member_str(j, "state"), json_member_str(j, "image"));
	out->data = j;
	return 0;
}

int native_sandbox_list_next_call(struct tool_run *run, struct cay_err *err)
{
	int r;

	if (run->step == 1) { /* the sandboxes are kept, and then the snapshots are listed */
		if (json_object_set(run->args, TOOL_ROWS, run->answer.json) < 0)
			return cay_fail(err, CAY_E_MISBEHAVED, "the server sent no list");
		return snapshots_begin_call(run, err);
	}
	r = tool_run_default_call(run, err);
	if (r != TOOL_NEXT_CALL || tool_run_arg_bool(run, "all"))
		return r;
	return tool_run_set(run, err, "{s:s, s:s*}", "state", "live", "group", run->group);
}

int native_sandboxes_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *kept = json_object_get(run->args, TOOL_ROWS), *sb;
	auto_lines lines = RESULT_LINES_INIT;
	bool more = json_member_text(kept, "next_cursor").n ||
		    json_member_text(run->answer.json, "next_cursor").n;
	size_t i;

	json_array_foreach(json_object_get(kept, "sandboxes"), i, sb)
	{
		result_lines_printf(&lines, "%s  %-20s %-10s %s", json_member_str(sb, "id"),
				    native_text_or_dash(json_member_str(sb, "name")),
				    json_member_str(sb, "state"), json_member_str(sb, "image"));
	}
	snapshots_add_lines(run->answer.json, &lines);
	return result_lines_end(&lines, "There are none yet; the first command creates one.", more,
				out);
}

/* Without a sandbox there is nothing to call. */
int native_delete_next_call(struct tool_run *run, struct cay_err *err)
{
	const char *label = tool_run_arg_text(run, "label");
	const char *snapshot = tool_run_arg_text(run, "snapshot");

	if (!!label + !!snapshot + !!tool_run_arg_text(run, "sandbox") > 1)
		return cay_fail_field(err, CAY_E_INVALID, label ? "label" : "snapshot",
				      "give one of sandbox, label and snapshot");
	if (snapshot)
		return snapshot_delete_next_call(run, snapshot, err);
	if (label && run->tool_state)
		return TOOL_FINISHED;
	if (label) {
		run->tool_state = run; /* it is called once */
		return tool_run_call(run, OP_GROUP_DELETE, err, "{s:s, s:s*}", "label", label,
				     "group", run->group);
	}
	return run->sandbox[0] ? tool_run_default_call(run, err) : TOOL_FINISHED;
}

int native_delete_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	if (tool_run_arg_text(run, "label"))
		return tool_result_printf(
			out, "deleted %zu sandboxes%s",
			json_array_size(json_object_get(run->answer.json, "sandboxes")),
			json_member_text(run->answer.json, "next_cursor").n
				? "; more have these labels, call it again"
				: "");
	if (!run->sandbox[0] && !tool_run_arg_text(run, "snapshot"))
		return tool_result_printf(out, "this conversation has no sandbox to delete");
	return tool_result_printf(out, "deleted %s", json_member_str(run->answer.json, "id"));
}

int native_exec_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	const json_t *j = run->answer.json;
	const char *id = json_member_str(j, "id");

	if (!json_is_object(j))
		return cay_fail(err, CAY_E_MISBEHAVED, "the sandbox returned no result");
	if (tool_run_arg_bool(run, "background")) {
		tool_result_printf(
			out,
			"[started in background: %.32s; use `output` to read it, `stop` to end it]",
			id);
	} else {
		tool_result_add_streams(j, id, out);
		tool_result_add_exit(run, json_object_get(j, "end"), out);
	}
	out->owned = json_pack("{s:s, s:s, s:O*}", "id", id, "state", json_member_str(j, "state"),
			       "end", json_object_get(j, "end"));
	out->data = out->owned;
	return 0;
}

int native_shell_next_call(struct tool_run *run, struct cay_err *err)
{
	const json_t *said = json_object_get(run->args, "timeout");
	struct shell_tool_request want = { .name = tool_run_arg_text(run, "name"),
					   .command = tool_run_arg_text(run, "command"),
					   .timeout_ms = tool_run_timeout_ms(run, 0) };

	if (said)
		want.timeout_ms = (uint64_t)llround(json_number_value(said) * 1000);
	return shell_tool_next_call(run, &want, err);
}

/* Whether an id names an exec, a shell or a kernel. */
static enum id_noun native_arg_id_noun(const struct tool_run *run, const char *arg)
{
	const char *s = tool_run_arg_text(run, arg);
	struct id id;

	return s && id_parse(ID_NONE, slice_of(s), &id) == 0 ? (enum id_noun)id.noun : ID_NONE;
}

static int native_refuse_id(const struct tool_run *run, struct cay_err *err)
{
	return cay_fail_field(
		err, CAY_E_INVALID, "id",
		"'%.40s' is not the id of a command, a shell or a kernel, as returned by exec, "
		"shell and run_code",
		tool_run_arg_text(run, "id"));
}

int native_output_next_call(struct tool_run *run, struct cay_err *err)
{
	static const struct {
		enum id_noun noun;
		enum op_id op;
		const char *member;
	} rows[] = { { ID_EXEC, OP_EXEC_OUTPUT, "exec" },
		     { ID_SHELL, OP_SHELL_OUTPUT, "shell" },
		     { ID_KERNEL, OP_KERNEL_OUTPUT, "kernel" } };
	enum id_noun noun = native_arg_id_noun(run, "id");
	size_t i = 0;
	int r;

	if (run->step)
		return TOOL_FINISHED;
	while (i < ARRAY_SIZE(rows) && rows[i].noun != noun)
		i++;
	if (i == ARRAY_SIZE(rows))
		return native_refuse_id(run, err);
	tool_run_begin_call(run, rows[i].op);
	run->call.accept = FRAME_MEDIA_TYPE;
	r = tool_run_map_args(run, err);
	return r < 0 ? r
		     : tool_run_set(run, err, "{s:s}", rows[i].member,
				    tool_run_arg_text(run, "id"));
}

/* Decoded frames of one stream. */
struct output_frames {
	struct buf text;
	uint64_t from, next, lost;
	json_t *end; /* NULL: not ended */
};

static int output_frames_add(struct output_frames *t, const struct frame *f)
{
	switch (f->type) {
	case FRAME_DATA:
		if (!t->text.len)
			t->from = f->offset;
		t->next = f->offset + f->length;
		return buf_append(&t->text, f->content, f->length);
	case FRAME_GAP:
		t->lost += frame_gap_decode(f);
		return 0;
	case FRAME_END:
		json_decref(t->end);
		t->end = NULL; /* a sandbox may send two ends, the second malformed */
		return json_parse((struct slice){ (const char *)f->content, f->length },
				  &json_control_limits, &t->end, NULL);
	default:
		return 0;
	}
}

static int output_frames_decode(struct output_frames *t, struct slice body)
{
	size_t at = 0;
	int r = 0;

	while (r >= 0 && at < body.n) {
		struct frame f;
		int n = frame_decode((const uint8_t *)body.p + at, body.n - at, &f);

		if (n <= 0)
			return -EPROTO;
		r = output_frames_add(t, &f);
		at += (size_t)n;
	}
	return r;
}

static void output_frames_write_result(const struct output_frames *t, uint64_t asked,
				       struct tool_result *out)
{
	if (t->lost)
		tool_result_printf(out, "[%" PRIu64 " bytes are no longer kept]", t->lost);
	if (t->text.len)
		tool_result_add_text(out, (struct slice){ t->text.data, t->text.len });
	tool_result_printf(out,
			   "[bytes %" PRIu64 " to %" PRIu64 "; read on from offset %" PRIu64 "%s]",
			   t->text.len ? t->from : asked, t->next, t->next,
			   t->end ? "" : "; there may be more");
	if (t->end) {
		tool_result_add_exit(NULL, t->end, out);
		out->error = false; /* a failed command is no failure of this tool */
	}
}

int native_output_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	uint64_t asked = tool_run_arg_number(run, "offset");
	struct output_frames told = { .text = BUF_INIT(RESULT_TEXT), .from = asked, .next = asked };
	int r = output_frames_decode(&told, run->answer.body);

	if (r < 0)
		r = cay_fail(err, CAY_E_MISBEHAVED, "the sandbox sent malformed frames");
	else
		output_frames_write_result(&told, asked, out);
	json_decref(told.end);
	buf_fini(&told.text);
	return r;
}

int native_stop_next_call(struct tool_run *run, struct cay_err *err)
{
	bool id = tool_run_arg_text(run, "id"), pid = tool_run_arg_number(run, "pid");
	int r;

	if (run->step)
		return TOOL_FINISHED;
	if (id == pid)
		return cay_fail_field(err, CAY_E_INVALID, "id", "give either id or pid");
	if (id && native_arg_id_noun(run, "id") != ID_EXEC)
		return native_refuse_id(run, err);
	tool_run_begin_call(run, id ? OP_EXEC_SIGNAL : OP_PROCESS_SIGNAL);
	r = tool_run_map_args(run, err);
	if (r < 0)
		return r;
	if (id)
		return tool_run_set(run, err, "{s:s}", "exec", tool_run_arg_text(run, "id"));
	return tool_run_set(run, err, "{s:I, s:b}", "pid",
			    (json_int_t)tool_run_arg_number(run, "pid"), "tree", true);
}

int native_stop_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const char *state = json_member_str(run->answer.json, "state");

	return tool_result_printf(out, "sent %s%s%.32s", tool_run_arg_text(run, "signal"),
				  state[0] ? "; the command is " : "", state);
}

int native_processes_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *list = json_object_get(run->answer.json, "processes"), *p;
	auto_lines lines = RESULT_LINES_INIT;
	size_t i;

	result_lines_printf(&lines, "PID USER STATE CPU_MS RSS_KIB COMMAND");
	json_array_foreach(list, i, p)
	{
		uint64_t depth = json_member_number(p, "depth");

		result_lines_printf(&lines, "%" PRIu64 " %s %s %" PRIu64 " %" PRIu64 " %*s%s",
				    json_member_number(p, "pid"),
				    native_text_or_dash(json_member_str(p, "user")),
				    json_member_str(p, "state"), json_member_number(p, "cpu_ms"),
				    json_member_number(p, "rss_bytes") / 1024,
				    (int)(depth < 20 ? depth : 20), "",
				    json_member_str(p, "command"));
	}
	return result_lines_end(&lines, "", json_member_number(run->answer.json, "left_out"), out);
}

int native_read_next_call(struct tool_run *run, struct cay_err *err)
{
	return file_view_next_call(run, tool_run_arg_text(run, "path"),
				   tool_run_arg_number(run, "first"),
				   tool_run_arg_number(run, "limit"), err);
}

int native_write_next_call(struct tool_run *run, struct cay_err *err)
{
	int r = tool_run_default_call(run, err);

	if (r == TOOL_NEXT_CALL && str_eq(tool_run_arg_text(run, "encoding"), "base64"))
		r = tool_run_set_base64_body(run, "content", run->call.body, err);
	return r;
}

int native_write_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *j = run->answer.json;

	return tool_result_printf(out, "%s %s, %" PRIu64 " bytes",
				  json_member_true(j, "created") ? "created" : "wrote",
				  tool_run_arg_text(run, "path"), json_member_number(j, "size"));
}

static json_t *native_edit_change(const json_t *row)
{
	return json_pack("{s:s, s:O, s:O}", "kind",
			 json_member_true(row, "all") ? "replace_all" : "replace", "old",
			 json_object_get(row, "old"), "new", json_object_get(row, "new"));
}

/* One change as old and new, or several in edits. */
static int native_edit_check_args(const struct tool_run *run, struct cay_err *err)
{
	const json_t *old = json_object_get(run->args, "old"),
		     *new = json_object_get(run->args, "new"),
		     *edits = json_object_get(run->args, "edits");

	if (edits && (old || new || json_object_get(run->args, "all")))
		return cay_fail_field(err, CAY_E_INVALID, "edits",
				      "give old and new, or edits, not both");
	if (!edits && !old)
		return cay_fail_field(err, CAY_E_INVALID, "old",
				      "is missing: the text to replace, exactly as in the file");
	if (!edits && !new)
		return cay_fail_field(err, CAY_E_INVALID, "new",
				      "is missing: the replacement text; \"\" deletes `old`");
	return 0;
}

int native_edit_next_call(struct tool_run *run, struct cay_err *err)
{
	const json_t *edits = json_object_get(run->args, "edits");
	json_t *changes, *row;
	size_t i, n = edits ? json_array_size(edits) : 1;
	int r = native_edit_check_args(run, err);

	if (r < 0 || run->step)
		return r < 0 ? r : TOOL_FINISHED;
	changes = json_array();
	if (!edits)
		(void)json_array_append_new(changes, native_edit_change(run->args));
	json_array_foreach(edits, i, row)
	{
		(void)json_array_append_new(changes, native_edit_change(row));
	}
	r = tool_run_call(run, OP_FILE_EDIT, err, "{s:o}", "edits", changes);
	if (r >= 0 && json_array_size(json_object_get(run->call.members, "edits")) != n)
		r = cay_no_memory(err);
	return r < 0 ? r : tool_run_map_args(run, err);
}

int native_diff_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *j = run->answer.json;
	struct slice diff = json_member_text(j, "diff");

	if (diff.n)
		tool_result_add_cut(out, diff, RESULT_TEXT, "read the file to see the rest");
	else
		tool_result_printf(out, "[%" PRIu64 " changes; the diff is binary or too long]",
				   json_member_number(j, "changes"));
	return 0;
}

int native_glob_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *list = json_object_get(run->answer.json, "files"), *f;
	uint64_t total = json_member_number(run->answer.json, "total");
	auto_lines lines = RESULT_LINES_INIT;
	size_t i;

	json_array_foreach(list, i, f)
	{
		auto_buf name = BUF_INIT(KIB(8));
		bool dir = str_eq(json_member_str(f, "type"), "directory");

		if (json_member_filename(f, "path", &name) < 0)
			continue;
		if (dir)
			result_lines_printf(&lines, "%s/", buf_str(&name));
		else
			result_lines_printf(&lines, "%s  %" PRIu64, buf_str(&name),
					    json_member_number(f, "size"));
	}
	return result_lines_end(&lines, "No files found.", total > json_array_size(list), out);
}

int native_grep_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *j = run->answer.json, *list = json_object_get(j, "hits"), *h;
	const char *where = tool_run_arg_text(run, "path");
	auto_lines lines = RESULT_LINES_INIT;
	size_t i;

	json_array_foreach(list, i, h)
	{
		auto_buf name = BUF_INIT(KIB(8)), text = BUF_INIT(KIB(8));

		if (json_member_filename(h, "path", &name) < 0 ||
		    json_member_filename(h, "text", &text) < 0)
			continue;
		result_lines_printf(&lines, "%s%c%" PRIu64 "%c%s",
				    name.len ? buf_str(&name)
				    : where  ? where
					     : "",
				    json_object_get(h, "column") ? ':' : '-',
				    json_member_number(h, "line"),
				    json_object_get(h, "column") ? ':' : '-', buf_str(&text));
	}
	return result_lines_end(&lines, "No matches found.", json_member_true(j, "truncated"), out);
}

int native_ports_next_call(struct tool_run *run, struct cay_err *err)
{
	uint64_t port = tool_run_arg_number(run, "port");
	double wait = json_number_value(json_object_get(run->args, "wait"));

	if (run->step)
		return TOOL_FINISHED;
	if (!port)
		return tool_run_call(run, OP_PORT_LIST, err, "{}");
	return tool_run_call(run, OP_PORT_WAIT, err, "{s:I, s:I}", "port", (json_int_t)port,
			     "wait_ms", (json_int_t)llround(wait * 1000));
}

int native_ports_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *j = run->answer.json, *p;
	auto_lines lines = RESULT_LINES_INIT;
	size_t i;

	if (run->call.op == OP_PORT_WAIT) {
		bool open = json_member_true(j, "open");

		tool_result_printf(
			out, open ? "port %" PRIu64 " is open" : "nothing listens on port %" PRIu64,
			tool_run_arg_number(run, "port"));
		out->error = !open;
		return 0;
	}
	json_array_foreach(json_object_get(j, "ports"), i, p)
	{
		result_lines_printf(&lines, "%" PRIu64 " on %s, pid %" PRIu64 "%s%s",
				    json_member_number(p, "port"), json_member_str(p, "address"),
				    json_member_number(p, "pid"),
				    json_member_str(p, "exec")[0] ? ", of " : "",
				    json_member_str(p, "exec"));
	}
	return result_lines_end(&lines, "No port is open.", false, out);
}

int native_preview_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *j = run->answer.json;

	tool_result_printf(out, "%s\n[valid until %s; the URL needs no other credential]%s",
			   json_member_str(j, "url"), json_member_str(j, "expires_at"),
			   json_is_false(json_object_get(j, "listening"))
				   ? "\n[nothing listens on that port yet]"
				   : "");
	out->data = j;
	return 0;
}
