/* SPDX-License-Identifier: Apache-2.0 */
/* A message of MCP with its headers, one a line in front of it: whatever comes, the answer is
 * JSON; a modern one that is taken says the same in both; a call that is taken is a request. */
#include "fuzz.h"
#include "mcp/mcp-rpc.h"
#include "mcp/tool-run.h"

static void check_json(struct jw *w, const struct buf *b)
{
	static const struct json_limits limits = { MIB(8), 64, 1000000 };
	auto_json j = NULL;

	CHECK(jw_finish(w) == 0);
	CHECK(json_parse((struct slice){ b->data, b->len }, &limits, &j, NULL) == 0);
	CHECK(json_is_object(j));
}

static void call(const struct mcp_rpc *r)
{
	struct slice name = { json_string_value(json_object_get(r->params, "name")),
			      json_string_length(json_object_get(r->params, "name")) };
	const struct mcp_tool *t = tool_find(PROFILE_NATIVE, name);
	struct tool_run run = { .tool = t, .sandbox = "sb0001000g00000000000000tr" };
	auto_buf target = BUF_INIT(KIB(64)), body = BUF_INIT(MIB(2));
	struct cay_err err = {};
	int e;

	if (!t || tool_args_check(t, json_object_get(r->params, "arguments"), &run.args, &err) < 0)
		return;
	tool_run_begin_call(&run, t->op);
	e = tool_run_map_args(&run, &err);
	if (e >= 0 && tool_run_write_request(&run, &target, &body, &err) >= 0) {
		CHECK(target.len && target.data[0] == '/');
		for (size_t i = 0; i < target.len; i++)
			CHECK(target.data[i] > ' ' && target.data[i] < 127);
	}
	json_decref(run.call.members);
	json_decref(run.args);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	struct slice rest = { in, size };
	struct mcp_rpc_headers h = {};
	struct slice *to[] = { &h.version, &h.method, &h.name };
	auto_buf b = BUF_INIT(MIB(4));
	struct jw w = jw_to(&b);
	struct mcp_rpc_fault fault;
	struct mcp_rpc r;

	for (size_t i = 0; i < ARRAY_SIZE(to) && rest.p; i++) {
		*to[i] = slice_cut(&rest, '\n');
		if (!to[i]->n)
			*to[i] = (struct slice){};
	}
	if (mcp_rpc_parse(rest, &h, &r, &fault) < 0) {
		CHECK(fault.code && fault.status >= 200 && fault.msg[0]);
		mcp_rpc_write_fault(&r, &fault, &w);
	} else {
		CHECK(r.message && (r.method || !r.id));
		CHECK(!r.modern || slice_eq(h.version, SLICE(RPC_MODERN)));
		if (r.method == RPC_TOOLS_CALL)
			call(&r);
		mcp_rpc_begin_result(&r, &w);
		mcp_rpc_end_result(&w);
	}
	check_json(&w, &b);
	mcp_rpc_fini(&r);
	free(in);
	return 0;
}
