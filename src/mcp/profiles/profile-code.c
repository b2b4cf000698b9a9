/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile-code - run_code: output as text, results as text or pictures, in a bounded reply
 *
 * The code writes all of it, so nothing is trusted: a picture is image content only if its bytes
 * decode and begin as a picture of its MIME type does, and each kind of content has a limit.
 */
#include "mcp/profiles/profile-code.h"

#include <inttypes.h>
#include <stdio.h>

#include "mcp/profiles/profile-output.h"
#include "text/base64.h"

#define RESULTS_ASKED MIB(3) /* with output and an exception it fits TOOL_RUN_ANSWER_MAX */
#define VALUE_MAX KIB(16)
#define MARKUP_MAX KIB(4)
#define VALUES_MAX KIB(48)
#define VALUE_COST 128 /* of a value besides its text, so that a reply has few blocks */
#define TRACEBACK_MAX KIB(8)
#define PICTURES_MAX 16

const char *const native_languages[] = { "python", "node", "r", NULL };

static const char *const picture_types[] = { "image/png", "image/jpeg", "image/gif", "image/webp" };
/* Of a result without text/plain, the first of these that it has. */
static const char *const text_types[] = { "text/markdown",  "text/html",
					  "text/latex",     "application/json",
					  "image/svg+xml",  "application/javascript",
					  "text/javascript" };

/* What one reply has shown of its results. */
struct code_shown {
	size_t values_left; /* bytes of text that still fit */
	unsigned pictures;
	uint64_t pictures_left_out, values_left_out;
};

int code_tool_begin_call(struct tool_run *run, const char *language, uint64_t max_results,
			 struct cay_err *err)
{
	struct output_query query = output_query_of(run);
	const json_t *asked;
	int r;

	tool_run_begin_call(run, OP_KERNEL_EVAL);
	r = tool_run_map_args(run, err);
	asked = json_object_get(run->call.members, "timeout_ms");
	if (r >= 0 && (!asked || profile_limits[run->tool->profile].timeout_ms))
		r = tool_run_set(run, err, "{s:I}", "timeout_ms",
				 (json_int_t)tool_run_timeout_ms(
					 run, asked ? (uint64_t)json_integer_value(asked) : 0));
	if (r >= 0)
		r = tool_run_set(run, err, "{s:I, s:s, s:I, s:s*}", "max_output",
				 (json_int_t)query.max, "keep", query.keep, "max_results",
				 (json_int_t)max_results, "language", language);
	return r < 0 ? r : TOOL_NEXT_CALL;
}

int native_code_next_call(struct tool_run *run, struct cay_err *err)
{
	return run->step ? TOOL_FINISHED : code_tool_begin_call(run, NULL, RESULTS_ASKED, err);
}

int exception_add_traceback(const json_t *exception, struct buf *out)
{
	const json_t *lines = json_object_get(exception, "traceback"), *line;
	int r = 0;
	size_t i;

	json_array_foreach(lines, i, line)
	{
		size_t n = json_string_length(line);

		if (r >= 0 && out->len && out->data[out->len - 1] != '\n')
			r = buf_putc(out, '\n');
		if (r >= 0 && n)
			r = buf_append(out, json_string_value(line), n);
	}
	return r;
}

int result_cut_add_text(const json_t *cut, struct buf *out)
{
	const char *path = json_member_str(cut, "path");

	return buf_printf(out, "[%.128s of %" PRIu64 " bytes is not shown%s%.1024s]",
			  json_member_str(cut, "mime"), json_member_number(cut, "bytes"),
			  path[0] ? "; it is in " : ": it is too large", path);
}

int picture_decode(const char *mime, struct slice base64, struct buf *out)
{
	auto_buf text = BUF_INIT(base64.n + 1);
	const char *is;
	int r = 0;

	while (r >= 0 && base64.n) { /* encoders wrap lines */
		struct slice line = slice_cut(&base64, '\n');

		r = buf_append(&text, line.p, line.n);
	}
	if (r >= 0)
		r = buf_reserve(out, BASE64_BYTES(text.len) + 1);
	if (r >= 0)
		r = base64_decode(buf_str(&text), text.len, (uint8_t *)out->data, &out->len);
	if (r < 0)
		return r;
	is = image_media_type((struct slice){ out->data, out->len });
	if (!is || !str_eq(is, mime))
		return -EINVAL;
	return 0;
}

/* True: the result is shown, or a note tells why it is not. */
static bool code_show_picture(const json_t *data, struct code_shown *shown, struct tool_result *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(picture_types); i++) {
		struct slice base64 = json_member_text(data, picture_types[i]);
		auto_buf bytes = BUF_INIT(base64.n + 1);

		if (!base64.n)
			continue;
		if (shown->pictures == PICTURES_MAX) {
			shown->pictures_left_out++;
			return true;
		}
		if (picture_decode(picture_types[i], base64, &bytes) < 0 ||
		    !tool_result_add_image(out, (struct slice){ bytes.data, bytes.len })) {
			tool_result_printf(out,
					   "[%s is not shown: its %zu characters are no such "
					   "picture in base64]",
					   picture_types[i], base64.n);
			return false;
		}
		shown->pictures++;
		return true;
	}
	return false;
}

static void code_show_value(const json_t *data, struct code_shown *shown, struct tool_result *out)
{
	struct slice text = json_member_text(data, "text/plain");
	size_t max = VALUE_MAX, cost;

	for (size_t i = 0; !text.n && i < ARRAY_SIZE(text_types); i++) {
		text = json_member_text(data, text_types[i]);
		max = MARKUP_MAX;
	}
	if (!text.n)
		return;
	cost = (text.n < max ? text.n : max) + VALUE_COST;
	if (cost > shown->values_left) {
		shown->values_left_out++;
		shown->values_left = 0; /* those after it would be out of order */
		return;
	}
	shown->values_left -= cost;
	tool_result_add_cut(out, text, max, NULL);
}

static void code_show_result(const json_t *result, struct code_shown *shown,
			     struct tool_result *out)
{
	const json_t *data = json_object_get(result, "data"),
		     *cuts = json_object_get(result, "cut"), *cut;
	uint64_t before = shown->values_left_out;
	size_t i;

	if (!code_show_picture(data, shown, out))
		code_show_value(data, shown, out);
	json_array_foreach(cuts, i, cut)
	{
		auto_buf note = BUF_INIT(KIB(8));

		if (shown->values_left < KIB(2)) {
			shown->values_left_out = before + 1;
			break;
		}
		tool_result_note_failure(out, result_cut_add_text(cut, &note));
		shown->values_left -= note.len < KIB(2) ? note.len : KIB(2);
		tool_result_add_text(out, (struct slice){ buf_str(&note), note.len });
	}
}

static void code_show_results(const json_t *answer, struct tool_result *out)
{
	struct code_shown shown = { .values_left = VALUES_MAX };
	const json_t *results = json_object_get(answer, "results"), *result;
	uint64_t dropped = json_member_number(answer, "results_dropped");
	size_t i;

	json_array_foreach(results, i, result)
	{
		code_show_result(result, &shown, out);
	}
	if (shown.pictures_left_out)
		tool_result_printf(out,
				   "[%" PRIu64 " pictures more are not shown; a reply has at most "
				   "%d: draw fewer in a call]",
				   shown.pictures_left_out, PICTURES_MAX);
	if (shown.values_left_out + dropped)
		tool_result_printf(out,
				   "[%" PRIu64 " results more are not shown: print or display less "
				   "in a call, or write it to a file]",
				   shown.values_left_out + dropped);
}

/* A traceback ends with the exception; of one without, its name and message are shown. */
static void code_show_exception(const json_t *exception, struct tool_result *out)
{
	auto_buf text = BUF_INIT(TOOL_RUN_ANSWER_MAX);
	struct slice name = json_member_text(exception, "name"),
		     value = json_member_text(exception, "value");

	tool_result_note_failure(out, exception_add_traceback(exception, &text));
	while (text.len && text.data[text.len - 1] == '\n')
		buf_truncate(&text, text.len - 1);
	if (!text.len || !memmem(text.data, text.len, name.p, name.n)) {
		struct slice said = { value.p, value.n };

		if (said.n > MARKUP_MAX)
			said.n = utf8_whole_prefix_len(said.p, MARKUP_MAX);
		tool_result_note_failure(out,
					 buf_printf(&text, "%s%.256s: %.*s", text.len ? "\n" : "",
						    name.p, (int)said.n, said.p));
	}
	tool_result_add_cut(out, (struct slice){ buf_str(&text), text.len }, TRACEBACK_MAX, NULL);
}

/* The id of its kernel, for `output` to read on; "" if the sandbox sent something else. */
static const char *code_kernel_id(const json_t *answer)
{
	struct id id;

	return id_parse(ID_KERNEL, json_member_text(answer, "kernel"), &id) < 0
		       ? ""
		       : json_member_str(answer, "kernel");
}

int native_code_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	const json_t *j = run->answer.json, *end = json_object_get(j, "end"),
		     *exception = json_object_get(j, "exception"),
		     *code = json_object_get(end, "exit_code");
	bool exited = str_eq(json_member_str(end, "reason"), "exit");

	if (!json_is_object(j))
		return cay_fail(err, CAY_E_MISBEHAVED, "the sandbox returned no result");
	if (json_member_true(j, "restarted"))
		tool_result_add_text(out, SLICE("[the kernel was restarted: variables, imports "
						"and functions of earlier runs are lost]"));
	tool_result_add_streams(j, code_kernel_id(j), out);
	code_show_results(j, out);
	if (exception)
		code_show_exception(exception, out);
	if (!exited || (!exception && json_integer_value(code)))
		tool_result_add_exit(run, end, out);
	else if (!exception)
		tool_result_add_text(out, SLICE("[done]"));
	return 0;
}
