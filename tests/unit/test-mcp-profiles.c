/* SPDX-License-Identifier: Apache-2.0 */
/* Tools as rows of requests that come out, answers that go in, and what a model reads.
 *
 * ' stands for " everywhere.  An answer that begins with '{' or '[' is JSON, others are bytes;
 * "404 " in front of either is its status, which is 200 without. */
#include "mcp/profiles/profile-parts.h"
#include "mcp/tool-result.h"
#include "mcp/tool-run.h"
#include "unit.h"
#include "wire/frame.h"

#define SB "sb0001000g00000000000000tr"
#define OTHER "sb0001000g00000000000000ts"
#define THERE "/v1/sandboxes/" OTHER
#define EX "ex0001000g00000000000000tr"
#define SH "sh0001000g00000000000000tr"
#define IN "/v1/sandboxes/" SB
#define STEPS_MAX 4

struct script {
	enum tool_profile profile;
	const char *tool, *args;
	struct {
		const char *asks; /* METHOD TARGET BODY */
		const char *says;
	} steps[STEPS_MAX];
	const char *shows; /* the content array, and "!" in front of an error */
	const char *fails; /* field: message, when the arguments are wrong */
};

static void quote(const char *in, char *out, size_t size)
{
	size_t n = strlen(in);

	assert_true(n < size);
	for (size_t i = 0; i <= n; i++)
		out[i] = in[i] == '\'' ? '"' : in[i];
}

static void check_asked(const struct script *s, const struct tool_run *run, const char *want)
{
	auto_buf target = BUF_INIT(KIB(8)), body = BUF_INIT(KIB(64)), line = BUF_INIT(KIB(80));
	struct cay_err err = {};
	char quoted[4096];

	quote(want, quoted, sizeof(quoted));
	assert_return_code(tool_run_write_request(run, &target, &body, &err), 0);
	assert_return_code(buf_printf(&line, "%s %s%s%s", op_method_name(ops[run->call.op].method),
				      buf_str(&target), body.len ? " " : "", buf_str(&body)),
			   0);
	if (!str_eq(buf_str(&line), quoted))
		fail_msg("%s asks\n%s\nand not\n%s", s->tool, buf_str(&line), quoted);
}

static void give(struct tool_run *run, const char *says, char *keep, size_t size)
{
	struct cay_err err = {};
	static const struct json_limits limits = { MIB(1), 16, 4096 };
	struct slice rest = slice_of(says), word = slice_cut(&rest, ' ');
	uint64_t status = 200;

	if (str_parse_u64(word, 400, 599, &status) == 0)
		says = rest.p;
	quote(says, keep, size);
	json_decref(run->answer.json);
	run->answer = (struct tool_op_answer){ .status = (unsigned)status };
	if (*keep) /* one without a byte has no place either */
		run->answer.body = slice_of(keep);
	if (keep[0] == '{' || keep[0] == '[')
		assert_return_code(json_parse(slice_of(keep), &limits, &run->answer.json, &err), 0);
	run->step++;
}

static int next(struct tool_run *run, struct cay_err *err)
{
	if (run->tool->next_call)
		return run->tool->next_call(run, err);
	if (run->step)
		return TOOL_FINISHED;
	tool_run_begin_call(run, run->tool->op);
	return tool_run_map_args(run, err);
}

static void check_shown(const struct script *s, struct tool_run *run)
{
	auto_buf b = BUF_INIT(MIB(1));
	struct jw w = jw_to(&b);
	struct tool_result out = { .w = &w };
	struct cay_err err = {};
	char quoted[4096];
	bool wrong = s->shows[0] == '!';

	quote(s->shows + wrong, quoted, sizeof(quoted));
	jw_array_begin(&w, NULL);
	assert_non_null(run->tool->write_result);
	assert_return_code(run->tool->write_result(run, &out, &err), 0);
	jw_end(&w);
	assert_return_code(jw_finish(&w), 0);
	/* each block is {"type":"text","text":...}; the texts alone are compared */
	if (!strstr(b.data, quoted))
		fail_msg("%s shows\n%s\nand not\n%s", s->tool, b.data, quoted);
	if (out.error != wrong)
		fail_msg("%s %s an error", s->tool, wrong ? "is not" : "is");
	json_decref(out.owned);
}

static void play(const struct script *s)
{
	static const struct settings settings = { .mcp_image = "base", .mcp_timeout_ms = 90000 };
	struct tool_run run = { .tool = tool_find(s->profile, slice_of(s->tool)),
				.group = "thread-7",
				.settings = &settings,
				.sandbox = SB,
				.arena = ARENA_INIT(MIB(1)) };
	struct cay_err err = {};
	auto_json args = NULL;
	char text[4096], keep[4096];
	size_t step = 0;
	int r;

	if (!run.tool)
		fail_msg("there is no tool %s", s->tool);
	quote(s->args, text, sizeof(text));
	assert_return_code(json_parse(slice_of(text), &json_control_limits, &args, &err), 0);
	r = tool_args_check(run.tool, args, &run.args, &err);
	while (r >= 0 && (r = next(&run, &err)) == TOOL_NEXT_CALL) {
		if (step == STEPS_MAX || !s->steps[step].asks)
			fail_msg("%s asks once more: %s", s->tool, ops[run.call.op].name);
		check_asked(s, &run, s->steps[step].asks);
		give(&run, s->steps[step].says, keep, sizeof(keep));
		step++;
	}
	if (s->fails) {
		auto_buf why = BUF_INIT(KIB(1));

		assert_true(r < 0);
		assert_return_code(buf_printf(&why, "%s: %s", err.field, err.msg), 0);
		if (!strstr(buf_str(&why), s->fails))
			fail_msg("%s fails with %s", s->tool, buf_str(&why));
	} else {
		if (r < 0)
			fail_msg("%s: %s: %s", s->tool, err.field, err.msg);
		if (step < STEPS_MAX && s->steps[step].asks)
			fail_msg("%s does not ask for %s", s->tool, s->steps[step].asks);
		check_shown(s, &run);
	}
	json_decref(run.args);
	json_decref(run.call.members);
	json_decref(run.answer.json);
	arena_fini(&run.arena);
}

#define TEXT(t) "{'type':'text','text':'" t "'}"
#define ENDED "'end':{'reason':'exit','exit_code':0}"
#define OF(profile_, ...) { .profile = PROFILE_##profile_, __VA_ARGS__ }
#define NATIVE(...) OF(NATIVE, __VA_ARGS__)
static const struct script scripts[] = {
#include "mcp-scripts.def"
};

static void tools_do_what_they_say(void **)
{
	for (size_t i = 0; i < ARRAY_SIZE(scripts); i++)
		play(&scripts[i]);
}

static void add_frame(struct buf *b, enum frame_type type, uint64_t offset, const char *content)
{
	struct frame f = { .type = (uint8_t)type,
			   .stream = type == FRAME_END ? 0 : FRAME_STDOUT,
			   .length = (uint32_t)strlen(content),
			   .offset = offset,
			   .content = (const uint8_t *)content };

	assert_return_code(frame_encode(&f, b), 0);
}

static const char *shown_output(struct buf *frames, struct buf *text)
{
	struct tool_run run = { .tool = tool_find(PROFILE_NATIVE, SLICE("output")),
				.args = json_object(),
				.answer = { .status = 200,
					    .body = { frames->data, frames->len } } };
	struct jw w = jw_to(text);
	struct tool_result out = { .w = &w };
	struct cay_err err = {};
	int r;

	jw_array_begin(&w, NULL);
	r = run.tool->write_result(&run, &out, &err);
	jw_end(&w);
	json_decref(run.args);
	if (r < 0)
		return err.msg[0] ? "failed" : "";
	assert_return_code(jw_finish(&w), 0);
	return text->data;
}

static void output_is_read_from_frames(void **)
{
	auto_buf frames = BUF_INIT(KIB(4)), text = BUF_INIT(KIB(4)), again = BUF_INIT(KIB(4));

	add_frame(&frames, FRAME_DATA, 7, "abc");
	add_frame(&frames, FRAME_DATA, 10, "def");
	assert_non_null(strstr(shown_output(&frames, &text), "\"abcdef\""));
	assert_non_null(
		strstr(text.data, "[bytes 7 to 13; read on from offset 13; there may be more]"));
	add_frame(&frames, FRAME_END, 0, "{\"reason\":\"exit\",\"exit_code\":3}");
	assert_non_null(strstr(shown_output(&frames, &again), "offset 13]"));
	assert_non_null(strstr(again.data, "[exit 3]"));
	/* cut off anywhere it is no answer */
	for (unsigned i = 0; i < 12; i++) {
		auto_buf bad = BUF_INIT(KIB(4));

		frames.len--;
		assert_string_equal(shown_output(&frames, &bad), "failed");
	}
}

static void long_output_says_how_to_read_on(void **)
{
	auto_buf b = BUF_INIT(MIB(1));
	struct jw w = jw_to(&b);
	struct tool_result out = { .w = &w };
	static char text[RESULT_TEXT + 1];
	auto_json answer = NULL;

	memset(text, 'a', RESULT_TEXT);
	answer = json_pack("{s:s, s:i}", "stdout", text, "stdout_offset", 100);
	jw_array_begin(&w, NULL);
	tool_result_add_stream(answer, "stdout", EX, &out);
	jw_end(&w);
	assert_return_code(jw_finish(&w), 0);
	assert_true(b.len < RESULT_OUTPUT + 1024);
	assert_non_null(
		strstr(b.data, "read on with output, id " EX ", stream stdout, offset 8292"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tools_do_what_they_say),
		cmocka_unit_test(output_is_read_from_frames),
		cmocka_unit_test(long_output_says_how_to_read_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
