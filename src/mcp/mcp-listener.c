/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/mcp.h"

#define AUTH_MAX KIB(8)
#define TENANT_MAX 256 /* per tenant at once, until the reply is sent */
#define BODY_MS 10000
#define PATH "/mcp"

struct mcp_query {
	const char *profile, *group;
};

static const struct field mcp_query_rows[] = {
	{ .name = "profile",
	  .type = FIELD_TEXT,
	  .offset = offsetof(struct mcp_query, profile),
	  .min = 1,
	  .max = 63,
	  .check = CHECK_WORD,
	  .help = "Profile of tools" },
	/* it becomes part of a sandbox's name */
	{ .name = "group",
	  .type = FIELD_TEXT,
	  .offset = offsetof(struct mcp_query, group),
	  .min = 1,
	  .max = 56,
	  .check = CHECK_NAME,
	  .help = "Group of sandboxes" },
};
static const struct field_table mcp_query_table = {
	.name = "McpQuery",
	.help = "Profile of tools and group of sandboxes",
	.size = sizeof(struct mcp_query),
	.rows = mcp_query_rows,
	.n = ARRAY_SIZE(mcp_query_rows)
};

static void on_mcp_request_body(struct request *rq, struct slice bytes)
{
	struct mcp_request *v = rq->data;
	bool late = face_body_is_late(rq, BODY_MS);

	if (!late && buf_append(&v->body, bytes.p, bytes.n) >= 0)
		return;
	mcp_request_free(v);
	if (late)
		request_refuse(rq, CAY_E_TIMEOUT, "the message did not arrive within 10 s");
	else
		request_refuse(rq, CAY_E_TOO_LARGE, "the message is too large");
}

static void on_mcp_request_body_end(struct request *rq)
{
	struct mcp_request *v = rq->data;
	const struct http_head *h = rq->head;
	struct mcp_rpc_headers said = { .version = http_header_find(h, "mcp-protocol-version"),
					.method = http_header_find(h, "mcp-method"),
					.name = http_header_find(h, "mcp-name") };
	struct mcp_rpc_fault fault;
	int r = mcp_rpc_parse((struct slice){ buf_str(&v->body), v->body.len }, &said, &v->rpc,
			      &fault);

	buf_fini(&v->body);
	if (r < 0)
		mcp_request_reply_fault(v, &fault);
	else
		mcp_method_dispatch(v);
}

static void on_mcp_request_client_gone(struct request *rq)
{
	mcp_request_free(rq->data);
}

static int mcp_request_read_query(struct mcp_request *v, struct request *rq, struct cay_err *err)
{
	struct slice path = rq->head->target, query = path;
	const struct profile *p = &profiles[PROFILE_NATIVE];
	struct mcp_query q = {};
	int r;

	path = slice_cut(&query, '?');
	if (!slice_eq(path, SLICE(PATH)))
		return cay_fail(err, CAY_E_NOT_FOUND, "the only path is " PATH);
	r = query.p ? field_decode_query(&mcp_query_table, query, &rq->arena, &q, err) : 0;
	if (r >= 0 && q.profile)
		p = profile_find(slice_of(q.profile));
	if (r >= 0 && !p)
		return cay_fail_field(err, CAY_E_INVALID, "profile", "no such profile");
	if (r < 0)
		return r;
	v->profile = (enum tool_profile)(p - profiles);
	v->run.group = q.group; /* in the request's arena */
	return 0;
}

static int mcp_request_read_headers(struct mcp_request *v, struct request *rq, struct cay_err *err)
{
	struct slice session = http_header_find(rq->head, "mcp-session-id");
	int r = face_read_headers(rq, &v->run.actor, &v->edge, &v->host, err);

	if (r < 0)
		return r;
	if (!v->run.group && v->run.actor.group[0])
		v->run.group = v->run.actor.group;
	if (session.n == MCP_SESSION_LEN)
		memcpy(v->session, session.p, session.n);
	return 0;
}

static int mcp_request_check_head(const struct http_head *h, struct cay_err *err)
{
	struct slice media = http_header_find(h, "content-type");

	if (!slice_eq(h->method, SLICE("POST")))
		return cay_fail(err, CAY_E_METHOD,
				"send messages by POST; there is no server "
				"stream and no session to end");
	if (!http_equals_nocase(slice_trim(slice_cut(&media, ';')), "application/json"))
		return cay_fail(err, CAY_E_MEDIA_TYPE, "a message must be application/json");
	if (h->framing == HTTP_LENGTH && h->length > RPC_BYTES)
		return cay_fail(err, CAY_E_TOO_LARGE, "message of %llu bytes; the limit is %zu",
				(unsigned long long)h->length, (size_t)RPC_BYTES);
	return 0;
}

static struct mcp_request *mcp_request_create(struct mcp *m, struct request *rq)
{
	struct slice auth = http_header_find(rq->head, "authorization");
	struct mcp_request *v = auth.n <= AUTH_MAX ? calloc(1, sizeof(*v) + auth.n + 1) : NULL;

	if (!v)
		return NULL;
	v->mcp = m;
	v->rq = rq;
	v->body = BUF_INIT(RPC_BYTES);
	v->arrived_ms = uv_now(&m->face.loop);
	v->accepts_stream = http_accepts_media_type(rq->head, MCP_STREAM);
	v->n_auth = auth.n;
	memcpy(v->auth, auth.p ? auth.p : "", auth.n);
	v->next = m->requests;
	if (v->next)
		v->next->prev = v;
	m->requests = v;
	return v;
}

static void on_mcp_http_request(struct request *rq, void *arg)
{
	static const struct request_events events = { .body = on_mcp_request_body,
						      .body_end = on_mcp_request_body_end,
						      .gone = on_mcp_request_client_gone };
	struct cay_err err = {};
	struct mcp_request *v;
	int r = mcp_request_check_head(rq->head, &err);

	if (r < 0) {
		if (err.code == CAY_E_METHOD)
			(void)request_add_reply_header(rq, "Allow", "POST");
		request_fail(rq, &err);
		return;
	}
	v = mcp_request_create(arg, rq);
	if (!v) {
		request_no_memory(rq);
		return;
	}
	r = mcp_request_read_query(v, rq, &err);
	if (r >= 0)
		r = mcp_request_read_headers(v, rq, &err);
	if (r >= 0)
		r = request_charge_tenant(rq, &v->run.actor.tenant, TENANT_MAX, &err);
	if (r < 0) {
		mcp_request_free(v);
		request_fail(rq, &err);
		return;
	}
	rq->data = v;
	rq->events = &events;
	/* parse the missing body, which fails with the right error */
	if (rq->head->framing == HTTP_EMPTY)
		on_mcp_request_body_end(rq);
}

request_fn *mcp_listener_find_handler(struct request *, void *)
{
	return on_mcp_http_request;
}
