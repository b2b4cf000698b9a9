/* SPDX-License-Identifier: Apache-2.0 */
#include "opensandbox/opensandbox.h"

#define AUTH_MAX KIB(8)
#define ARENA_MAX MIB(1)
#define TENANT_MAX 512 /* requests of a tenant at once, until the reply is sent */
#define TICK_MS 100
#define BODY_MS 30000

static const struct osb_route osb_routes[] = {
#define OSB_ROUTE(method_, path_, plane_, body_, fn) { method_, path_, plane_, body_, fn },
#include "opensandbox/routes.def"
#undef OSB_ROUTE
};

/* Unknown members are ignored: newer SDKs send what older servers do not know. */
static const struct json_limits osb_json_limits = { OSB_BODY_MAX, 24, 32768 };

void osb_request_free(struct osb_request *v)
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
	json_decref(v->rows);
	buf_fini(&v->body);
	buf_fini(&v->events);
	buf_fini(&v->rest);
	buf_fini(&v->metadata);
	output_lines_fini(&v->lines[0]);
	output_lines_fini(&v->lines[1]);
	multipart_fini(&v->parts);
	arena_fini(&v->arena);
	explicit_bzero(v->auth, v->n_auth);
	free(v);
}

bool osb_hold(struct osb_request *v, enum osb_memory kind, size_t n, struct cay_err *err)
{
	if (face_hold(v->rq, &v->memory, kind, n))
		return true;
	(void)cay_fail(err, CAY_E_RATE, "the requests of this tenant take too much memory");
	return false;
}

/* Requests that wait, and streams that were silent. */
static void on_osb_tick(uv_timer_t *t)
{
	struct osb *d = t->data;
	struct osb_request *next;
	uint64_t now = uv_now(t->loop);
	bool any = false;

	for (struct osb_request *v = d->requests; v; v = next) {
		next = v->next;
		any |= v->wake_ms || (v->begun && v->is_stream && v->rq);
		if (v->wake_ms && now >= v->wake_ms) {
			v->wake_ms = 0;
			v->wake(v);
		} else {
			osb_stream_ping(v, now);
		}
	}
	if (!any)
		(void)uv_timer_stop(t);
}

void osb_start_tick(struct osb *d)
{
	if (!uv_is_active((const uv_handle_t *)&d->tick))
		(void)uv_timer_start(&d->tick, on_osb_tick, TICK_MS, TICK_MS);
}

void osb_wait(struct osb_request *v, uint64_t ms, osb_step *then)
{
	v->wake_ms = uv_now(&v->door->face.loop) + ms;
	v->wake = then;
	osb_start_tick(v->door);
}

static bool osb_path_matches(const char *pattern, struct slice path, struct slice ret[static 2])
{
	struct slice want = slice_of(pattern);
	unsigned n = 0;

	ret[0] = ret[1] = (struct slice){};
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

static bool osb_skip(struct slice *path, const char *prefix)
{
	size_t n = strlen(prefix);

	if (path->n < n || memcmp(path->p, prefix, n) != 0)
		return false;
	*path = (struct slice){ path->p + n, path->n - n };
	return true;
}

/* "/sandboxes/ID/proxy/PORT/REST" of a port that is OpenSandbox's own: its plane, and *path is the
 * rest. */
static enum osb_plane osb_find_plane(struct slice *path, struct slice *ret_sandbox)
{
	struct slice rest = *path, id, port;

	if (!osb_skip(&rest, "/sandboxes/"))
		return OSB_LIFECYCLE;
	id = slice_cut(&rest, '/');
	if (!rest.p || !osb_skip(&rest, "proxy/"))
		return OSB_LIFECYCLE;
	port = rest;
	port.n = 5;
	if (rest.n < 6 || rest.p[5] != '/' ||
	    (!slice_eq(port, SLICE("44772")) && !slice_eq(port, SLICE("18080"))))
		return OSB_LIFECYCLE;
	*ret_sandbox = id;
	*path = (struct slice){ rest.p + 5, rest.n - 5 };
	return slice_eq(port, SLICE("44772")) ? OSB_EXECD : OSB_EGRESS;
}

/* 0 without a route: Cay does not serve it. */
static int osb_find_route(struct osb_request *v, struct slice path, struct cay_err *err)
{
	struct slice sandbox = {}, found[2] = {}, segment;
	enum osb_plane plane = osb_find_plane(&path, &sandbox);
	struct id id;

	for (size_t i = 0; i < ARRAY_SIZE(osb_routes) && !v->route; i++) {
		const struct osb_route *t = &osb_routes[i];

		if (t->plane == plane && slice_eq(v->rq->head->method, slice_of(t->method)) &&
		    osb_path_matches(t->path, path, found))
			v->route = t;
	}
	if (plane != OSB_LIFECYCLE)
		v->rq->write_error = osb_execd_error_write;
	if (!v->route)
		return 0;
	segment = found[0];
	if (plane == OSB_LIFECYCLE && strncmp(v->route->path, "/sandboxes/{}", 13) == 0) {
		sandbox = found[0];
		segment = found[1];
	}
	/* a text that is no id is the sandbox that does not exist */
	if (sandbox.n && id_parse(ID_SANDBOX, sandbox, &id) < 0)
		return cay_fail(err, CAY_E_NOT_FOUND, "sandbox not found");
	if (sandbox.n)
		id_format(&id, v->sandbox);
	v->segment = arena_strndup(&v->arena, segment.p ? segment.p : "", segment.n);
	return v->segment ? 0 : cay_no_memory(err);
}

const char *osb_query_nth(struct osb_request *v, const char *name, size_t n)
{
	struct slice left = slice_of(v->query);

	while (left.n) {
		struct slice value = slice_cut(&left, '&'), key = slice_cut(&value, '=');
		char *text;

		if (!slice_eq(key, slice_of(name)) || !value.p || n--)
			continue;
		text = arena_alloc(&v->arena, 1, value.n + 1);
		return text && translate_query(value.p, value.n, text) >= 0 ? text : NULL;
	}
	return NULL;
}

const char *osb_query(struct osb_request *v, const char *name)
{
	return osb_query_nth(v, name, 0);
}

/* What cannot be decoded would look absent. */
static int osb_check_query(const char *query, struct cay_err *err)
{
	char text[HTTP_TARGET_MAX + 1];
	struct slice left = slice_of(query);

	while (left.n) {
		struct slice value = slice_cut(&left, '&');

		(void)slice_cut(&value, '=');
		if (value.n >= sizeof(text) || translate_query(value.p, value.n, text) < 0)
			return cay_fail(err, CAY_E_INVALID, "a parameter is not percent-encoded");
	}
	return 0;
}

static int osb_read_head(struct osb_request *v, struct cay_err *err)
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
	if (!osb_skip(&path, OSB_PREFIX) || !path.n || *path.p != '/')
		return cay_fail(err, CAY_E_NOT_FOUND, "the only paths are below " OSB_PREFIX);
	if (path.n > 3 && memcmp(path.p, "/v1/", 4) == 0)
		path = (struct slice){ path.p + 3, path.n - 3 };
	r = osb_find_route(v, path, err);
	if (r >= 0)
		r = osb_check_query(v->query, err);
	return r >= 0 ? request_charge_tenant(v->rq, &v->actor.tenant, TENANT_MAX, err) : r;
}

static int osb_parse_body(struct osb_request *v, struct cay_err *err)
{
	struct slice text = { buf_str(&v->body), v->body.len };
	bool rows = v->route->body == OSB_ROWS;
	int r = 0;

	if (!text.n)
		v->json = rows ? json_array() : json_object();
	else
		r = json_parse(text, &osb_json_limits, &v->json, err);
	if (r >= 0 && !v->json)
		return cay_no_memory(err);
	if (r >= 0 && !(rows ? json_is_array(v->json) : json_is_object(v->json)))
		return cay_fail(err, CAY_E_INVALID, "the body must be a JSON %s",
				rows ? "array" : "object");
	if (r >= 0 && !osb_hold(v, OSB_MEM_JSON, json_estimate_bytes(text), err))
		r = -EDQUOT;
	buf_fini(&v->body);
	(void)face_hold(v->rq, &v->memory, OSB_MEM_BODY, 0);
	return r;
}

static void on_osb_body(struct request *rq, struct slice bytes)
{
	struct osb_request *v = rq->data;
	struct cay_err err = {};

	if (v->route && buf_append(&v->body, bytes.p, bytes.n) < 0)
		osb_refuse(v, CAY_E_TOO_LARGE, "the body is too large");
	else if (!osb_hold(v, OSB_MEM_BODY, v->body.cap, &err))
		osb_fail(v, &err);
	else if (face_body_is_late(rq, BODY_MS))
		osb_refuse(v, CAY_E_TIMEOUT, "the body did not arrive within 30 s");
}

static void on_osb_body_end(struct request *rq)
{
	struct osb_request *v = rq->data;
	struct cay_err err = {};

	v->body_done = true;
	if (!v->route)
		osb_not_served(v,
			       arena_strndup(&v->arena, rq->head->target.p,
					     rq->head->target.n < 100 ? rq->head->target.n : 100));
	else if (v->route->body != OSB_NO_BODY && osb_parse_body(v, &err) < 0)
		osb_fail(v, &err);
	else
		v->route->start(v);
}

static void on_osb_drain(struct request *rq)
{
	struct osb_request *v = rq->data;

	if (v->call)
		client_call_resume(v->call);
}

static void on_osb_gone(struct request *rq)
{
	osb_request_free(rq->data);
}

static struct osb_request *osb_request_new(struct osb *d, struct request *rq)
{
	struct slice auth = http_header_find(rq->head, "authorization");
	struct osb_request *v = auth.n <= AUTH_MAX ? calloc(1, sizeof(*v) + auth.n + 1) : NULL;

	if (!v)
		return NULL;
	v->door = d;
	v->rq = rq;
	v->segment = "";
	v->arena = ARENA_INIT(ARENA_MAX);
	v->body = BUF_INIT(OSB_BODY_MAX);
	v->events = BUF_INIT(OSB_EVENT_MAX);
	v->rest = BUF_INIT(OSB_REST_MAX);
	v->metadata = BUF_INIT(OSB_METADATA_MAX);
	v->lines[0] = v->lines[1] = output_lines_create();
	v->n_auth = auth.n;
	memcpy(v->auth, auth.p ? auth.p : "", auth.n);
	v->next = d->requests;
	if (v->next)
		v->next->prev = v;
	d->requests = v;
	return v;
}

static void on_osb_http_request(struct request *rq, void *arg)
{
	static const struct request_events events = { .body = on_osb_body,
						      .body_end = on_osb_body_end,
						      .drain = on_osb_drain,
						      .gone = on_osb_gone };
	struct osb_request *v = osb_request_new(arg, rq);
	struct cay_err err = {};

	rq->write_error = opensandbox_error_write;
	if (!v) {
		request_no_memory(rq);
		return;
	}
	rq->data = v;
	rq->events = &events;
	if (osb_read_head(v, &err) < 0)
		osb_fail(v, &err);
	else if (v->route && v->route->body == OSB_RAW)
		v->route->start(v);
}

request_fn *osb_find_handler(struct request *, void *)
{
	return on_osb_http_request;
}
