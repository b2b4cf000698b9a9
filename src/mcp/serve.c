/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/random.h>

#include "mcp/mcp.h"

#define LIST_MAX MIB(1)
#define LIST_TTL_MS 300000
#define DISCOVER_TTL_MS 3600000

static void internal(struct visit *v)
{
	static const struct rpc_fault fault = { .code = RPC_INTERNAL,
						.status = 500,
						.msg = "no memory for the answer" };

	visit_fault(v, &fault);
}

static void params(struct visit *v, const char *msg)
{
	struct rpc_fault fault = { .code = RPC_PARAMS, .status = v->rpc.modern ? 400 : 200 };

	if (snprintf(fault.msg, sizeof(fault.msg), "%s", msg) < 0)
		fault.msg[0] = 0;
	visit_fault(v, &fault);
}

static void capabilities(struct jw *w)
{
	jw_object(w, "capabilities");
	jw_object(w, "tools");
	jw_end(w);
	jw_end(w);
}

/* Who we are and what we can. */
static void introduce(struct visit *v, struct jw *w)
{
	capabilities(w);
	jw_str(w, "instructions", profiles[v->profile].says);
}

static void finish(struct visit *v, struct jw *w, struct buf *b)
{
	rpc_end(w);
	if (jw_done(w) < 0)
		internal(v);
	else
		visit_reply(v, 200, b);
}

/* A name that cancellation finds a request by, and nothing else: it is not kept. */
static void name_session(struct visit *v)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t bits[MCP_SESSION_LEN / 2];
	char text[MCP_SESSION_LEN + 1] = "";

	if (getrandom(bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
		return;
	for (size_t i = 0; i < MCP_SESSION_LEN; i++)
		text[i] = digits[i % 2 ? bits[i / 2] & 15 : bits[i / 2] >> 4];
	(void)request_header(v->rq, "Mcp-Session-Id", text);
}

static void initialize(struct visit *v)
{
	const char *want = json_string_value(json_object_get(v->rpc.params, "protocolVersion"));
	const char *version = RPC_LEGACY;
	auto_buf b = BUF_INIT(KIB(64));
	struct jw w = jw_to(&b);

	if (!want) {
		params(v, "protocolVersion is missing");
		return;
	}
	for (size_t i = 1; rpc_versions[i]; i++)
		if (str_eq(want, rpc_versions[i]))
			version = rpc_versions[i];
	name_session(v);
	rpc_begin(&v->rpc, &w);
	jw_str(&w, "protocolVersion", version);
	jw_object(&w, "serverInfo");
	jw_str(&w, "name", "cay");
	jw_str(&w, "title", "Cay");
	jw_str(&w, "version", CAY_VERSION);
	jw_end(&w);
	introduce(v, &w);
	finish(v, &w, &b);
}

static void discover(struct visit *v)
{
	auto_buf b = BUF_INIT(KIB(64));
	struct jw w = jw_to(&b);

	rpc_begin(&v->rpc, &w);
	jw_array(&w, "supportedVersions");
	for (size_t i = 0; rpc_versions[i]; i++)
		jw_str(&w, NULL, rpc_versions[i]);
	jw_end(&w);
	introduce(v, &w);
	jw_u64(&w, "ttlMs", DISCOVER_TTL_MS);
	jw_str(&w, "cacheScope", "public");
	finish(v, &w, &b);
}

static void ping(struct visit *v)
{
	auto_buf b = BUF_INIT(KIB(4));
	struct jw w = jw_to(&b);

	rpc_begin(&v->rpc, &w);
	finish(v, &w, &b);
}

/* Those that the credential is good for, in the table's order. */
static void list(struct visit *v)
{
	auto_buf b = BUF_INIT(LIST_MAX);
	struct jw w = jw_to(&b);

	if (json_object_get(v->rpc.params, "cursor")) {
		params(v, "there is one page, which has no cursor");
		return;
	}
	rpc_begin(&v->rpc, &w);
	jw_array(&w, "tools");
	for (size_t i = 0; i < n_mcp_tools; i++)
		if (mcp_tools[i].profile == v->profile &&
		    tool_allowed(&mcp_tools[i], &v->run.actor))
			tool_describe(&mcp_tools[i], &w);
	jw_end(&w);
	if (v->rpc.modern) {
		jw_u64(&w, "ttlMs", LIST_TTL_MS);
		jw_str(&w, "cacheScope", "private");
	}
	finish(v, &w, &b);
}

static void call(struct visit *v)
{
	const json_t *name = json_object_get(v->rpc.params, "name");
	const struct mcp_tool *t = NULL;
	char msg[128];

	if (!json_is_string(name)) {
		params(v, "name is missing: which tool?");
		return;
	}
	t = tool_find(v->profile,
		      (struct slice){ json_string_value(name), json_string_length(name) });
	if (!t) {
		if (snprintf(msg, sizeof(msg), "Unknown tool: %.64s", json_string_value(name)) < 0)
			msg[0] = 0;
		params(v, msg);
		return;
	}
	go(v, t, json_object_get(v->rpc.params, "arguments"));
}

static bool same_caller(const struct visit *a, const struct visit *b)
{
	return a->session[0] && str_eq(a->session, b->session) &&
	       id_eq(&a->run.actor.tenant, &b->run.actor.tenant) && a->n_auth == b->n_auth &&
	       memcmp(a->auth, b->auth, a->n_auth) == 0;
}

/* The request of that id is over; whoever asked knows that already. */
static void cancel(struct visit *v)
{
	static const struct rpc_fault fault = { .code = RPC_GIVEN_UP,
						.status = 200,
						.msg = "Cancelled" };
	const json_t *id = json_object_get(v->rpc.params, "requestId");

	for (struct visit *o = v->mcp->visits; o && id; o = o->next)
		if (o != v && o->rpc.id && same_caller(v, o) && json_equal(id, o->rpc.id)) {
			visit_fault(o, &fault);
			break;
		}
	visit_reply(v, 202, NULL);
}

void serve(struct visit *v)
{
	switch (v->rpc.method) {
	case RPC_INITIALIZE:
		initialize(v);
		break;
	case RPC_PING:
		ping(v);
		break;
	case RPC_DISCOVER:
		discover(v);
		break;
	case RPC_TOOLS_LIST:
		list(v);
		break;
	case RPC_TOOLS_CALL:
		call(v);
		break;
	case RPC_CANCELLED:
		cancel(v);
		break;
	case RPC_INITIALIZED:
	case RPC_NONE: /* a notification nobody knows is nobody's failure */
	case RPC_NUM:
		visit_reply(v, 202, NULL);
		break;
	}
}
