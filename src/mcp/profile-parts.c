/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/profile-parts.h"

#include <inttypes.h>
#include <stdio.h>

#include "text/base64.h"

struct slice part_text(const json_t *o, const char *name)
{
	const json_t *v = json_object_get(o, name);

	return json_is_string(v) ? (struct slice){ json_string_value(v), json_string_length(v) }
				 : (struct slice){ "", 0 };
}

const char *part_str(const json_t *o, const char *name)
{
	return part_text(o, name).p;
}

uint64_t part_number(const json_t *o, const char *name)
{
	json_int_t n = json_integer_value(json_object_get(o, name));

	return n > 0 ? (uint64_t)n : 0;
}

int part_name(const json_t *o, const char *member, struct buf *out)
{
	struct slice name = part_text(o, member);
	char other[32];
	int n;

	if (name.n)
		return buf_add(out, name.p, name.n);
	n = snprintf(other, sizeof(other), "%s_b64", member);
	if (n < 0 || (size_t)n >= sizeof(other))
		return -EINVAL;
	name = part_text(o, other);
	return name.n ? buf_printf(out, "base64:%s", name.p) : 0;
}

const char *part_failure(struct tool_run *run)
{
	struct cay_err err = {};
	const char *why;

	if (run->answer.status < 400)
		return NULL;
	run_read_failure(run, &err);
	why = pool_strn(&run->pool, err.msg, strlen(err.msg));
	return why ? why : "it failed";
}

/* A member of a stream: "stdout" and "_offset". */
static const json_t *of_stream(const json_t *o, const char *stream, const char *what)
{
	char name[32];
	int n = snprintf(name, sizeof(name), "%s%s", stream, what);

	return n > 0 && (size_t)n < sizeof(name) ? json_object_get(o, name) : NULL;
}

static struct slice text_of(const json_t *v)
{
	return (struct slice){ json_is_string(v) ? json_string_value(v) : "",
			       json_string_length(v) };
}

/* How to read what was left out, or "". */
static void how_to(char *to, size_t size, const char *id, const char *stream, uint64_t offset)
{
	int n = id[0] ? snprintf(to, size, "read on with output, id %s, stream %s, offset %" PRIu64,
				 id, stream, offset)
		      : 0;

	if (n <= 0 || (size_t)n >= size)
		to[0] = 0;
}

/* It was cut already, by whoever told it: head and tail are apart. */
static void show_halves(struct slice head, struct slice tail, uint64_t cut, const char *how,
			struct result *out)
{
	auto_buf b = BUF_INIT(head.n + tail.n + KIB(1));
	int r = buf_add(&b, head.p, head.n);

	if (r >= 0)
		r = buf_printf(&b, "\n[... %" PRIu64 " bytes are left out here%s%s ...]\n", cut,
			       how[0] ? "; " : "", how);
	if (r >= 0)
		r = buf_add(&b, tail.p, tail.n);
	if (r < 0 && !out->w->err)
		out->w->err = r;
	result_cut(out, (struct slice){ buf_str(&b), b.len }, RESULT_TEXT, NULL);
}

/* All of it was told, or its end: then what came in front can be read. */
static void show_end_of(const json_t *answer, struct slice text, const char *stream, const char *id,
			struct result *out)
{
	uint64_t from = (uint64_t)json_integer_value(of_stream(answer, stream, "_offset"));
	uint64_t cut = (uint64_t)json_integer_value(of_stream(answer, stream, "_cut_bytes"));
	char how[160];

	/* a shell counts all its runs */
	if (!cut && !json_object_get(answer, "number"))
		cut = from;
	how_to(how, sizeof(how), id, stream, from - (cut < from ? cut : from));
	if (cut)
		result_printf(out, "[%" PRIu64 " bytes of %s came before this%s%s]", cut, stream,
			      how[0] ? "; " : "", how);
	how_to(how, sizeof(how), id, stream,
	       from + utf8_whole(text.p, text.n < RESULT_TEXT / 4 ? text.n : RESULT_TEXT / 4));
	result_cut(out, text, RESULT_TEXT / 2, how[0] ? how : NULL);
}

void part_stream(const json_t *answer, const char *stream, const char *id, struct result *out)
{
	struct slice text = text_of(json_object_get(answer, stream));
	struct slice tail = text_of(of_stream(answer, stream, "_tail"));
	char how[160];

	if (text_of(of_stream(answer, stream, "_b64")).n) {
		result_printf(out, "[%s is no text: %zu characters of base64 left out]", stream,
			      text_of(of_stream(answer, stream, "_b64")).n);
		return;
	}
	if (!tail.n) {
		if (text.n)
			show_end_of(answer, text, stream, id, out);
		return;
	}
	how_to(how, sizeof(how), id, stream,
	       (uint64_t)json_integer_value(of_stream(answer, stream, "_cut_offset")));
	show_halves(text, tail,
		    (uint64_t)json_integer_value(of_stream(answer, stream, "_cut_bytes")), how,
		    out);
}

json_t *part_cut(const json_t *answer, const char *stream)
{
	struct slice text = text_of(json_object_get(answer, stream));
	auto_buf b = BUF_INIT(RESULT_TEXT / 2 + KIB(1));
	size_t half = RESULT_TEXT / 4, tail;

	if (!text.n)
		text = text_of(of_stream(answer, stream, "_b64"));
	if (text.n <= 2 * half)
		return json_stringn(text.p, text.n);
	tail = text.n - half;
	while (tail < text.n && ((unsigned char)text.p[tail] & 0xc0) == 0x80)
		tail++;
	half = utf8_whole(text.p, half);
	if (buf_add(&b, text.p, half) < 0 ||
	    buf_printf(&b, "\n[... %zu bytes are left out here ...]\n", tail - half) < 0 ||
	    buf_add(&b, text.p + tail, text.n - tail) < 0)
		return NULL;
	return json_stringn(b.data, b.len);
}

void part_json(struct result *out, json_t *stolen)
{
	auto_buf text = BUF_INIT(MIB(1));
	struct jw w = jw_to(&text);
	int r = stolen ? 0 : -ENOMEM;

	if (stolen)
		jr_write(stolen, NULL, &w);
	if (stolen)
		r = jw_done(&w);
	if (r < 0 && !out->w->err)
		out->w->err = r;
	result_text(out, (struct slice){ buf_str(&text), text.len });
	json_decref(out->owned);
	out->owned = stolen;
	out->data = stolen;
}

void part_end(const json_t *end, struct result *out)
{
	const json_t *code = json_object_get(end, "exit_code");
	const char *signal = part_str(end, "signal"), *detail = part_str(end, "detail");

	if (json_is_integer(code))
		result_printf(out, "[exit %lld]", (long long)json_integer_value(code));
	else
		result_printf(out, "[ended: %.64s%s%.32s%s%.400s]", part_str(end, "reason"),
			      signal[0] ? " " : "", signal, detail[0] ? ", " : "", detail);
	out->error = !json_is_integer(code) || json_integer_value(code) != 0;
}

void part_line(struct part_lines *l, const char *fmt, ...)
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

void part_lines_show(struct part_lines *l, const char *empty, bool more, struct result *out)
{
	if (!l->text.len && !l->left_out)
		result_text(out, slice_of(empty));
	else
		result_text(out, (struct slice){ buf_str(&l->text), l->text.len });
	if (l->left_out)
		result_printf(out, "[%zu more are left out: ask for fewer]", l->left_out);
	else if (more)
		result_text(out, SLICE("[there are more: ask for a smaller part]"));
}

void part_lines_fini(struct part_lines *l)
{
	buf_fini(&l->text);
}

/* Commands */

uint64_t part_timeout(const struct tool_run *run)
{
	return run->settings->mcp_timeout_ms;
}

int part_exec_ask(struct tool_run *run, struct cay_err *err)
{
	int r;

	if (run->step)
		return TOOL_SHOWN;
	run_call(run, OP_EXEC_RUN);
	r = run_map(run, err);
	if (r >= 0 && !json_is_true(json_object_get(run->call.members, "detach")) &&
	    !json_object_get(run->call.members, "timeout_ms"))
		r = run_number(run, "timeout_ms", part_timeout(run), err);
	return r;
}

/* Shells */

struct shell_own {
	char id[ID_TEXT_LEN + 1];
	bool deleted, runs;
};

const char *part_shell_id(const struct tool_run *run)
{
	const struct shell_own *own = run->own;

	return own ? own->id : "";
}

static bool keep_id(struct shell_own *own, const json_t *shell)
{
	struct slice id = part_text(shell, "id");
	struct id parsed;

	/* it goes into a path */
	if (id_parse(ID_SHELL, id, &parsed) < 0)
		return false;
	memcpy(own->id, id.p, id.n);
	own->id[id.n] = 0;
	return true;
}

static bool find_shell(const json_t *list, const char *name, struct shell_own *own)
{
	const json_t *shells = json_object_get(list, "shells"), *shell;
	size_t i;

	json_array_foreach(shells, i, shell) if (str_eq(part_str(shell, "name"), name) &&
						 !str_eq(part_str(shell, "state"), "ended") &&
						 keep_id(own, shell)) return true;
	return false;
}

static int open_shell(struct tool_run *run, const struct part_shell *want, struct cay_err *err)
{
	run_call(run, OP_SHELL_CREATE);
	return run_text(run, "name", want->name, err);
}

static int run_in_shell(struct tool_run *run, const struct part_shell *want, struct cay_err *err)
{
	struct shell_own *own = run->own;
	int r;

	if (!want->command || own->runs)
		return TOOL_SHOWN;
	own->runs = true;
	run_call(run, OP_SHELL_RUN);
	r = run_text(run, "shell", own->id, err);
	if (r >= 0)
		r = run_text(run, "command", want->command, err);
	if (r >= 0)
		r = run_number(run, "timeout_ms", want->timeout_ms, err);
	if (r >= 0)
		r = run_number(run, "max_output", RESULT_TEXT / 2, err);
	return r < 0 ? r : run_text(run, "keep", "both", err);
}

int part_shell_ask(struct tool_run *run, const struct part_shell *want, struct cay_err *err)
{
	struct shell_own *own = run->own;

	if (run->step == 0) {
		run->own = pool_take(&run->pool, 1, sizeof(*own));
		if (!run->own)
			return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
		run_call(run, OP_SHELL_LIST);
		return TOOL_CALLS;
	}
	if (run->step == 1) {
		bool found = find_shell(run->answer.json, want->name, own);

		if (found && !want->restart)
			return run_in_shell(run, want, err);
		if (!found)
			return open_shell(run, want, err);
		run_call(run, OP_SHELL_DELETE);
		own->deleted = true;
		return run_text(run, "shell", own->id, err);
	}
	if (own->deleted) {
		own->deleted = false;
		return open_shell(run, want, err);
	}
	if (!own->runs && !keep_id(own, run->answer.json))
		return cay_fail(err, CAY_E_MISBEHAVED, "the sandbox did not say which shell it is");
	return run_in_shell(run, want, err);
}

int part_shell_show(struct tool_run *run, struct result *out, struct cay_err *err)
{
	const json_t *j = run->answer.json;
	const char *id = part_shell_id(run), *cwd = part_str(j, "cwd");

	if (!json_is_object(j))
		return cay_fail(err, CAY_E_MISBEHAVED, "the sandbox did not say how it ended");
	part_stream(j, "stdout", id, out);
	part_stream(j, "stderr", id, out);
	if (cwd[0])
		result_printf(out, "[in %.1024s]", cwd);
	part_end(json_object_get(j, "end"), out);
	return 0;
}

/* Files */

int part_body(struct tool_run *run, const char *arg, struct slice base64, struct cay_err *err)
{
	uint8_t *raw = pool_take(&run->pool, 1, BASE64_BYTES(base64.n) + 1);
	size_t n = 0;

	if (!raw)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	if (base64_decode(base64.p, base64.n, raw, &n) < 0)
		return cay_fail_field(
			err, CAY_E_INVALID, arg,
			"is not base64: of A-Z, a-z, 0-9, + and /, filled up to fours "
			"with =, without white space");
	run->call.body = (struct slice){ (const char *)raw, n };
	return 0;
}

#define WIDTH_MAX 65536 /* of a line, as file.view has it */

static int view(struct tool_run *run, const char *path, uint64_t first, uint64_t limit,
		bool numbers, struct cay_err *err)
{
	int r;

	run_call(run, OP_FILE_VIEW);
	r = run_text(run, "path", path, err);
	if (r >= 0)
		r = run_number(run, "first", first ? first : 1, err);
	if (r >= 0)
		r = run_number(run, "limit", limit ? limit : 2000, err);
	if (r >= 0 && !numbers)
		r = run_number(run, "width", WIDTH_MAX, err);
	return r < 0 ? r : run_set(run, "numbers", json_boolean(numbers), err);
}

int part_view_ask(struct tool_run *run, const char *path, uint64_t first, uint64_t limit,
		  struct cay_err *err)
{
	const json_t *j = run->answer.json;

	if (!run->step)
		return view(run, path, first, limit, true, err);
	if (run->step == 1 && json_is_true(json_object_get(j, "binary"))) {
		run_call(run, OP_FILE_READ);
		run->call.range = "bytes=0-4194303";
		return run_text(run, "path", path, err);
	}
	/* numbers would stand among the bytes */
	if (run->step == 1 && part_text(j, "text_b64").n)
		return view(run, path, first, limit, false, err);
	return TOOL_SHOWN;
}

/* So many whole lines as a result may have. */
static size_t fitting(struct slice text, uint64_t *ret_lines)
{
	size_t n = text.n, lines = 0;

	if (n > RESULT_TEXT) {
		n = utf8_whole(text.p, RESULT_TEXT);
		while (n && text.p[n - 1] != '\n')
			n--;
	}
	for (size_t i = 0; i < n; i++)
		lines += text.p[i] == '\n';
	*ret_lines = lines + (n && text.p[n - 1] != '\n');
	return n;
}

static void show_lines(const json_t *j, struct result *out)
{
	struct slice text = part_text(j, "text");
	uint64_t first = part_number(j, "first"), total = part_number(j, "total"), shown;
	size_t n = fitting(text, &shown);

	if (!text.n) {
		result_printf(out, "[no lines; the file has %" PRIu64 " bytes]",
			      part_number(j, "size"));
		return;
	}
	result_text(out, (struct slice){ text.p, n });
	if (!first)
		first = 1;
	if (n < text.n || json_is_true(json_object_get(j, "more")))
		result_printf(out,
			      "[lines %" PRIu64 " to %" PRIu64 " of %" PRIu64
			      "; read on from line %" PRIu64 "]",
			      first, first + shown - 1, total, first + shown);
}

/* Bytes that are neither text nor a picture: as many of the first as fit. */
static int show_bytes(struct tool_run *run, struct result *out, struct cay_err *err)
{
	struct slice bytes = run->answer.body;
	size_t n = bytes.n < BASE64_BYTES(RESULT_TEXT) ? bytes.n : BASE64_BYTES(RESULT_TEXT);
	char *text = pool_take(&run->pool, 1, BASE64_TEXT(n) + 1);

	if (!text)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	base64_encode((const uint8_t *)bytes.p, n, text);
	result_text(out, (struct slice){ text, BASE64_TEXT(n) });
	if (n < bytes.n)
		result_printf(out,
			      "[base64 of the first %zu bytes; there are more: a shell gives them "
			      "by tail -c +%zu | head -c %zu | base64]",
			      n, n + 1, n);
	else
		result_printf(out, "[base64 of all %zu bytes]", n);
	return 0;
}

/* Lines that are not UTF-8. */
static void show_raw_lines(const json_t *j, struct result *out)
{
	struct slice text = part_text(j, "text_b64");
	uint64_t first = part_number(j, "first"), lines = part_number(j, "lines");
	bool cut = text.n > RESULT_TEXT || part_number(j, "cut");

	if (text.n > RESULT_TEXT)
		text.n = utf8_whole(text.p, RESULT_TEXT); /* a sandbox may say anything */
	result_text(out, text);
	result_printf(out,
		      "[base64, for it is not UTF-8: lines %" PRIu64 " to %" PRIu64 " of %" PRIu64
		      "%s]",
		      first, first + lines - (lines != 0), part_number(j, "total"),
		      cut ? ", not all of them" : "");
}

int part_view_show(struct tool_run *run, struct result *out, struct cay_err *err)
{
	const json_t *j = run->answer.json;

	if (run->call.op == OP_FILE_READ)
		return result_image(out, run->answer.body) ? 0 : show_bytes(run, out, err);
	if (!json_is_object(j))
		return cay_fail(err, CAY_E_MISBEHAVED, "the sandbox did not tell the file");
	if (part_text(j, "text_b64").n)
		show_raw_lines(j, out);
	else
		show_lines(j, out);
	return 0;
}

int part_edit(struct tool_run *run, const char *path, const char *kind, const char *old,
	      const char *text, uint64_t line, struct cay_err *err)
{
	json_t *edits = json_pack("[{s:s, s:s*, s:s, s:I}]", "kind", kind, "old", old, "new", text,
				  "line", (json_int_t)line);
	int r;

	run_call(run, OP_FILE_EDIT);
	r = run_set(run, "edits", edits, err);
	return r < 0 ? r : run_text(run, "path", path, err);
}
