/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/e2b.h"
#include "e2b/envelope.h"
#include "text/base64.h"
#include "text/percent.h"

#define PREFIX "/e2b"
#define AUTH_MAX KIB(8)
#define ARENA_MAX MIB(1)
#define TENANT_MAX 512 /* requests of a tenant at once, until the reply is sent */
#define BODY_MS 30000
#define CODE_PORT "49999"

static const struct e2b_route e2b_routes[] = {
#define E2B_ROUTE(method_, path_, plane_, body_, fn) { method_, path_, plane_, body_, fn },
#include "e2b/routes.def"
#undef E2B_ROUTE
};

/* Unknown members are ignored: newer SDKs send what older servers do not know. */
static const struct json_limits e2b_json_limits = { E2B_BODY_MAX, 24, 32768 };

void e2b_request_free(struct e2b_request *v)
{
	if (v->next)
		v->next->prev = v->prev;
	if (v->prev)
		v->prev->next = v->next;
	else
		v->door->requests = v->next;
	if (v->call)
		client_call_cancel(v->call);
	v->door->left_behind -= v->counted;
	json_decref(v->json);
	json_decref(v->answer);
	json_decref(v->kept);
	buf_fini(&v->body);
	buf_fini(&v->line);
	buf_fini(&v->held[0]);
	buf_fini(&v->held[1]);
	sse_fini(&v->events);
	multipart_fini(&v->parts);
	arena_fini(&v->arena);
	explicit_bzero(v->auth, v->n_auth);
	free(v);
}

bool e2b_hold(struct e2b_request *v, enum e2b_memory kind, size_t n, struct cay_err *err)
{
	if (face_hold(v->rq, &v->memory, kind, n))
		return true;
	(void)cay_fail(err, CAY_E_RATE, "the requests of this tenant take too much memory");
	return false;
}

static bool e2b_path_matches(const char *pattern, struct slice path, struct slice ret[static 2])
{
	struct slice want = slice_of(pattern);
	unsigned n = 0;

	while (want.p && path.p) {
		struct slice a = slice_cut(&want, '/'), b = slice_cut(&path, '/');

		if (slice_eq(a, SLICE("{}"))) {
			if (!b.n || n == 2)
				return false;
			ret[n++] = b;
		} else if (!slice_eq(a, b)) {
			return false;
		}
	}
	return !want.p && !path.p;
}

static int e2b_find_route(struct e2b_request *v, struct slice path, struct cay_err *err)
{
	const struct http_head *h = v->rq->head;
	bool code = slice_eq(http_header_find(h, "e2b-sandbox-port"), SLICE(CODE_PORT));
	bool inside = v->actor.one_sandbox || http_header_find(h, "e2b-sandbox-id").p;
	enum e2b_plane plane = !inside ? E2B_CONTROL : code ? E2B_CODE : E2B_ENVD;
	struct slice found[2] = {};
	bool other = false;

	for (size_t i = 0; i < ARRAY_SIZE(e2b_routes) && !v->route; i++) {
		const struct e2b_route *t = &e2b_routes[i];

		if (t->plane != plane || !e2b_path_matches(t->path, path, found))
			continue;
		other = true;
		if (slice_eq(h->method, slice_of(t->method)))
			v->route = t;
	}
	if (!v->route && other)
		return cay_fail(err, CAY_E_METHOD, "method not allowed");
	if (!v->route)
		return cay_fail(err, CAY_E_NOT_FOUND,
				"Cay does not have this part of E2B's API: %.*s",
				(int)(path.n < 100 ? path.n : 100), path.p);
	v->segment = found[0].n ? arena_strndup(&v->arena, found[0].p, found[0].n) : "";
	return v->segment ? 0 : cay_no_memory(err);
}

/* The sandbox of the path, of the headers, or else of the token. */
static int e2b_find_sandbox(struct e2b_request *v, struct cay_err *err)
{
	bool control = v->route->plane == E2B_CONTROL;
	struct slice text =
		control ? slice_of(v->segment) : http_header_find(v->rq->head, "e2b-sandbox-id");
	struct id id = v->actor.sandbox;

	if (control && !strstr(v->route->path, "/sandboxes/"))
		return 0;
	if (!text.n && (v->route->plane == E2B_CONTROL || !v->actor.one_sandbox))
		return 0;
	/* a text that is no id is the sandbox that does not exist */
	if (text.n && id_parse(ID_SANDBOX, text, &id) < 0)
		return cay_fail(err, CAY_E_NOT_FOUND, "The sandbox was not found");
	id_format(&id, v->sandbox);
	return 0;
}

/* "Basic base64(USER:)": the user of the sandbox to act as. */
static int e2b_read_user(struct e2b_request *v, struct cay_err *err)
{
	static const char scheme[] = "Basic ";
	struct slice s = http_header_find(v->rq->head, "e2b-user");
	uint8_t text[96];
	size_t n = 0;

	if (s.n < sizeof(scheme) || strncasecmp(s.p, scheme, sizeof(scheme) - 1) != 0)
		return 0;
	s = (struct slice){ s.p + sizeof(scheme) - 1, s.n - (sizeof(scheme) - 1) };
	if (s.n > 4 * (sizeof(text) / 3) || base64_decode(s.p, s.n, text, &n) < 0 || !n ||
	    text[n - 1] != ':')
		return cay_fail(err, CAY_E_UNAUTHENTICATED, "Authorization names no user");
	if (n == 1)
		return 0;
	v->user = arena_strndup(&v->arena, (const char *)text, n - 1);
	return v->user ? 0 : cay_no_memory(err);
}

const char *e2b_query(struct e2b_request *v, const char *name)
{
	struct slice left = slice_of(v->query);

	while (left.n) {
		struct slice value = slice_cut(&left, '&'), key = slice_cut(&value, '=');
		char *text;
		size_t n;

		if (!slice_eq(key, slice_of(name)) || !value.p)
			continue;
		text = arena_alloc(&v->arena, 1, value.n + 1);
		if (!text)
			return NULL;
		if (percent_decode(value.p, value.n, text, &n) < 0)
			return NULL;
		text[n] = 0;
		return text;
	}
	return NULL;
}

static int e2b_read_head(struct e2b_request *v, struct cay_err *err)
{
	struct slice query = v->rq->head->target, path = slice_cut(&query, '?');
	int r = face_read_headers(v->rq, &v->actor, &v->edge, &v->host, err);

	if (r < 0)
		return r;
	/* they outlive the request of a client that leaves */
	v->host = arena_strndup(&v->arena, v->host, strlen(v->host));
	v->query = arena_strndup(&v->arena, query.p ? query.p : "", query.n);
	if (!v->host || !v->query)
		return cay_no_memory(err);
	if (path.n < sizeof(PREFIX) || memcmp(path.p, PREFIX, sizeof(PREFIX) - 1) != 0)
		return cay_fail(err, CAY_E_NOT_FOUND, "the only paths are below " PREFIX);
	path = (struct slice){ path.p + sizeof(PREFIX) - 1, path.n - (sizeof(PREFIX) - 1) };
	r = e2b_find_route(v, path, err);
	if (r >= 0)
		r = e2b_find_sandbox(v, err);
	if (r >= 0 && v->route->plane != E2B_CONTROL)
		r = e2b_read_user(v, err);
	return r >= 0 ? request_charge_tenant(v->rq, &v->actor.tenant, TENANT_MAX, err) : r;
}

static int e2b_parse_body(struct e2b_request *v, struct cay_err *err)
{
	struct slice text = { buf_str(&v->body), v->body.len };
	int r = 0;

	if (v->route->body == E2B_STREAM)
		r = envelope_open(text, &text, err);
	if (r >= 0 && !text.n)
		v->json = json_object();
	else if (r >= 0)
		r = json_parse(text, &e2b_json_limits, &v->json, err);
	if (r >= 0 && !v->json)
		return cay_no_memory(err);
	if (r >= 0 && !json_is_object(v->json))
		return cay_fail(err, CAY_E_INVALID, "the body must be a JSON object");
	if (r >= 0 && !e2b_hold(v, E2B_MEM_JSON, json_estimate_bytes(text), err))
		r = -EDQUOT;
	buf_fini(&v->body);
	(void)face_hold(v->rq, &v->memory, E2B_MEM_BODY, 0);
	return r;
}

static void on_e2b_body(struct request *rq, struct slice bytes)
{
	struct e2b_request *v = rq->data;
	struct cay_err err = {};

	if (buf_append(&v->body, bytes.p, bytes.n) < 0)
		e2b_refuse(v, CAY_E_TOO_LARGE, "the body is too large");
	else if (!e2b_hold(v, E2B_MEM_BODY, v->body.cap, &err))
		e2b_fail(v, &err);
	else if (face_body_is_late(rq, BODY_MS))
		e2b_refuse(v, CAY_E_TIMEOUT, "the body did not arrive within 30 s");
}

static void on_e2b_body_end(struct request *rq)
{
	struct e2b_request *v = rq->data;
	struct cay_err err = {};

	v->body_done = true;
	if (v->route->body != E2B_NO_BODY && e2b_parse_body(v, &err) < 0)
		e2b_fail(v, &err);
	else
		v->route->start(v);
}

static void on_e2b_drain(struct request *rq)
{
	struct e2b_request *v = rq->data;

	if (v->call)
		client_call_resume(v->call);
}

static void on_e2b_gone(struct request *rq)
{
	e2b_request_free(rq->data);
}

static struct e2b_request *e2b_request_new(struct e2b *d, struct request *rq)
{
	struct slice auth = http_header_find(rq->head, "authorization");
	struct e2b_request *v = auth.n <= AUTH_MAX ? calloc(1, sizeof(*v) + auth.n + 1) : NULL;

	if (!v)
		return NULL;
	v->door = d;
	v->rq = rq;
	v->arena = ARENA_INIT(ARENA_MAX);
	v->body = BUF_INIT(E2B_BODY_MAX);
	v->line = BUF_INIT(MIB(6));
	v->held[0] = v->held[1] = BUF_INIT(MIB(1) + 8);
	v->n_auth = auth.n;
	memcpy(v->auth, auth.p ? auth.p : "", auth.n);
	v->next = d->requests;
	if (v->next)
		v->next->prev = v;
	d->requests = v;
	return v;
}

static void on_e2b_http_request(struct request *rq, void *arg)
{
	static const struct request_events events = { .body = on_e2b_body,
						      .body_end = on_e2b_body_end,
						      .drain = on_e2b_drain,
						      .gone = on_e2b_gone };
	struct e2b_request *v = e2b_request_new(arg, rq);
	struct cay_err err = {};
	int r;

	rq->write_error = e2b_error_write;
	if (!v) {
		request_no_memory(rq);
		return;
	}
	rq->data = v;
	rq->events = &events;
	r = e2b_read_head(v, &err);
	if (r < 0 && v->route && v->route->plane == E2B_ENVD && err.code == CAY_E_NOT_FOUND)
		e2b_fail_gone(v);
	else if (r < 0)
		e2b_fail(v, &err);
	else if (v->route->body == E2B_RAW)
		v->route->start(v);
}

request_fn *e2b_find_handler(struct request *, void *)
{
	return on_e2b_http_request;
}
