/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile-sandbox-agent-code - execute_code: the dictionary of its ExecutionResult
 *
 * {success, stdout, stderr, result {text/plain}, error {type, message, traceback}, display_outputs
 * [{type, data}]}: of each result that was displayed one form, the first that its list of MIME
 * types names; of the last value its text, and such a form if it has one.  Figures come first.
 */
#include <inttypes.h>

#include "mcp/profiles/profile-code.h"
#include "mcp/profiles/profile-output.h"

#define RESULTS_ASKED MIB(2) /* as text, which escapes it twice, and as data: SERVER_OUT_MAX */
#define RESULT_CHARS 30000
#define TRACEBACK_CHARS 8000

static const char *const display_types[] = { "text/html",  "image/svg+xml", "image/png",
					     "image/jpeg", "audio/wav",     "audio/mpeg",
					     "audio/ogg",  "video/mp4" };

/* A session has the language of its template. */
int agent_code_next_call(struct tool_run *run, struct cay_err *err)
{
	const char *template = json_member_str(run->answer.json, "template");
	const char *const *language = agent_languages;

	if (run->step == 0)
		return tool_run_call(run, OP_SANDBOX_GET, err, "{}");
	if (run->step > 1)
		return TOOL_FINISHED;
	while (*language && !str_eq(*language, template))
		language++;
	return code_tool_begin_call(run, *language ? *language : "python", RESULTS_ASKED, err);
}

/* The form that a client shows, or a note in place of one that is too large. */
static json_t *agent_display_output(const json_t *result)
{
	const json_t *data = json_object_get(result, "data");
	const json_t *cut = json_array_get(json_object_get(result, "cut"), 0);
	auto_buf note = BUF_INIT(KIB(8));

	for (size_t i = 0; i < ARRAY_SIZE(display_types); i++) {
		const char *type = display_types[i];
		struct slice text = json_member_text(data, type);
		bool picture = str_eq(type, "image/png") || str_eq(type, "image/jpeg");
		auto_buf bytes = BUF_INIT(text.n + 1);

		if (picture && text.n && picture_decode(type, text, &bytes) < 0)
			continue;
		if (text.n)
			return json_pack("{s:s, s:s%}", "type", type, "data", text.p, text.n);
	}
	if (!cut || result_cut_add_text(cut, &note) < 0)
		return NULL;
	return json_pack("{s:s, s:s}", "type", "text/plain", "data", buf_str(&note));
}

static bool agent_result_is_figure(const json_t *result)
{
	return json_object_get(json_object_get(result, "data"), "application/vnd.cay.chart+json");
}

/* Figures, then the other results in order, then the last value. */
static json_t *agent_display_outputs(const json_t *answer)
{
	const json_t *results = json_object_get(answer, "results"), *result;
	json_t *outputs = json_array();
	size_t i;

	for (int turn = 0; turn < 3; turn++)
		json_array_foreach(results, i, result)
		{
			int its = agent_result_is_figure(result)     ? 0
				  : json_member_true(result, "main") ? 2
								     : 1;
			json_t *output = its == turn ? agent_display_output(result) : NULL;

			if (output && json_array_append_new(outputs, output) < 0) {
				json_decref(outputs);
				return NULL;
			}
		}
	return outputs;
}

static json_t *agent_code_value(const json_t *answer)
{
	const json_t *results = json_object_get(answer, "results"), *result;
	size_t i;

	json_array_foreach(results, i, result)
	{
		struct slice text = json_member_text(json_object_get(result, "data"), "text/plain");

		if (json_member_true(result, "main") && text.n)
			return json_pack("{s:o}", "text/plain",
					 output_text_json(text, RESULT_CHARS));
	}
	return json_null();
}

static json_t *agent_code_exception(const json_t *exception)
{
	auto_buf traceback = BUF_INIT(TOOL_RUN_ANSWER_MAX);

	if (exception_add_traceback(exception, &traceback) < 0)
		return NULL;
	return json_pack("{s:s, s:o, s:o}", "type", json_member_str(exception, "name"), "message",
			 output_text_json(json_member_text(exception, "value"), TRACEBACK_CHARS),
			 "traceback",
			 output_text_json((struct slice){ buf_str(&traceback), traceback.len },
					  TRACEBACK_CHARS));
}

/* A timeout is an exception there, and has no traceback.  Its kernel is the container's PID 1; ours
 * can die alone. */
static json_t *agent_code_error(const struct tool_run *run, const json_t *answer)
{
	const json_t *end = json_object_get(answer, "end"),
		     *exception = json_object_get(answer, "exception");
	const char *reason = json_member_str(end, "reason");
	auto_buf text = BUF_INIT(KIB(4));
	int r;

	if (str_eq(reason, "exit") && exception)
		return agent_code_exception(exception);
	if (str_eq(reason, "exit") && !json_member_number(end, "exit_code"))
		return json_null();
	if (str_eq(reason, "timeout")) {
		r = buf_printf(&text, "Execution exceeded %" PRIu64 "s",
			       json_member_number(run->call.members, "timeout_ms") / 1000);
		return r < 0 ? NULL
			     : json_pack("{s:s, s:s}", "type", "TimeoutError", "message",
					 buf_str(&text));
	}
	r = end_add_text(NULL, end, &text);
	if (r >= 0)
		r = buf_puts(&text, " The kernel has ended and its variables are lost: call again "
				    "to go on in a new one.");
	return r < 0 ? NULL
		     : json_pack("{s:s, s:s}", "type", "KernelDied", "message", buf_str(&text));
}

int agent_code_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	const json_t *j = run->answer.json;
	json_t *error;

	if (!json_is_object(j))
		return cay_fail(err, CAY_E_MISBEHAVED, "the sandbox returned no result");
	error = agent_code_error(run, j);
	return tool_result_pack(out, "{s:b, s:o, s:o, s:o, s:o, s:o}", "success",
				json_is_null(error), "stdout", output_stream_json(run, "stdout"),
				"stderr", output_stream_json(run, "stderr"), "result",
				agent_code_value(j), "error", error, "display_outputs",
				agent_display_outputs(j));
}
