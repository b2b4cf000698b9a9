/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/random.h>

#include "mcp/mcp.h"

#define RESULT_MAX MIB(1)
#define LIST_TTL_MS 300000
#define DISCOVER_TTL_MS 3600000

static void mcp_method_refuse_params(struct mcp_request *v, const char *msg)
{
	struct mcp_rpc_fault fault = { .code = RPC_PARAMS, .status = v->rpc.modern ? 400 : 200 };

	if (snprintf(fault.msg, sizeof(fault.msg), "%s", msg) < 0)
		fault.msg[0] = 0;
	mcp_request_reply_fault(v, &fault);
}

static void mcp_method_write_introduction(struct mcp_request *v, struct jw *w)
{
	jw_object_begin(w, "capabilities");
	jw_object_begin(w, "tools");
	jw_end(w);
	jw_end(w);
	jw_str(w, "instructions", profiles[v->profile].instructions);
}

/* Writes the members of a result; returns the problem with the params, or NULL. */
typedef const char *method_write_fn(struct mcp_request *v, struct jw *w);

static void mcp_method_reply(struct mcp_request *v, method_write_fn *write)
{
	static const struct mcp_rpc_fault no_memory = { RPC_INTERNAL, 500, "out of memory", "" };
	auto_buf b = BUF_INIT(RESULT_MAX);
	struct jw w = jw_to(&b);
	const char *problem;

	mcp_rpc_begin_result(&v->rpc, &w);
	problem = write(v, &w);
	mcp_rpc_end_result(&w);
	if (problem)
		mcp_method_refuse_params(v, problem);
	else if (jw_finish(&w) < 0)
		mcp_request_reply_fault(v, &no_memory);
	else
		mcp_request_reply(v, 200, &b);
}

/* Only used to find a request to cancel; it is not stored. */
static void mcp_method_set_session_id(struct mcp_request *v)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t bits[MCP_SESSION_LEN / 2];
	char text[MCP_SESSION_LEN + 1] = "";

	if (getrandom(bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
		return;
	for (size_t i = 0; i < MCP_SESSION_LEN; i++)
		text[i] = digits[i % 2 ? bits[i / 2] & 15 : bits[i / 2] >> 4];
	(void)request_add_reply_header(v->rq, "Mcp-Session-Id", text);
}

static const char *mcp_method_initialize(struct mcp_request *v, struct jw *w)
{
	const char *want = json_string_value(json_object_get(v->rpc.params, "protocolVersion"));
	const char *version = RPC_LEGACY;

	if (!want)
		return "protocolVersion is missing";
	for (size_t i = 1; rpc_versions[i]; i++)
		if (str_eq(want, rpc_versions[i]))
			version = rpc_versions[i];
	mcp_method_set_session_id(v);
	jw_str(w, "protocolVersion", version);
	mcp_rpc_write_server_info("serverInfo", w);
	mcp_method_write_introduction(v, w);
	return NULL;
}

static const char *mcp_method_discover(struct mcp_request *v, struct jw *w)
{
	mcp_rpc_write_versions("supportedVersions", w);
	mcp_method_write_introduction(v, w);
	jw_u64(w, "ttlMs", DISCOVER_TTL_MS);
	jw_str(w, "cacheScope", "public");
	return NULL;
}

static const char *mcp_method_ping(struct mcp_request *, struct jw *)
{
	return NULL;
}

/* Tools the credential may call, in the order of the table. */
static const char *mcp_method_tools_list(struct mcp_request *v, struct jw *w)
{
	if (json_object_get(v->rpc.params, "cursor"))
		return "there is only one page; omit cursor";
	jw_array_begin(w, "tools");
	for (size_t i = 0; i < n_mcp_tools; i++)
		if (mcp_tools[i].profile == v->profile &&
		    tool_is_allowed(&mcp_tools[i], &v->run.actor))
			tool_describe(&mcp_tools[i], w);
	jw_end(w);
	if (v->rpc.modern) {
		jw_u64(w, "ttlMs", LIST_TTL_MS);
		jw_str(w, "cacheScope", "private");
	}
	return NULL;
}

static void mcp_method_tools_call(struct mcp_request *v)
{
	const json_t *name = json_object_get(v->rpc.params, "name");
	const struct mcp_tool *t = NULL;
	char msg[128];

	if (!json_is_string(name)) {
		mcp_method_refuse_params(v, "name is missing: the tool to call");
		return;
	}
	t = tool_find(v->profile, json_slice(name));
	if (!t) {
		if (snprintf(msg, sizeof(msg), "Unknown tool: %.64s", json_string_value(name)) < 0)
			msg[0] = 0;
		mcp_method_refuse_params(v, msg);
		return;
	}
	tool_call_start(v, t, json_object_get(v->rpc.params, "arguments"));
}

static bool mcp_request_has_same_caller(const struct mcp_request *a, const struct mcp_request *b)
{
	return a->session[0] && str_eq(a->session, b->session) &&
	       id_eq(&a->run.actor.tenant, &b->run.actor.tenant) && a->n_auth == b->n_auth &&
	       memcmp(a->auth, b->auth, a->n_auth) == 0;
}

/* End the request of that id. */
static void mcp_method_cancelled(struct mcp_request *v)
{
	static const struct mcp_rpc_fault fault = { RPC_CANCELLED_CODE, 200, "Cancelled", "" };
	const json_t *id = json_object_get(v->rpc.params, "requestId");

	for (struct mcp_request *o = v->mcp->requests; o && id; o = o->next)
		if (o != v && o->rpc.id && mcp_request_has_same_caller(v, o) &&
		    json_equal(id, o->rpc.id)) {
			mcp_request_reply_fault(o, &fault);
			break;
		}
	mcp_request_reply(v, 202, NULL);
}

void mcp_method_dispatch(struct mcp_request *v)
{
	static method_write_fn *const writers[RPC_NUM] = {
		[RPC_INITIALIZE] = mcp_method_initialize,
		[RPC_PING] = mcp_method_ping,
		[RPC_DISCOVER] = mcp_method_discover,
		[RPC_TOOLS_LIST] = mcp_method_tools_list,
	};

	if (writers[v->rpc.method])
		mcp_method_reply(v, writers[v->rpc.method]);
	else if (v->rpc.method == RPC_TOOLS_CALL)
		mcp_method_tools_call(v);
	else if (v->rpc.method == RPC_CANCELLED)
		mcp_method_cancelled(v);
	else /* initialized needs nothing, and unknown notifications are ignored */
		mcp_request_reply(v, 202, NULL);
}
