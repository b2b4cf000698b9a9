/* SPDX-License-Identifier: Apache-2.0 */
/* A tool call whose arguments and answers are anybody's: the first byte is the tool, then
 * lines: arguments, and an answer for each call.  One that begins with '!' is a failure, one
 * that begins with '>' has no end, and so may be any bytes.  Whatever a sandbox says, the result
 * is JSON of a bounded size, and no request has a path that was not meant. */
#include "fuzz.h"
#include "mcp/tool-result.h"
#include "mcp/tool-run.h"
#include "ops/op.h"

#define SB "sb0001000g00000000000000tr"
#define SHOWN_MAX MIB(8)

/* as go.c has them */
static const struct json_limits limits = { TOOL_RUN_ANSWER_MAX, 24, 32768 };

static bool begins(struct slice *s, char mark)
{
	bool yes = s->n && s->p[0] == mark;

	s->p += yes;
	s->n -= yes;
	return yes;
}

/* One line, as JSON where it is some. */
static void take_answer(struct tool_run *run, struct slice *rest)
{
	unsigned status = begins(rest, '!') ? 500 : 200;
	bool all = begins(rest, '>');
	struct slice line = *rest;

	if (all)
		*rest = (struct slice){};
	else
		line = slice_cut(rest, '\n');
	json_decref(run->answer.json);
	run->answer = (struct tool_op_answer){ .status = status, .body = line };
	if (line.n)
		(void)!json_parse(line, &limits, &run->answer.json, NULL);
	run->step++;
}

/* What comes out goes to the operation that was meant, and to nothing beside it. */
static bool check_request(const struct tool_run *run)
{
	auto_buf target = BUF_INIT(KIB(32)), body = BUF_INIT(MIB(2));
	struct cay_err err = {};
	struct slice path;
	struct op_match match;
	unsigned allow;

	if (tool_run_write_request(run, &target, &body, &err) < 0)
		return false;
	path = (struct slice){ buf_str(&target), target.len };
	for (size_t i = 0; i < path.n; i++)
		CHECK(path.p[i] > ' ' && path.p[i] < 0x7f);
	if (op_find(slice_of(op_method_name(ops[run->call.op].method)), path, &match, &allow,
		    &err) == 0)
		CHECK(match.op == &ops[run->call.op]);
	return true;
}

static int next(struct tool_run *run, struct cay_err *err)
{
	run->accepts_failure = false;
	if (run->tool->next_call)
		return run->tool->next_call(run, err);
	if (run->step)
		return TOOL_FINISHED;
	tool_run_begin_call(run, run->tool->op);
	return tool_run_map_args(run, err);
}

static void show(struct tool_run *run, const struct cay_err *failed)
{
	auto_buf b = BUF_INIT(SHOWN_MAX);
	struct jw w = jw_to(&b);
	auto_buf said = BUF_INIT(RESULT_SAID);
	struct tool_result out = { .w = &w, .said = &said };
	struct cay_err err = {};
	auto_json j = NULL;
	int r = 0;

	jw_array_begin(&w, NULL);
	if (failed)
		tool_result_add_error(&out, failed, tool_hint_find(run->call.op, failed));
	else if (run->tool->write_result)
		r = run->tool->write_result(run, &out, &err);
	if (r >= 0) {
		tool_result_set_shape(&out, profile_limits[run->tool->profile].shape);
		if (json_is_object(out.data))
			json_write(out.data, NULL, &w);
		jw_end(&w);
		CHECK(jw_finish(&w) >= 0 || w.err == -ENOBUFS || w.err == -EDOM ||
		      w.err == -ENOMEM);
		if (jw_finish(&w) >= 0)
			CHECK(json_parse((struct slice){ b.data, b.len },
					 &(struct json_limits){ SHOWN_MAX, 32, 1 << 20 }, &j,
					 NULL) >= 0);
	} else {
		CHECK(err.code != CAY_OK);
	}
	json_decref(out.owned);
}

static void play(struct tool_run *run, struct slice rest)
{
	struct cay_err err = {};
	unsigned calls = 0;
	int r;

	while ((r = next(run, &err)) == TOOL_NEXT_CALL && calls++ < TOOL_RUN_CALLS_MAX) {
		if (!check_request(run))
			return;
		take_answer(run, &rest);
		if (run->answer.status >= 400 && !run->accepts_failure) {
			tool_run_read_failure(run, &err);
			r = -EREMOTEIO;
			break;
		}
	}
	CHECK(r >= 0 || err.code != CAY_OK);
	if (r != TOOL_NEXT_CALL)
		show(run, r < 0 ? &err : NULL);
}

/* The replies by which the conversation's sandbox is found. */
static void find(struct tool_run *run, struct slice rest)
{
	static struct told_ends told;
	struct cay_err err = {};
	unsigned calls = 0;
	int r;

	run->sandbox[0] = 0;
	run->step = 0;
	run->told = &told;
	while ((r = tool_run_find_sandbox(run, &err)) == TOOL_NEXT_CALL && calls++ < 4) {
		if (!check_request(run))
			return;
		take_answer(run, &rest);
	}
	CHECK(r != TOOL_NEXT_CALL);
	CHECK(r >= 0 || err.code != CAY_OK);
	if (r < 0)
		show(run, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct settings settings = { .mcp_image = "base",
						  .mcp_idle_ms = 1000,
						  .mcp_timeout_ms = 1000 };
	char *in = fuzz_copy(data, size);
	struct slice rest = { in, size }, line;
	struct tool_run run = {
		.group = "g", .settings = &settings, .sandbox = SB, .arena = ARENA_INIT(MIB(4))
	};
	auto_json args = NULL;

	if (size) {
		run.tool = &mcp_tools[(uint8_t)in[0] % n_mcp_tools];
		rest.p++;
		rest.n--;
		line = slice_cut(&rest, '\n');
		if (json_parse(line, &limits, &args, NULL) >= 0 &&
		    tool_args_check(run.tool, args, &run.args, NULL) >= 0) {
			play(&run, rest);
			find(&run, rest);
		}
	}
	json_decref(run.args);
	json_decref(run.call.members);
	json_decref(run.answer.json);
	arena_fini(&run.arena);
	free(in);
	return 0;
}
