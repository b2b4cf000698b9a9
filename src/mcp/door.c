/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/mcp.h"

#define AUTH_MAX KIB(8)
#define TENANT_MAX 256 /* of one tenant at once, as in one sandbox */
#define BODY_MS 10000
#define PATH "/mcp"
#define STREAM "text/event-stream"

struct query {
	const char *profile, *group;
};

static const struct field query_rows[] = {
	{ .name = "profile",
	  .type = FIELD_TEXT,
	  .offset = offsetof(struct query, profile),
	  .min = 1,
	  .max = 63,
	  .check = CHECK_WORD,
	  .help = "Which tools" },
	/* a sandbox is named after it, with a few letters in front */
	{ .name = "group",
	  .type = FIELD_TEXT,
	  .offset = offsetof(struct query, group),
	  .min = 1,
	  .max = 56,
	  .check = CHECK_NAME,
	  .help = "Whose sandboxes" },
};
static const struct field_table query_table = { .name = "McpQuery",
						.help = "Which tools, and whose sandboxes",
						.size = sizeof(struct query),
						.rows = query_rows,
						.n = ARRAY_SIZE(query_rows) };

static void leave(struct visit *v)
{
	if (v->next)
		v->next->prev = v->prev;
	if (v->prev)
		v->prev->next = v->next;
	else
		v->mcp->visits = v->next;
	go_cancel(v);
	rpc_fini(&v->rpc);
	buf_fini(&v->body);
	explicit_bzero(v->auth, v->n_auth);
	free(v);
}

static void write_event(struct request *rq, struct buf *body)
{
	static const char begin[] = "event: message\ndata: ", end[] = "\n\n";

	(void)request_write(rq, begin, sizeof(begin) - 1);
	(void)request_write(rq, body->data, body->len);
	(void)request_write(rq, end, sizeof(end) - 1);
	buf_clear(body);
}

void visit_event(struct visit *v, struct buf *body)
{
	if (!v->begun)
		request_stream(v->rq, 200, STREAM, REQUEST_LENGTH_UNKNOWN);
	v->begun = true;
	write_event(v->rq, body);
}

void visit_reply(struct visit *v, int status, struct buf *body)
{
	struct request *rq = v->rq;

	if (v->begun) {
		if (body)
			visit_event(v, body);
		leave(v);
		request_end(rq);
		return;
	}
	leave(v);
	request_reply(rq, status, body ? "application/json" : NULL, body);
}

void visit_fault(struct visit *v, const struct rpc_fault *fault)
{
	auto_buf b = BUF_INIT(KIB(8));
	struct jw w = jw_to(&b);

	rpc_write_fault(&v->rpc, fault, &w);
	/* an id is bounded, a message is */
	if (jw_done(&w) < 0)
		visit_reply(v, 500, NULL);
	else
		visit_reply(v, fault->status, &b);
}

/* The request */

static void on_body(struct request *rq, struct slice bytes)
{
	struct visit *v = rq->data;

	bool late = uv_now(&v->mcp->loop) - v->since > BODY_MS;

	if (!late && buf_add(&v->body, bytes.p, bytes.n) >= 0)
		return;
	leave(v);
	if (late)
		request_refuse(rq, CAY_E_TIMEOUT, "a message must be here within 10 s");
	else
		request_refuse(rq, CAY_E_TOO_LARGE, "a message is longer than what is taken");
}

static void on_body_end(struct request *rq)
{
	struct visit *v = rq->data;
	const struct http_head *h = rq->head;
	struct rpc_headers said = { .version = http_header(h, "mcp-protocol-version"),
				    .method = http_header(h, "mcp-method"),
				    .name = http_header(h, "mcp-name") };
	struct rpc_fault fault;
	int r = rpc_read((struct slice){ buf_str(&v->body), v->body.len }, &said, &v->rpc, &fault);

	buf_fini(&v->body);
	if (r < 0)
		visit_fault(v, &fault);
	else
		serve(v);
}

static void on_gone(struct request *rq)
{
	leave(rq->data);
}

static int read_query(struct visit *v, struct request *rq, struct cay_err *err)
{
	struct slice path = rq->head->target, query = path;
	const struct profile *p = &profiles[PROFILE_NATIVE];
	struct query q = {};
	int r;

	path = slice_cut(&query, '?');
	if (!slice_eq(path, SLICE(PATH)))
		return cay_fail(err, CAY_E_NOT_FOUND, "there is nothing but " PATH);
	r = query.p ? field_decode_query(&query_table, query, &rq->pool, &q, err) : 0;
	if (r >= 0 && q.profile)
		p = profile_find(slice_of(q.profile));
	if (r >= 0 && !p)
		return cay_fail_field(err, CAY_E_INVALID, "profile", "there is none of that name");
	if (r < 0)
		return r;
	v->profile = (enum tool_profile)(p - profiles);
	v->run.group = q.group; /* of the request's pool */
	return 0;
}

/* What the edge says: who asks, and which edge it is by which name. */
static int read_edge(struct visit *v, struct request *rq, struct cay_err *err)
{
	const struct http_head *h = rq->head;
	struct slice session = http_header(h, "mcp-session-id");
	struct slice host = http_header(h, MCP_HOST_HEADER);
	uint64_t edge;

	if (!v->n_auth || actor_parse(http_header(h, ACTOR_HEADER), &v->run.actor) < 0 ||
	    str_u64(http_header(h, MCP_BACK_HEADER), 0, MCP_EDGES - 1, &edge) < 0)
		return cay_fail(err, CAY_E_UNAUTHENTICATED, "that is not an edge's request");
	v->edge = (unsigned)edge;
	/* an edge of before does not say */
	v->host = host.n ? pool_strn(&rq->pool, host.p, host.n) : "localhost";
	if (!v->host)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory for a message");
	if (session.n == MCP_SESSION_LEN)
		memcpy(v->session, session.p, session.n);
	return 0;
}

static int check_share(const struct visit *v, struct cay_err *err)
{
	unsigned n = 0;

	for (const struct visit *o = v->mcp->visits; o; o = o->next)
		n += id_eq(&o->run.actor.tenant, &v->run.actor.tenant);
	if (n > TENANT_MAX)
		return cay_fail(err, CAY_E_RATE, "too many messages of this tenant are under way");
	return 0;
}

static int check_head(const struct http_head *h, struct cay_err *err)
{
	struct slice media = http_header(h, "content-type");

	if (!slice_eq(h->method, SLICE("POST")))
		return cay_fail(err, CAY_E_METHOD,
				"messages are sent by POST; there is no stream "
				"of the server's own and no session to end");
	if (!http_eq(slice_trim(slice_cut(&media, ';')), "application/json"))
		return cay_fail(err, CAY_E_MEDIA_TYPE, "a message must be application/json");
	if (h->framing == HTTP_LENGTH && h->length > RPC_BYTES)
		return cay_fail(err, CAY_E_TOO_LARGE, "a message of %llu bytes; %zu are the most",
				(unsigned long long)h->length, (size_t)RPC_BYTES);
	return 0;
}

static struct visit *enter(struct mcp *m, struct request *rq)
{
	struct slice auth = http_header(rq->head, "authorization");
	struct visit *v = auth.n <= AUTH_MAX ? calloc(1, sizeof(*v) + auth.n + 1) : NULL;

	if (!v)
		return NULL;
	v->mcp = m;
	v->rq = rq;
	v->body = BUF_INIT(RPC_BYTES);
	v->since = uv_now(&m->loop);
	v->streams = http_accepts(rq->head, STREAM);
	v->n_auth = auth.n;
	memcpy(v->auth, auth.p ? auth.p : "", auth.n);
	v->next = m->visits;
	if (v->next)
		v->next->prev = v;
	m->visits = v;
	return v;
}

static void door_request(struct request *rq, void *arg)
{
	static const struct request_events events = { .body = on_body,
						      .body_end = on_body_end,
						      .gone = on_gone };
	struct cay_err err = {};
	struct visit *v;
	int r = check_head(rq->head, &err);

	if (r < 0) {
		if (err.code == CAY_E_METHOD)
			(void)request_header(rq, "Allow", "POST");
		request_fail(rq, &err);
		return;
	}
	v = enter(arg, rq);
	if (!v) {
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory for a message");
		return;
	}
	r = read_query(v, rq, &err);
	if (r >= 0)
		r = read_edge(v, rq, &err);
	if (r >= 0)
		r = check_share(v, &err);
	if (r < 0) {
		leave(v);
		request_fail(rq, &err);
		return;
	}
	rq->data = v;
	rq->events = &events;
	/* a message without a body is said to be none */
	if (rq->head->framing == HTTP_EMPTY)
		on_body_end(rq);
}

request_fn *door_find(struct request *, void *)
{
	return door_request;
}
