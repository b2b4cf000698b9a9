/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile-native - tools that are more than one operation, and answers as text
 */
#include <inttypes.h>
#include <math.h>

#include "mcp/profile-parts.h"
#include "wire/frame.h"

const char *const native_streams[] = { "stdout", "stderr", NULL };
const char *const native_encodings[] = { "utf-8", "base64", NULL };

/* Sandboxes */

/* What the operator has chosen, when the model has not. */
static int choose_image(struct tool_run *run, struct cay_err *err)
{
	const struct settings *s = run->settings;

	if (!s || run_arg(run, "image") || run_arg(run, "template"))
		return 0;
	return s->mcp_template[0] ? run_text(run, "template", s->mcp_template, err)
				  : run_text(run, "image", s->mcp_image, err);
}

int ask_sandbox_create(struct tool_run *run, struct cay_err *err)
{
	int r;

	if (run->step)
		return TOOL_SHOWN;
	run_call(run, OP_SANDBOX_CREATE);
	r = run_map(run, err);
	if (r >= 0)
		r = choose_image(run, err);
	if (r >= 0 && run->group)
		r = run_text(run, "group", run->group, err);
	return r;
}

static const char *or_dash(const char *s)
{
	return s[0] ? s : "-";
}

int show_sandbox(struct tool_run *run, struct result *out, struct cay_err *)
{
	const json_t *j = run->answer.json;

	result_printf(out, "%s (%s): %s, image %s", part_str(j, "id"), or_dash(part_str(j, "name")),
		      part_str(j, "state"), part_str(j, "image"));
	out->data = j;
	return 0;
}

int ask_sandbox_list(struct tool_run *run, struct cay_err *err)
{
	int r;

	if (run->step)
		return TOOL_SHOWN;
	run_call(run, OP_SANDBOX_LIST);
	r = run_map(run, err);
	if (run_arg_bool(run, "all"))
		return r;
	if (r >= 0)
		r = run_text(run, "state", "live", err);
	if (r >= 0 && run->group)
		r = run_text(run, "group", run->group, err);
	return r;
}

int show_sandboxes(struct tool_run *run, struct result *out, struct cay_err *)
{
	const json_t *list = json_object_get(run->answer.json, "sandboxes"), *box;
	auto_lines lines = PART_LINES_INIT;
	size_t i;

	json_array_foreach(list, i, box)
	{
		part_line(&lines, "%s  %-20s %-10s %s", part_str(box, "id"),
			  or_dash(part_str(box, "name")), part_str(box, "state"),
			  part_str(box, "image"));
	}
	part_lines_show(&lines, "There are none yet; the first command makes one.",
			part_text(run->answer.json, "next_cursor").n, out);
	return 0;
}

int show_deleted(struct tool_run *run, struct result *out, struct cay_err *)
{
	result_printf(out, "%s is deleted", part_str(run->answer.json, "id"));
	return 0;
}

/* Commands */

int show_exec(struct tool_run *run, struct result *out, struct cay_err *err)
{
	const json_t *j = run->answer.json;
	const char *id = part_str(j, "id");

	if (!json_is_object(j))
		return cay_fail(err, CAY_E_MISBEHAVED, "the sandbox did not say how it ended");
	if (run_arg_bool(run, "background")) {
		result_printf(out, "[it runs as %.32s; output shows what it writes, stop ends it]",
			      id);
	} else {
		part_stream(j, "stdout", id, out);
		part_stream(j, "stderr", id, out);
		part_end(json_object_get(j, "end"), out);
	}
	out->owned = json_pack("{s:s, s:s, s:O*}", "id", id, "state", part_str(j, "state"), "end",
			       json_object_get(j, "end"));
	out->data = out->owned;
	return 0;
}

int ask_shell(struct tool_run *run, struct cay_err *err)
{
	const json_t *said = json_object_get(run->args, "timeout");
	struct part_shell want = { .name = run_arg(run, "name"),
				   .command = run_arg(run, "command"),
				   .timeout_ms = part_timeout(run) };

	if (said)
		want.timeout_ms = (uint64_t)llround(json_number_value(said) * 1000);
	return part_shell_ask(run, &want, err);
}

/* Which noun an id of a command is of. */
static enum id_noun noun_of(const struct tool_run *run, const char *arg)
{
	const char *text = run_arg(run, arg);
	struct id id;

	return text && id_parse(ID_NONE, slice_of(text), &id) == 0 ? (enum id_noun)id.noun
								   : ID_NONE;
}

static int no_id(const struct tool_run *run, struct cay_err *err)
{
	return cay_fail_field(
		err, CAY_E_INVALID, "id",
		"'%.40s' is no id of a command or a shell; exec and shell tell theirs",
		run_arg(run, "id"));
}

int ask_output(struct tool_run *run, struct cay_err *err)
{
	enum id_noun noun = noun_of(run, "id");
	int r;

	if (run->step)
		return TOOL_SHOWN;
	if (noun != ID_EXEC && noun != ID_SHELL)
		return no_id(run, err);
	run_call(run, noun == ID_EXEC ? OP_EXEC_OUTPUT : OP_SHELL_OUTPUT);
	run->call.accept = FRAME_MEDIA_TYPE;
	r = run_map(run, err);
	return r < 0 ? r
		     : run_text(run, noun == ID_EXEC ? "exec" : "shell", run_arg(run, "id"), err);
}

/* What frames said, of one stream. */
struct told {
	struct buf text;
	uint64_t from, next, lost;
	json_t *end; /* or NULL */
};

static int take_frame(struct told *t, const struct frame *f)
{
	switch (f->type) {
	case FRAME_DATA:
		if (!t->text.len)
			t->from = f->offset;
		t->next = f->offset + f->length;
		return buf_add(&t->text, f->content, f->length);
	case FRAME_GAP:
		t->lost += frame_gap(f);
		return 0;
	case FRAME_END:
		json_decref(t->end);
		t->end = NULL; /* a sandbox may end twice, and the second time badly */
		return jr_read((struct slice){ (const char *)f->content, f->length },
			       &json_control_limits, &t->end, NULL);
	default:
		return 0;
	}
}

static int take_frames(struct told *t, struct slice body)
{
	size_t at = 0;
	int r = 0;

	while (r >= 0 && at < body.n) {
		struct frame f;
		int n = frame_decode((const uint8_t *)body.p + at, body.n - at, &f);

		if (n <= 0)
			return -EPROTO;
		r = take_frame(t, &f);
		at += (size_t)n;
	}
	return r;
}

static void show_told(const struct told *t, uint64_t asked, struct result *out)
{
	if (t->lost)
		result_printf(out, "[%" PRIu64 " bytes are no longer kept]", t->lost);
	if (t->text.len)
		result_text(out, (struct slice){ t->text.data, t->text.len });
	result_printf(out, "[bytes %" PRIu64 " to %" PRIu64 "; read on from offset %" PRIu64 "%s]",
		      t->text.len ? t->from : asked, t->next, t->next,
		      t->end ? "" : "; there may be more");
	if (t->end) {
		part_end(t->end, out);
		out->error = false; /* the command's, and this is only its output */
	}
}

int show_output(struct tool_run *run, struct result *out, struct cay_err *err)
{
	uint64_t asked = run_arg_number(run, "offset");
	struct told told = { .text = BUF_INIT(RESULT_TEXT), .from = asked, .next = asked };
	int r = take_frames(&told, run->answer.body);

	if (r < 0)
		r = cay_fail(err, CAY_E_MISBEHAVED, "the sandbox told it in a way nobody reads");
	else
		show_told(&told, asked, out);
	json_decref(told.end);
	buf_fini(&told.text);
	return r;
}

int ask_stop(struct tool_run *run, struct cay_err *err)
{
	bool id = run_arg(run, "id"), pid = run_arg_number(run, "pid");
	int r;

	if (run->step)
		return TOOL_SHOWN;
	if (id == pid)
		return cay_fail_field(err, CAY_E_INVALID, "id", "give either id or pid");
	if (id && noun_of(run, "id") != ID_EXEC)
		return no_id(run, err);
	run_call(run, id ? OP_EXEC_SIGNAL : OP_PROCESS_SIGNAL);
	r = run_map(run, err);
	if (r >= 0 && id)
		r = run_text(run, "exec", run_arg(run, "id"), err);
	if (r >= 0 && pid)
		r = run_number(run, "pid", run_arg_number(run, "pid"), err);
	return r < 0 || id ? r : run_set(run, "tree", json_true(), err);
}

int show_stopped(struct tool_run *run, struct result *out, struct cay_err *)
{
	const char *state = part_str(run->answer.json, "state");

	result_printf(out, "%s was sent%s%.32s", run_arg(run, "signal"),
		      state[0] ? "; the command is " : "", state);
	return 0;
}

int show_processes(struct tool_run *run, struct result *out, struct cay_err *)
{
	const json_t *list = json_object_get(run->answer.json, "processes"), *p;
	auto_lines lines = PART_LINES_INIT;
	size_t i;

	part_line(&lines, "PID USER STATE CPU_MS RSS_KIB COMMAND");
	json_array_foreach(list, i, p)
	{
		int depth = (int)(part_number(p, "depth") < 20 ? part_number(p, "depth") : 20);

		part_line(&lines, "%" PRIu64 " %s %s %" PRIu64 " %" PRIu64 " %*s%s",
			  part_number(p, "pid"), or_dash(part_str(p, "user")), part_str(p, "state"),
			  part_number(p, "cpu_ms"), part_number(p, "rss_bytes") / 1024, depth, "",
			  part_str(p, "command"));
	}
	part_lines_show(&lines, "", part_number(run->answer.json, "left_out"), out);
	return 0;
}

/* Files */

int ask_read(struct tool_run *run, struct cay_err *err)
{
	return part_view_ask(run, run_arg(run, "path"), run_arg_number(run, "first"),
			     run_arg_number(run, "limit"), err);
}

int ask_write(struct tool_run *run, struct cay_err *err)
{
	int r;

	if (run->step)
		return TOOL_SHOWN;
	run_call(run, OP_FILE_WRITE);
	r = run_map(run, err);
	if (r >= 0 && str_eq(run_arg(run, "encoding"), "base64"))
		r = part_body(run, "content", run->call.body, err);
	return r;
}

int show_written(struct tool_run *run, struct result *out, struct cay_err *)
{
	const json_t *j = run->answer.json;

	result_printf(out, "%s %s, %" PRIu64 " bytes",
		      json_is_true(json_object_get(j, "created")) ? "made" : "wrote",
		      run_arg(run, "path"), part_number(j, "size"));
	return 0;
}

int ask_edit(struct tool_run *run, struct cay_err *err)
{
	json_t *changes = json_array(), *row;
	size_t i;
	int r;

	if (run->step) {
		json_decref(changes);
		return TOOL_SHOWN;
	}
	json_array_foreach(json_object_get(run->args, "edits"), i, row)(void) json_array_append_new(
		changes,
		json_pack("{s:s, s:O, s:O}", "kind",
			  json_is_true(json_object_get(row, "all")) ? "replace_all" : "replace",
			  "old", json_object_get(row, "old"), "new", json_object_get(row, "new")));
	run_call(run, OP_FILE_EDIT);
	r = run_set(run, "edits", changes, err);
	if (r >= 0 && json_array_size(json_object_get(run->call.members, "edits")) != i)
		r = cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	return r < 0 ? r : run_map(run, err);
}

int show_diff(struct tool_run *run, struct result *out, struct cay_err *)
{
	const json_t *j = run->answer.json;
	struct slice diff = part_text(j, "diff");

	if (diff.n)
		result_cut(out, diff, RESULT_TEXT, "read the file to see all of it");
	else
		result_printf(out,
			      "[%" PRIu64 " places changed; the diff is not text, or too long]",
			      part_number(j, "changes"));
	return 0;
}

int show_found(struct tool_run *run, struct result *out, struct cay_err *)
{
	const json_t *list = json_object_get(run->answer.json, "files"), *f;
	uint64_t total = part_number(run->answer.json, "total");
	auto_lines lines = PART_LINES_INIT;
	size_t i;

	json_array_foreach(list, i, f)
	{
		auto_buf name = BUF_INIT(KIB(8));
		bool dir = str_eq(part_str(f, "type"), "directory");

		if (part_name(f, "path", &name) < 0)
			continue;
		if (dir)
			part_line(&lines, "%s/", buf_str(&name));
		else
			part_line(&lines, "%s  %" PRIu64, buf_str(&name), part_number(f, "size"));
	}
	part_lines_show(&lines, "No file fits.", total > json_array_size(list), out);
	return 0;
}

int show_hits(struct tool_run *run, struct result *out, struct cay_err *)
{
	const json_t *j = run->answer.json, *list = json_object_get(j, "hits"), *h;
	const char *where = run_arg(run, "path");
	auto_lines lines = PART_LINES_INIT;
	size_t i;

	json_array_foreach(list, i, h)
	{
		auto_buf name = BUF_INIT(KIB(8)), text = BUF_INIT(KIB(8));

		if (part_name(h, "path", &name) < 0 || part_name(h, "text", &text) < 0)
			continue;
		part_line(&lines, "%s%c%" PRIu64 "%c%s",
			  name.len ? buf_str(&name)
			  : where  ? where
				   : "",
			  json_object_get(h, "column") ? ':' : '-', part_number(h, "line"),
			  json_object_get(h, "column") ? ':' : '-', buf_str(&text));
	}
	part_lines_show(&lines, "No line fits.", json_is_true(json_object_get(j, "truncated")),
			out);
	return 0;
}

/* Ports */

int ask_ports(struct tool_run *run, struct cay_err *err)
{
	uint64_t port = run_arg_number(run, "port");
	double wait = json_number_value(json_object_get(run->args, "wait"));
	int r;

	if (run->step)
		return TOOL_SHOWN;
	run_call(run, port ? OP_PORT_WAIT : OP_PORT_LIST);
	if (!port)
		return TOOL_CALLS;
	r = run_number(run, "port", port, err);
	return r < 0 ? r : run_number(run, "wait_ms", (uint64_t)llround(wait * 1000), err);
}

int show_ports(struct tool_run *run, struct result *out, struct cay_err *)
{
	const json_t *j = run->answer.json, *p;
	auto_lines lines = PART_LINES_INIT;
	size_t i;

	if (run->call.op == OP_PORT_WAIT) {
		bool open = json_is_true(json_object_get(j, "open"));

		result_printf(out,
			      open ? "port %" PRIu64 " is open" : "nobody listens at port %" PRIu64,
			      run_arg_number(run, "port"));
		out->error = !open;
		return 0;
	}
	json_array_foreach(json_object_get(j, "ports"), i, p)
	{
		part_line(&lines, "%" PRIu64 " at %s, pid %" PRIu64 "%s%s", part_number(p, "port"),
			  part_str(p, "address"), part_number(p, "pid"),
			  part_str(p, "exec")[0] ? ", of " : "", part_str(p, "exec"));
	}
	part_lines_show(&lines, "Nobody listens.", false, out);
	return 0;
}

int show_preview(struct tool_run *run, struct result *out, struct cay_err *)
{
	const json_t *j = run->answer.json;

	result_printf(out, "%s\n[until %s, for whoever has it]%s", part_str(j, "url"),
		      part_str(j, "expires_at"),
		      json_is_false(json_object_get(j, "listening"))
			      ? "\n[nobody in the sandbox listens there yet]"
			      : "");
	out->data = j;
	return 0;
}
