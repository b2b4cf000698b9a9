/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/profiles/profile-output.h"

#include <inttypes.h>
#include <stdio.h>

#include "text/base64.h"

static struct slice json_text_or_empty(const json_t *v)
{
	return json_is_string(v) ? (struct slice){ json_string_value(v), json_string_length(v) }
				 : (struct slice){ "", 0 };
}

struct slice json_member_text(const json_t *o, const char *name)
{
	return json_text_or_empty(json_object_get(o, name));
}

const char *json_member_str(const json_t *o, const char *name)
{
	return json_member_text(o, name).p;
}

uint64_t json_member_number(const json_t *o, const char *name)
{
	json_int_t n = json_integer_value(json_object_get(o, name));

	return n > 0 ? (uint64_t)n : 0;
}

bool json_member_true(const json_t *o, const char *name)
{
	return json_is_true(json_object_get(o, name));
}

int json_member_put(json_t *o, const char *name, json_t *stolen)
{
	return json_object_set_new(o, name, stolen) < 0 ? -ENOMEM : 0;
}

int json_member_copy(json_t *o, const char *name, const json_t *from, const char *member)
{
	json_t *value = json_object_get(from, member);

	return value && json_object_set(o, name, value) < 0 ? -ENOMEM : 0;
}

int json_member_filename(const json_t *o, const char *member, struct buf *out)
{
	struct slice name = json_member_text(o, member);
	char other[32];
	int n;

	if (name.n)
		return buf_append(out, name.p, name.n);
	n = snprintf(other, sizeof(other), "%s_b64", member);
	if (n < 0 || (size_t)n >= sizeof(other))
		return -EINVAL;
	name = json_member_text(o, other);
	return name.n ? buf_printf(out, "base64:%s", name.p) : 0;
}

const char *tool_run_failure_text(struct tool_run *run)
{
	struct cay_err err = {};
	const char *why;

	if (run->answer.status < 400)
		return NULL;
	tool_run_read_failure(run, &err);
	why = arena_strndup(&run->arena, err.msg, strlen(err.msg));
	return why ? why : "the operation failed";
}

/* A member of a stream, such as "stdout" "_offset". */
static const json_t *json_stream_member(const json_t *o, const char *stream, const char *what)
{
	char name[32];
	int n = snprintf(name, sizeof(name), "%s%s", stream, what);

	return n > 0 && (size_t)n < sizeof(name) ? json_object_get(o, name) : NULL;
}

uint64_t json_stream_number(const json_t *o, const char *stream, const char *what)
{
	return (uint64_t)json_integer_value(json_stream_member(o, stream, what));
}

struct slice json_stream_text(const json_t *o, const char *stream, const char *what)
{
	return json_text_or_empty(json_stream_member(o, stream, what));
}

/* How to read the omitted part, or "". */
static void stream_format_read_on_hint(char *to, size_t size, const char *id, const char *stream,
				       uint64_t offset)
{
	int n = id[0] ? snprintf(to, size, "read on with output, id %s, stream %s, offset %" PRIu64,
				 id, stream, offset)
		      : 0;

	if (n <= 0 || (size_t)n >= size)
		to[0] = 0;
}

/* The reply has head and tail already. */
static void tool_result_add_halves(struct slice head, struct slice tail, uint64_t cut,
				   const char *how, struct tool_result *out)
{
	auto_buf b = BUF_INIT(head.n + tail.n + KIB(1));
	int r = buf_append(&b, head.p, head.n);

	if (r >= 0)
		r = buf_printf(&b, "\n[... %" PRIu64 " bytes omitted%s%s ...]\n", cut,
			       how[0] ? "; " : "", how);
	if (r >= 0)
		r = buf_append(&b, tail.p, tail.n);
	tool_result_note_failure(out, r);
	tool_result_add_cut(out, (struct slice){ buf_str(&b), b.len }, RESULT_TEXT, NULL);
}

/* The reply has all of the output, or its end; the part before can be read. */
static void tool_result_add_stream_end(const json_t *answer, struct slice text, const char *stream,
				       const char *id, struct tool_result *out)
{
	uint64_t from = json_stream_number(answer, stream, "_offset");
	uint64_t cut = json_stream_number(answer, stream, "_cut_bytes");
	size_t shown = text.n < RESULT_OUTPUT / 2 ? text.n : RESULT_OUTPUT / 2;
	char how[160];

	/* the offset of a shell counts all its runs */
	if (!cut && !json_object_get(answer, "number"))
		cut = from;
	stream_format_read_on_hint(how, sizeof(how), id, stream, from - (cut < from ? cut : from));
	if (cut)
		tool_result_printf(out, "[%" PRIu64 " bytes of %s came before this%s%s]", cut,
				   stream, how[0] ? "; " : "", how);
	stream_format_read_on_hint(how, sizeof(how), id, stream,
				   from + utf8_whole_prefix_len(text.p, shown));
	tool_result_add_cut(out, text, RESULT_OUTPUT, how[0] ? how : NULL);
}

void tool_result_add_stream(const json_t *answer, const char *stream, const char *id,
			    struct tool_result *out)
{
	struct slice text = json_member_text(answer, stream);
	struct slice tail = json_stream_text(answer, stream, "_tail");
	struct slice base64 = json_stream_text(answer, stream, "_b64");
	char how[160];

	if (base64.n) {
		tool_result_printf(out, "[%s is no text: %zu characters of base64 left out]",
				   stream, base64.n);
	} else if (tail.n) {
		stream_format_read_on_hint(how, sizeof(how), id, stream,
					   json_stream_number(answer, stream, "_cut_offset"));
		tool_result_add_halves(text, tail, json_stream_number(answer, stream, "_cut_bytes"),
				       how, out);
	} else if (text.n) {
		tool_result_add_stream_end(answer, text, stream, id, out);
	}
}

void tool_result_add_streams(const json_t *answer, const char *id, struct tool_result *out)
{
	tool_result_add_stream(answer, "stdout", id, out);
	tool_result_add_stream(answer, "stderr", id, out);
}

int tool_result_set_json(struct tool_result *out, json_t *stolen)
{
	auto_buf text = BUF_INIT(TOOL_RUN_ANSWER_MAX);
	struct jw w = jw_to(&text);

	if (stolen)
		json_write(stolen, NULL, &w);
	tool_result_note_failure(out, stolen ? jw_finish(&w) : -ENOMEM);
	tool_result_add_text(out, (struct slice){ buf_str(&text), text.len });
	json_decref(out->owned);
	out->owned = stolen;
	out->data = stolen;
	return 0;
}

int tool_result_pack(struct tool_result *out, const char *fmt, ...)
{
	json_t *packed;
	va_list ap;

	va_start(ap, fmt);
	packed = json_vpack_ex(NULL, 0, fmt, ap);
	va_end(ap);
	return tool_result_set_json(out, packed);
}

int tool_run_add_row(struct tool_run *run, json_t *stolen, struct cay_err *err)
{
	json_t *rows = json_object_get(run->args, TOOL_ROWS);

	if (!rows && json_object_set_new(run->args, TOOL_ROWS, rows = json_array()) < 0)
		return cay_no_memory(err);
	return json_array_append_new(rows, stolen) < 0 ? cay_no_memory(err) : 0;
}

int tool_run_write_rows(struct tool_run *run, const char *member, struct tool_result *out)
{
	json_t *rows = json_object_get(run->args, TOOL_ROWS), *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		out->error |= json_object_get(row, "error") != NULL;
	}
	return tool_result_pack(out, "{s:O}", member, rows);
}

/* The argument of a tool that has one of these names, or NULL. */
static const char *tool_arg_named(const struct mcp_tool *t, const char *a, const char *b)
{
	for (const struct tool_arg *arg = t->args; arg->name || arg->as; arg++)
		if (arg->name && (str_eq(arg->name, a) || str_eq(arg->name, b)))
			return arg->name;
	return NULL;
}

/* "[ended: timeout after 2 s; ...]", with the arguments that this tool has. */
static int end_add_timeout(const struct tool_run *run, const char *signal, struct buf *out)
{
	const char *longer = tool_arg_named(run->tool, "timeout", "timeout_ms");
	const char *apart = tool_arg_named(run->tool, "background", "run_in_background");
	double s = (double)json_member_number(run->call.members, "timeout_ms") / 1000;

	return buf_printf(out, "[ended: timeout after %g s%s%.32s; for longer work %s%s%s%s%s%s]",
			  s, signal[0] ? ", " : "", signal, longer ? "give a longer `" : "",
			  longer ? longer : "", longer ? "`, or " : "",
			  apart ? "use `" : "run it in the background with its output in a file",
			  apart ? apart : "", apart ? "`" : "");
}

bool end_is_result(const json_t *end)
{
	const char *reason = json_member_str(end, "reason");

	return str_eq(reason, "exit") || str_eq(reason, "signal") || str_eq(reason, "killed");
}

int end_add_text(const struct tool_run *run, const json_t *end, struct buf *out)
{
	const json_t *code = json_object_get(end, "exit_code");
	const char *reason = json_member_str(end, "reason"),
		   *signal = json_member_str(end, "signal"), *why = json_member_str(end, "detail");

	if (str_eq(reason, "exit") && json_is_integer(code))
		return buf_printf(out, "[exit %lld]", (long long)json_integer_value(code));
	if (run && str_eq(reason, "timeout"))
		return end_add_timeout(run, signal, out);
	return buf_printf(out, "[ended: %.64s%s%.32s%s%.400s]", reason, signal[0] ? " " : "",
			  signal, why[0] ? ", " : "", why);
}

void tool_result_add_exit(const struct tool_run *run, const json_t *end, struct tool_result *out)
{
	auto_buf text = BUF_INIT(KIB(4));

	tool_result_note_failure(out, end_add_text(run, end, &text));
	tool_result_add_text(out, (struct slice){ buf_str(&text), text.len });
	out->error = !end_is_result(end);
}

void result_lines_printf(struct result_lines *l, const char *fmt, ...)
{
	size_t before = l->text.len;
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = l->left_out ? -ENOBUFS : buf_vprintf(&l->text, fmt, ap);
	va_end(ap);
	if (r >= 0)
		r = buf_putc(&l->text, '\n');
	if (r < 0) {
		buf_truncate(&l->text, before);
		l->left_out++;
	}
}

int result_lines_end(struct result_lines *l, const char *none, bool more, struct tool_result *out)
{
	if (!l->text.len && !l->left_out)
		tool_result_add_text(out, slice_of(none));
	else
		tool_result_add_text(out, (struct slice){ buf_str(&l->text), l->text.len });
	if (l->left_out)
		tool_result_printf(out, "[%zu more omitted: narrow the request]", l->left_out);
	else if (more)
		tool_result_add_text(out, SLICE("[there are more: narrow the request]"));
	return 0;
}

void result_lines_fini(struct result_lines *l)
{
	buf_fini(&l->text);
}

int exec_tool_limit_output(struct tool_run *run, struct cay_err *err)
{
	struct output_query query = output_query_of(run);

	if (json_member_true(run->call.members, "detach"))
		return TOOL_NEXT_CALL;
	return tool_run_set(run, err, "{s:I, s:s}", "max_output", (json_int_t)query.max, "keep",
			    query.keep);
}

int exec_tool_next_call(struct tool_run *run, struct cay_err *err)
{
	int r = tool_run_default_call(run, err);

	if (r == TOOL_NEXT_CALL && !json_member_true(run->call.members, "detach") &&
	    !json_object_get(run->call.members, "timeout_ms"))
		r = tool_run_set(run, err, "{s:I}", "timeout_ms",
				 (json_int_t)tool_run_timeout_ms(run, 0));
	return r == TOOL_NEXT_CALL ? exec_tool_limit_output(run, err) : r;
}

struct shell_tool_state {
	char id[ID_TEXT_LEN + 1];
	bool deleted, runs;
};

static bool shell_tool_set_id(struct shell_tool_state *own, const json_t *shell)
{
	struct slice id = json_member_text(shell, "id");
	struct id parsed;

	/* it becomes part of a path */
	if (id_parse(ID_SHELL, id, &parsed) < 0)
		return false;
	memcpy(own->id, id.p, id.n);
	own->id[id.n] = 0;
	return true;
}

static bool shell_tool_find(const json_t *list, const char *name, struct shell_tool_state *own)
{
	const json_t *shells = json_object_get(list, "shells"), *shell;
	size_t i;

	json_array_foreach(shells, i, shell)
	{
		if (str_eq(json_member_str(shell, "name"), name) &&
		    !str_eq(json_member_str(shell, "state"), "ended") &&
		    shell_tool_set_id(own, shell))
			return true;
	}
	return false;
}

static int shell_tool_run_command(struct tool_run *run, const struct shell_tool_request *want,
				  struct cay_err *err)
{
	struct shell_tool_state *own = run->tool_state;
	struct output_query query = output_query_of(run);

	if (!want->command || own->runs)
		return TOOL_FINISHED;
	own->runs = true;
	return tool_run_call(run, OP_SHELL_RUN, err, "{s:s, s:s, s:I, s:I, s:s}", "shell", own->id,
			     "command", want->command, "timeout_ms", (json_int_t)want->timeout_ms,
			     "max_output", (json_int_t)query.max, "keep", query.keep);
}

/* A stopped sandbox has no shells: shell.create starts it, shell.list does not. */
static int shell_tool_check_list(const struct tool_run *run, struct cay_err *err)
{
	if (run->answer.status < 400)
		return 0;
	tool_run_read_failure(run, err);
	return err->code == CAY_E_STATE ? 0 : -EREMOTEIO;
}

int shell_tool_next_call(struct tool_run *run, const struct shell_tool_request *want,
			 struct cay_err *err)
{
	struct shell_tool_state *own = run->tool_state;

	if (run->step == 0) {
		run->tool_state = arena_alloc(&run->arena, 1, sizeof(*own));
		if (!run->tool_state)
			return cay_no_memory(err);
		run->accepts_failure = true;
		return tool_run_call(run, OP_SHELL_LIST, err, "{}");
	}
	if (run->step == 1) {
		int r = shell_tool_check_list(run, err);
		bool found = shell_tool_find(run->answer.json, want->name, own);

		if (r < 0)
			return r;
		if (found && !want->restart)
			return shell_tool_run_command(run, want, err);
		if (!found)
			return tool_run_call(run, OP_SHELL_CREATE, err, "{s:s}", "name",
					     want->name);
		own->deleted = true;
		return tool_run_call(run, OP_SHELL_DELETE, err, "{s:s}", "shell", own->id);
	}
	if (own->deleted) {
		own->deleted = false;
		return tool_run_call(run, OP_SHELL_CREATE, err, "{s:s}", "name", want->name);
	}
	if (!own->runs && !shell_tool_set_id(own, run->answer.json))
		return cay_fail(err, CAY_E_MISBEHAVED, "the sandbox returned no valid shell id");
	return shell_tool_run_command(run, want, err);
}

int shell_tool_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	const json_t *j = run->answer.json;
	const struct shell_tool_state *own = run->tool_state;
	const char *id = own ? own->id : "", *cwd = json_member_str(j, "cwd");

	if (!json_is_object(j))
		return cay_fail(err, CAY_E_MISBEHAVED, "the sandbox returned no result");
	tool_result_add_streams(j, id, out);
	if (cwd[0])
		tool_result_printf(out, "[in %.1024s]", cwd);
	tool_result_add_exit(run, json_object_get(j, "end"), out);
	return 0;
}

int tool_run_set_base64_body(struct tool_run *run, const char *arg, struct slice base64,
			     struct cay_err *err)
{
	uint8_t *raw = arena_alloc(&run->arena, 1, BASE64_BYTES(base64.n) + 1);
	size_t n = 0;

	if (!raw)
		return cay_no_memory(err);
	if (base64_decode(base64.p, base64.n, raw, &n) < 0)
		return cay_fail_field(err, CAY_E_INVALID, arg,
				      "is not base64: use A-Z, a-z, 0-9, + and /, padded "
				      "with =, without white space");
	run->call.body = (struct slice){ (const char *)raw, n };
	return 0;
}

#define WIDTH_MAX 65536 /* of a line, the limit of file.view */

static int file_view_begin_call(struct tool_run *run, const char *path, uint64_t first,
				uint64_t limit, bool numbers, struct cay_err *err)
{
	int r = tool_run_call(run, OP_FILE_VIEW, err, "{s:s, s:I, s:I}", "path", path, "first",
			      (json_int_t)(first ? first : 1), "limit",
			      (json_int_t)(limit ? limit : 2000));

	if (r >= 0 && !numbers)
		r = tool_run_set(run, err, "{s:i}", "width", WIDTH_MAX);
	return r < 0 ? r : tool_run_set(run, err, "{s:b}", "numbers", numbers);
}

int file_view_next_call(struct tool_run *run, const char *path, uint64_t first, uint64_t limit,
			struct cay_err *err)
{
	const json_t *j = run->answer.json;

	if (!run->step)
		return file_view_begin_call(run, path, first, limit, true, err);
	if (run->step == 1 && json_member_true(j, "binary")) {
		int r = tool_run_call(run, OP_FILE_READ, err, "{s:s}", "path", path);

		run->call.range = "bytes=0-4194303";
		return r;
	}
	/* line numbers would be mixed with the bytes */
	if (run->step == 1 && json_member_text(j, "text_b64").n)
		return file_view_begin_call(run, path, first, limit, false, err);
	return TOOL_FINISHED;
}

/* The whole lines that fit a result. */
static size_t file_view_count_fitting(struct slice text, uint64_t *ret_lines)
{
	size_t n = text.n, lines = 0;

	if (n > RESULT_TEXT) {
		n = utf8_whole_prefix_len(text.p, RESULT_TEXT);
		while (n && text.p[n - 1] != '\n')
			n--;
	}
	for (size_t i = 0; i < n; i++)
		lines += text.p[i] == '\n';
	*ret_lines = lines + (n && text.p[n - 1] != '\n');
	return n;
}

static void file_view_write_lines(const json_t *j, struct tool_result *out)
{
	struct slice text = json_member_text(j, "text");
	uint64_t first = json_member_number(j, "first"), total = json_member_number(j, "total"),
		 shown;
	size_t n = file_view_count_fitting(text, &shown);

	if (!text.n) {
		tool_result_printf(out, "[no lines; the file has %" PRIu64 " bytes]",
				   json_member_number(j, "size"));
		return;
	}
	tool_result_add_text(out, (struct slice){ text.p, n });
	if (!first)
		first = 1;
	if (n < text.n || json_member_true(j, "more"))
		tool_result_printf(out,
				   "[lines %" PRIu64 " to %" PRIu64 " of %" PRIu64
				   "; read on from line %" PRIu64 "]",
				   first, first + shown - 1, total, first + shown);
}

/* Binary bytes as base64, as many as fit. */
static int file_view_write_bytes(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	struct slice bytes = run->answer.body;
	size_t n = bytes.n < BASE64_BYTES(RESULT_TEXT) ? bytes.n : BASE64_BYTES(RESULT_TEXT);
	char *text = arena_alloc(&run->arena, 1, BASE64_TEXT(n) + 1);

	if (!text)
		return cay_no_memory(err);
	base64_encode((const uint8_t *)bytes.p, n, text);
	tool_result_add_text(out, (struct slice){ text, BASE64_TEXT(n) });
	if (n < bytes.n)
		tool_result_printf(out,
				   "[base64 of the first %zu bytes; read more with "
				   "tail -c +%zu | head -c %zu | base64]",
				   n, n + 1, n);
	else
		tool_result_printf(out, "[base64 of all %zu bytes]", n);
	return 0;
}

/* Lines that are not UTF-8. */
static void file_view_write_base64_lines(const json_t *j, struct tool_result *out)
{
	struct slice text = json_member_text(j, "text_b64");
	uint64_t first = json_member_number(j, "first"), lines = json_member_number(j, "lines");
	bool cut = text.n > RESULT_TEXT || json_member_number(j, "cut");

	if (text.n > RESULT_TEXT) /* not only base64: a sandbox may send anything */
		text.n = utf8_whole_prefix_len(text.p, RESULT_TEXT);
	tool_result_add_text(out, text);
	tool_result_printf(out,
			   "[base64, because not UTF-8: lines %" PRIu64 " to %" PRIu64
			   " of %" PRIu64 "%s]",
			   first, first + lines - (lines != 0), json_member_number(j, "total"),
			   cut ? ", incomplete" : "");
}

int file_view_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	const json_t *j = run->answer.json;

	if (run->call.op == OP_FILE_READ)
		return tool_result_add_image(out, run->answer.body)
			       ? 0
			       : file_view_write_bytes(run, out, err);
	if (!json_is_object(j))
		return cay_fail(err, CAY_E_MISBEHAVED, "the sandbox returned no file");
	if (json_member_text(j, "text_b64").n)
		file_view_write_base64_lines(j, out);
	else
		file_view_write_lines(j, out);
	return 0;
}

int file_edit_begin_call(struct tool_run *run, const char *path, const char *kind, const char *old,
			 const char *text, uint64_t line, struct cay_err *err)
{
	return tool_run_call(run, OP_FILE_EDIT, err, "{s:[{s:s, s:s*, s:s, s:I}], s:s}", "edits",
			     "kind", kind, "old", old, "new", text, "line", (json_int_t)line,
			     "path", path);
}
