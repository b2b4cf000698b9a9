/* SPDX-License-Identifier: Apache-2.0 */
/* Tools as rows of requests that come out, answers that go in, and what a model reads.
 *
 * ' stands for " everywhere.  An answer that begins with '{' or '[' is JSON, others are bytes;
 * "404 " in front of either is its status, which is 200 without. */
#include "mcp/profiles/profile-output.h"
#include "mcp/tool-result.h"
#include "mcp/tool-run.h"
#include "unit.h"
#include "wire/frame.h"

#define SB "sb0001000g00000000000000tr"
#define OTHER "sb0001000g00000000000000ts"
#define THERE "/v1/sandboxes/" OTHER
#define EX "ex0001000g00000000000000tr"
#define SH "sh0001000g00000000000000tr"
#define SN "sn0001000g00000000000000tr"
#define KN "kn0001000g00000000000000tr"
#define PICTURE "iVBORw0KGgoAAAANSUhEUgAA" /* as much of it as is looked at */
#define LIMITS "'timeout_ms':90000,'max_output':16384,'keep':'both','max_results':3145728"
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
	const char *data;  /* structuredContent; NULL: not compared */
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

static void check_data(const struct script *s, const json_t *data)
{
	auto_buf b = BUF_INIT(KIB(64));
	struct jw w = jw_to(&b);
	char quoted[4096];

	quote(s->data, quoted, sizeof(quoted));
	assert_non_null(data);
	json_write(data, NULL, &w);
	assert_return_code(jw_finish(&w), 0);
	if (!str_eq(b.data, quoted))
		fail_msg("%s has the data\n%s\nand not\n%s", s->tool, b.data, quoted);
}

static void check_shown(const struct script *s, struct tool_run *run)
{
	auto_buf b = BUF_INIT(MIB(1)), said = BUF_INIT(RESULT_SAID);
	struct jw w = jw_to(&b);
	struct tool_result out = { .w = &w, .said = &said };
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
	tool_result_set_shape(&out, profile_limits[s->profile].shape);
	if (s->data)
		check_data(s, out.data);
	json_decref(out.owned);
}

/* A reply that becomes an error of the tool. */
static int write_refused(struct tool_run *run, struct cay_err *err)
{
	auto_buf b = BUF_INIT(MIB(1));
	struct jw w = jw_to(&b);
	struct tool_result out = { .w = &w };

	jw_array_begin(&w, NULL);
	return run->tool->write_result(run, &out, err);
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

		if (r >= 0)
			r = write_refused(&run, &err);
		if (r >= 0)
			fail_msg("%s does not fail", s->tool);
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

/* Numbers of the products themselves; a setting of 90 s stands for mcp.timeout. */
static void a_timeout_is_the_products_own(void **)
{
	static const struct {
		enum tool_profile profile;
		const char *tool;
		uint64_t none, most;
	} rows[] = {
		/* DEFAULT_TIMEOUT = 30.0, MAX_TIMEOUT = 300.0, min(timeout, MAX_TIMEOUT) */
		{ PROFILE_SANDBOXHUB, "execute_shell", 30000, 300000 },
		/* timeoutMS := 30000; "Optional timeout in milliseconds (max 600000)" */
		{ PROFILE_DEEP_AGENT, "Bash", 30000, 600000 },
		/* execute_terminal has none; timeout of execute_code: le=300 */
		{ PROFILE_SANDBOX_AGENT, "execute_terminal", 300000, 300000 },
		{ PROFILE_OPENSANDBOX, "command_run", 90000, 86400000 },
		{ PROFILE_NATIVE, "exec", 90000, 86400000 },
		{ PROFILE_ANTHROPIC, "bash", 90000, 86400000 },
	};
	static const struct settings settings = { .mcp_timeout_ms = 90000 };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct tool_run run = { .tool = tool_find(rows[i].profile, slice_of(rows[i].tool)),
					.settings = &settings };

		assert_non_null(run.tool);
		assert_int_equal(tool_run_timeout_ms(&run, 0), rows[i].none);
		assert_int_equal(tool_run_timeout_ms(&run, 1000), 1000);
		assert_int_equal(tool_run_timeout_ms(&run, rows[i].most), rows[i].most);
		assert_int_equal(tool_run_timeout_ms(&run, rows[i].most + 1), rows[i].most);
		assert_int_equal(tool_run_timeout_ms(&run, UINT64_MAX), rows[i].most);
	}
}

static void add_times(struct buf *b, const char *what, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_return_code(buf_puts(b, what), 0);
}

/* `what` n times as a stream of a reply is head times it, `note`, and tail times it. */
struct cut_row {
	enum tool_profile profile;
	const char *tool, *stream, *what;
	size_t n, head;
	const char *note;
	size_t tail;
};

static void check_cut(const struct cut_row *row)
{
	auto_buf given = BUF_INIT(MIB(2)), want = BUF_INIT(MIB(2)), got = BUF_INIT(MIB(2));
	struct tool_run run = { .tool = tool_find(row->profile, slice_of(row->tool)) };

	add_times(&given, row->what, row->n);
	add_times(&want, row->what, row->head);
	assert_return_code(buf_puts(&want, row->note), 0);
	add_times(&want, row->what, row->tail);
	run.answer.json = json_pack("{s:s}", row->stream, buf_str(&given));
	assert_return_code(row->profile == PROFILE_DEEP_AGENT
				   ? output_add_lines(&run, &got)
				   : output_add_stream(&run, row->stream, &got),
			   0);
	json_decref(run.answer.json);
	if (!str_eq(buf_str(&got), buf_str(&want)))
		fail_msg("%zu times '%s' of %s is cut to %zu bytes, not to %zu: ...%s", row->n,
			 row->what, row->stream, got.len, want.len,
			 got.data + (got.len < 200 ? 0 : got.len - 200));
}

#define HUB PROFILE_SANDBOXHUB, "execute_shell"
#define AGENT PROFILE_SANDBOX_AGENT, "execute_terminal"
#define DEEP PROFILE_DEEP_AGENT, "Bash"
#define DEEP_NOTE(what) \
	"\n\n..." what " truncated...\n\nUse Grep to search the full content or Read with " \
	"offset/limit to view specific sections."

/* The numbers and the notes are those of the products (docs/adr/0081). */
static void output_is_cut_as_the_product_cuts_it(void **)
{
	static const struct cut_row rows[] = {
		/* HEAD_BYTES = TAIL_BYTES = 25 * 1024 */
		{ HUB, "stdout", "a", 51200, 51200, "", 0 },
		{ HUB, "stdout", "a", 51300, 25600, "\n[...100 bytes 已省略...]\n", 25600 },
		{ HUB, "stderr", "a", 51300, 25600, "\n[...100 bytes 已省略...]\n", 25600 },
		/* 25600 is no multiple of 3: no character is cut */
		{ HUB, "stdout", "€", 20000, 8533, "\n[...8802 bytes 已省略...]\n", 8533 },
		/* MAX_STDOUT_CHARS=50000, MAX_STDERR_CHARS=120000: characters */
		{ AGENT, "stdout", "€", 50000, 50000, "", 0 },
		{ AGENT, "stdout", "€", 50001, 50000,
		  "\n\n... [truncated — 50001 chars total, showing first 50000]", 0 },
		{ AGENT, "stderr", "𝄞", 120000, 120000, "", 0 },
		{ AGENT, "stderr", "𝄞", 120001, 120000,
		  "\n\n... [truncated — 120001 chars total, showing first 120000]", 0 },
		/* TruncateOptions{MaxLines: 2000, MaxBytes: 50 * 1024}; the last end is left out */
		{ DEEP, "stdout", "\na", 2000, 2000 - 1, DEEP_NOTE("1 lines (2 bytes)"), 0 },
		{ DEEP, "stdout", "a\n", 2000, 2000, "", 0 },
		{ DEEP, "stderr", "\n€€€€€€€€€€€€€€€€", 1045, 1044, DEEP_NOTE("1 lines (49 bytes)"),
		  0 },
		{ DEEP, "stdout", "€", 20000, 17066, DEEP_NOTE("1 lines (8802 bytes)"), 0 },
		/* len(output) > 30000 */
		{ DEEP, "stdout", "a", 30000, 30000, "", 0 },
		{ DEEP, "stdout", "a", 30001, 30000, "\n... (output truncated)", 0 },
		{ DEEP, "stdout", "a", 400000, 30000, "\n... (output truncated)", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check_cut(&rows[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tools_do_what_they_say),
		cmocka_unit_test(output_is_read_from_frames),
		cmocka_unit_test(long_output_says_how_to_read_on),
		cmocka_unit_test(a_timeout_is_the_products_own),
		cmocka_unit_test(output_is_cut_as_the_product_cuts_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
