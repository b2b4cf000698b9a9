/* SPDX-License-Identifier: Apache-2.0 */
/* The tool table: complete rows, arguments that models get wrong, requests that come out. */
#include <stdio.h>

#include "mcp/tool-result.h"
#include "mcp/tool-run.h"
#include "unit.h"

static bool in_table(const struct field_table *t, struct slice name)
{
	struct slice top = slice_cut(&name, '.');

	for (size_t i = 0; t && i < t->n; i++)
		if (slice_eq(slice_of(t->rows[i].name), top))
			return !name.p || in_table(t->rows[i].sub, name);
	return false;
}

static bool is_member(const struct op *op, const char *as)
{
	char braced[80];

	if (str_eq(as, TOOL_BODY))
		return op->body == BODY_RAW;
	assert_true(snprintf(braced, sizeof(braced), "{%s}", as) < (int)sizeof(braced));
	return strstr(op->path, braced) || in_table(op->query, slice_of(as)) ||
	       in_table(op->request, slice_of(as));
}

static bool has_arg(const struct tool_arg *args, const char *name)
{
	for (const struct tool_arg *a = args; a->name || a->as; a++)
		if (a->type != TOOL_ALIAS && a->name && str_eq(a->name, name))
			return true;
	return false;
}

static void check_args(const struct mcp_tool *t, const struct tool_arg *args, bool top)
{
	size_t n = 0;

	for (const struct tool_arg *a = args; a->name || a->as; a++, n++) {
		auto_json preset = NULL;

		if (a->type == TOOL_ALIAS) {
			assert_true(a->name && has_arg(args, a->as) && !a->help);
			continue;
		}
		assert_true(a->type == TOOL_FIXED || (a->name && a->name[0] && a->help));
		if (a->preset)
			assert_return_code(json_parse(slice_of(a->preset), &json_control_limits,
						      &preset, NULL),
					   0);
		if (a->type == TOOL_FIXED)
			assert_non_null(preset);
		if (top && a->as && !t->next_call && !is_member(&ops[t->op], a->as))
			fail_msg("%s: %s is no member of %s", t->name, a->as, ops[t->op].name);
		assert_int_equal(a->type == TOOL_CHOICE, a->choices != NULL);
		assert_int_equal(a->type == TOOL_OBJECT || a->type == TOOL_LIST, a->sub != NULL);
		if (a->sub)
			check_args(t, a->sub, false);
		for (const struct tool_arg *b = args; b != a; b++)
			assert_false(a->name && b->name && str_eq(a->name, b->name));
	}
	assert_true(n <= TOOL_ARGS_MAX);
}

static void rows_are_complete(void **)
{
	for (size_t i = 0; i < n_mcp_tools; i++) {
		const struct mcp_tool *t = &mcp_tools[i];
		auto_buf b = BUF_INIT(MIB(1));
		struct jw w = jw_to(&b);
		auto_json j = NULL;
		struct cay_err err = {};

		assert_true(t->name && t->title && t->help && t->help[0]);
		/* clients make file names and prompts of it */
		assert_true(strlen(t->name) <= 64);
		for (const char *c = t->name; *c; c++)
			assert_true(ascii_is_alnum(*c) || *c == '_' || *c == '-' || *c == '.');
		assert_ptr_equal(tool_find(t->profile, slice_of(t->name)), t);
		assert_false((t->hints & TOOL_READ_ONLY) && (t->hints & TOOL_DESTRUCTIVE));
		check_args(t, t->args, true);
		tool_describe(t, &w);
		assert_return_code(jw_finish(&w), 0);
		assert_return_code(json_parse((struct slice){ b.data, b.len },
					      &(struct json_limits){ MIB(1), 16, 4096 }, &j, &err),
				   0);
	}
	for (size_t i = 0; i < PROFILE_NUM; i++)
		assert_ptr_equal(profile_find(slice_of(profiles[i].name)), &profiles[i]);
	assert_null(profile_find(SLICE("nobody")));
}

static const struct mcp_tool *native(const char *name)
{
	const struct mcp_tool *t = tool_find(PROFILE_NATIVE, slice_of(name));

	assert_non_null(t);
	return t;
}

static const struct {
	const char *args, *field, *says; /* field NULL: it is right */
} cases[] = {
	{ "{'command':'ls'}", NULL, NULL },
	{ "{'command':'ls','timeout':1.5}", NULL, NULL },
	{ "{'command':'ls','cwd':null}", NULL, NULL },
	{ "{}", "command", "is missing" },
	{ "{'command':null}", "command", "is missing" },
	{ "{'command':['ls']}", "command", "must be a string, not an array" },
	{ "{'command':''}", "command", "must have 1 to" },
	{ "{'command':'ls','timeout':'5'}", "timeout", "must be a number, not a string" },
	{ "{'command':'ls','timeout':-1}", "timeout", "must be 0 to 86400" },
	{ "{'command':'ls','timeout':1e300}", "timeout", "must be 0 to 86400" },
	{ "{'command':'ls','env':{'A':1}}", "env", "the value of 'A' must be a string" },
	{ "{'command':'ls','env':[]}", "env", "must be an object" },
	{ "{'cmd':'ls'}", "cmd", "unknown argument; expected: sandbox, command" },
	{ "[]", "", "arguments must be an object, not an array" },
};

static void wrong_arguments_are_told(void **)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[128];
		auto_json j = NULL;
		auto_json got = NULL;
		struct cay_err err = {};
		int r;

		for (size_t k = 0; k <= strlen(cases[i].args); k++)
			text[k] = cases[i].args[k] == '\'' ? '"' : cases[i].args[k];
		assert_return_code(json_parse(slice_of(text), &json_control_limits, &j, &err), 0);
		r = tool_args_check(native("exec"), j, &got, &err);
		assert_int_equal(r < 0, cases[i].says != NULL);
		if (r < 0) {
			assert_string_equal(err.field, cases[i].field);
			assert_non_null(strstr(err.msg, cases[i].says));
			assert_int_equal(err.code, CAY_E_INVALID);
		}
	}
}

static void a_request_comes_out(void **)
{
	static const char text[] =
		"{\"command\":\"a \\\"b\\\"\",\"env\":{\"A\":\"1\"},\"timeout\":1.5}";
	struct tool_run run = { .tool = native("exec"), .sandbox = "sb0001000g00000000000000tr" };
	auto_buf target = BUF_INIT(KIB(4)), body = BUF_INIT(KIB(4));
	auto_json j = NULL;
	auto_json args = NULL;
	struct cay_err err = {};

	assert_return_code(json_parse(slice_of(text), &json_control_limits, &j, &err), 0);
	assert_return_code(tool_args_check(run.tool, j, &args, &err), 0);
	run.args = args;
	tool_run_begin_call(&run, run.tool->op);
	assert_return_code(tool_run_map_args(&run, &err), 0);
	assert_return_code(tool_run_write_request(&run, &target, &body, &err), 0);
	assert_string_equal(target.data, "/v1/sandboxes/sb0001000g00000000000000tr/execs");
	assert_string_equal(
		body.data, "{\"shell\":\"a \\\"b\\\"\",\"env\":{\"A\":\"1\"},\"timeout_ms\":1500}");
	json_decref(run.call.members);
}

static void a_query_is_encoded(void **)
{
	struct tool_run run = { .tool = native("sandbox_list") };
	auto_buf target = BUF_INIT(KIB(4)), body = BUF_INIT(KIB(4));
	struct cay_err err = {};

	assert_return_code(tool_run_call(&run, OP_SANDBOX_LIST, &err, "{s:s, s:i}", "group",
					 "a&b=c d/..", "limit", 5),
			   0);
	assert_return_code(tool_run_write_request(&run, &target, &body, &err), 0);
	assert_string_equal(target.data, "/v1/sandboxes?group=a%26b%3Dc%20d%2F..&limit=5");
	assert_int_equal(body.len, 0);
	json_decref(run.call.members);
}

static void scope_limits_tools(void **)
{
	struct actor reads = { .scope = SCOPE_READ }, writes = { .scope = SCOPE_WRITE };
	struct actor one = { .scope = SCOPE_WRITE, .one_sandbox = true };

	one.sandbox.noun = ID_SANDBOX;
	assert_false(tool_is_allowed(native("exec"), &reads));
	assert_true(tool_is_allowed(native("exec"), &writes));
	assert_true(tool_is_allowed(native("exec"), &one));
	assert_true(tool_is_allowed(native("sandbox_list"), &reads));
	assert_false(tool_is_allowed(native("sandbox_list"), &one));
}

static void long_text_is_cut_in_the_middle(void **)
{
	static char text[1000];
	auto_buf b = BUF_INIT(KIB(8));
	struct jw w = jw_to(&b);
	struct tool_result out = { .w = &w };

	memset(text, 'a', sizeof(text));
	memcpy(text + 49, "\xc3\xa9", 2); /* the cut would fall into it */
	text[999] = 'z';
	jw_array_begin(&w, NULL);
	tool_result_add_cut(&out, (struct slice){ text, sizeof(text) }, 100, "ask for more");
	jw_end(&w);
	assert_return_code(jw_finish(&w), 0);
	assert_non_null(strstr(b.data, "[... 901 of 1000 bytes omitted; ask for more ...]"));
	assert_non_null(strstr(b.data, "z\""));
	assert_null(strstr(b.data, "\xef\xbf\xbd"));
}

static void only_images_are_images(void **)
{
	static const char png[] = "\x89PNG\r\n\x1a\n0123456789";
	auto_buf b = BUF_INIT(KIB(8));
	struct jw w = jw_to(&b);
	struct tool_result out = { .w = &w };

	jw_array_begin(&w, NULL);
	assert_false(tool_result_add_image(&out, SLICE("<svg xmlns=whatever></svg>")));
	assert_false(tool_result_add_image(&out, SLICE("GIF8")));
	assert_true(tool_result_add_image(&out, (struct slice){ png, sizeof(png) - 1 }));
	jw_end(&w);
	assert_return_code(jw_finish(&w), 0);
	assert_string_equal(b.data, "[{\"type\":\"image\",\"data\":\"iVBORw0KGgowMTIzNDU2Nzg5\","
				    "\"mimeType\":\"image/png\"}]");
}

static void text_has_no_nul(void **)
{
	auto_buf b = BUF_INIT(KIB(1));
	struct jw w = jw_to(&b);
	struct tool_result out = { .w = &w };
	auto_json j = NULL;

	jw_array_begin(&w, NULL);
	tool_result_add_text(&out, SLICE("\0a\0\0b\0"));
	tool_result_add_text(&out, SLICE("\0"));
	jw_end(&w);
	assert_return_code(jw_finish(&w), 0);
	assert_return_code(
		json_parse((struct slice){ b.data, b.len }, &json_control_limits, &j, NULL), 0);
	assert_string_equal(json_string_value(json_object_get(json_array_get(j, 0), "text")),
			    "\xef\xbf\xbd"
			    "a\xef\xbf\xbd\xef\xbf\xbd"
			    "b\xef\xbf\xbd");
	assert_string_equal(json_string_value(json_object_get(json_array_get(j, 1), "text")),
			    "\xef\xbf\xbd");
}

/* What a model cannot do: send requests, type commands, read files of the server. */
static void hints_are_words_of_tools(void **)
{
	static const char *const not_for_models[] = { "GET ",  "PUT ",     "POST ",  "HTTP",
						      "/v1",   "header",   "Bearer", "Retry",
						      "'cay ", "cay.conf", "docs/",  "scope",
						      "field" };

	for (unsigned c = CAY_OK + 1; c < CAY_NUM_CODES; c++)
		for (unsigned op = 0; op < OP_NUM; op++) {
			struct cay_err err = { .code = (enum cay_code)c };
			const char *hint = tool_hint_find((enum op_id)op, &err);

			if (!hint[0])
				fail_msg("%s has no hint", cay_error_row(err.code)->name);
			for (size_t i = 0; i < ARRAY_SIZE(not_for_models); i++)
				if (strstr(hint, not_for_models[i]))
					fail_msg("'%s' has '%s'", hint, not_for_models[i]);
		}
}

static void a_hint_is_of_operation_and_cause(void **)
{
	struct cay_err err = { .code = CAY_E_FORBIDDEN };

	assert_non_null(strstr(tool_hint_find(OP_FILE_WRITE, &err), "user inside the sandbox"));
	assert_non_null(strstr(tool_hint_find(OP_SANDBOX_CREATE, &err), "key of this MCP client"));
	err.code = CAY_E_NOT_FOUND;
	assert_non_null(strstr(tool_hint_find(OP_FILE_VIEW, &err), "list the directory"));
	assert_non_null(strstr(tool_hint_find(OP_SANDBOX_CREATE, &err), "the server's own"));
}

#define OWN "sb0001000g00000000000000tr"
#define OWN_ROW(state, end) "{\"sandboxes\":[{\"id\":\"" OWN "\",\"state\":\"" state "\"" end "}]}"
#define END(reason) ",\"end\":{\"reason\":\"" reason "\",\"detail\":\"d\"}"

static void answer(struct tool_run *run, const char *text)
{
	json_decref(run->answer.json);
	run->answer = (struct tool_op_answer){ .status = 200 };
	assert_return_code(
		json_parse(slice_of(text), &json_control_limits, &run->answer.json, NULL), 0);
	run->step++;
}

static struct tool_run begin(const char *tool, struct told_ends *told)
{
	static const struct settings settings = { .mcp_image = "base", .mcp_idle_ms = 1000 };

	return (struct tool_run){ .tool = native(tool),
				  .args = json_object(),
				  .group = "g",
				  .settings = &settings,
				  .told = told };
}

static void finish(struct tool_run *run)
{
	json_decref(run->args);
	json_decref(run->call.members);
	json_decref(run->answer.json);
}

/* The row that is listed, and what comes of it. */
static const struct {
	const char *tool, *list;
	enum tool_next next; /* unless it fails */
	const char *sandbox; /* found */
	const char *fails;
} finds[] = {
	{ "exec", "{\"sandboxes\":[]}", TOOL_NEXT_CALL, "", NULL },
	{ "exec", OWN_ROW("running", ""), TOOL_FINISHED, OWN, NULL },
	{ "exec", OWN_ROW("paused", ""), TOOL_FINISHED, OWN, NULL },
	{ "exec", OWN_ROW("pending", ""), TOOL_NEXT_CALL, "", NULL },
	{ "exec", OWN_ROW("terminated", END("oom")), 0, "",
	  OWN ", has ended: it exceeded its memory limit, d; its files, processes and shells are "
	      "lost" },
	{ "exec", OWN_ROW("ending", END("idle")), 0, "", "idle timeout reached" },
	{ "exec", OWN_ROW("failed", END("node_lost")), 0, "", "lost when the node restarted" },
	{ "exec", OWN_ROW("failed", END("start_failed")), TOOL_NEXT_CALL, "", NULL },
	{ "exec", OWN_ROW("failed", END("other")), 0, "", "for an unknown reason" },
	{ "sandbox_delete", "{\"sandboxes\":[]}", TOOL_FINISHED, "", NULL },
	{ "sandbox_delete", OWN_ROW("running", ""), TOOL_FINISHED, OWN, NULL },
	{ "sandbox_delete", OWN_ROW("pending", ""), TOOL_FINISHED, OWN, NULL },
	{ "sandbox_delete", OWN_ROW("terminated", END("oom")), TOOL_FINISHED, "", NULL },
};

static void the_sandbox_of_a_conversation_is_found(void **)
{
	for (size_t i = 0; i < ARRAY_SIZE(finds); i++) {
		struct tool_run run = begin(finds[i].tool, NULL);
		struct cay_err err = {};
		int r = tool_run_find_sandbox(&run, &err);

		assert_int_equal(r, TOOL_NEXT_CALL);
		assert_int_equal(run.call.op, OP_SANDBOX_LIST);
		answer(&run, finds[i].list);
		r = tool_run_find_sandbox(&run, &err);
		assert_string_equal(run.sandbox, finds[i].sandbox);
		if (finds[i].fails && (r >= 0 || !strstr(err.msg, finds[i].fails)))
			fail_msg("%s: %d, %s", finds[i].list, r, err.msg);
		if (!finds[i].fails)
			assert_int_equal(r, finds[i].next);
		if (r == TOOL_NEXT_CALL)
			assert_int_equal(run.call.op, OP_SANDBOX_CREATE);
		finish(&run);
	}
}

static int find_after_end(struct told_ends *told, const char *tool)
{
	struct tool_run run = begin(tool, told);
	struct cay_err err = {};
	int r;

	assert_int_equal(tool_run_find_sandbox(&run, &err), TOOL_NEXT_CALL);
	answer(&run, OWN_ROW("terminated", END("killed")));
	r = tool_run_find_sandbox(&run, &err);
	finish(&run);
	return r;
}

static void an_end_is_told_once(void **)
{
	static struct told_ends told, deleted;
	struct tool_run run = begin("sandbox_delete", &deleted);
	struct cay_err err = {};

	assert_true(find_after_end(&told, "exec") < 0);
	assert_int_equal(find_after_end(&told, "exec"), TOOL_NEXT_CALL);
	assert_int_equal(find_after_end(&told, "read"), TOOL_NEXT_CALL);
	/* one that the model has deleted is no news */
	assert_int_equal(tool_run_find_sandbox(&run, &err), TOOL_NEXT_CALL);
	answer(&run, OWN_ROW("running", ""));
	assert_int_equal(tool_run_find_sandbox(&run, &err), TOOL_FINISHED);
	run.step = 0;
	assert_int_equal(run.tool->next_call(&run, &err), TOOL_NEXT_CALL);
	answer(&run, "{}");
	assert_int_equal(run.tool->next_call(&run, &err), TOOL_FINISHED);
	tool_run_note_end(&run);
	assert_int_equal(find_after_end(&deleted, "exec"), TOOL_NEXT_CALL);
	finish(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_complete),
		cmocka_unit_test(wrong_arguments_are_told),
		cmocka_unit_test(a_request_comes_out),
		cmocka_unit_test(a_query_is_encoded),
		cmocka_unit_test(scope_limits_tools),
		cmocka_unit_test(long_text_is_cut_in_the_middle),
		cmocka_unit_test(only_images_are_images),
		cmocka_unit_test(text_has_no_nul),
		cmocka_unit_test(hints_are_words_of_tools),
		cmocka_unit_test(a_hint_is_of_operation_and_cause),
		cmocka_unit_test(the_sandbox_of_a_conversation_is_found),
		cmocka_unit_test(an_end_is_told_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
