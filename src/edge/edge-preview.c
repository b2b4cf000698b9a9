/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/edge.h"
#include "net/proxy.h"

/* Fewer than a sandbox accepts, so that commands get through beside its pages. */
#define LOOKS_MAX 160
#define URL_MAX (HTTP_TARGET_MAX + KIB(1))
#define COOKIE_MAX 320
#define COOKIE_TRIES 4

static const char preview_path_prefix[] = "/v1/sandboxes/", preview_path_ports[] = "/ports/",
		  preview_path_app[] = "/app";

/* A port of a sandbox, and the request target. */
struct preview_target {
	struct id sandbox;
	uint16_t port; /* 0: its app_port; by host: PREVIEW_SCREEN_PORT */
	struct slice target;
	bool by_host;
};

struct preview_request {
	struct live_request live;
	struct forward_handle hold;
	struct control_state_sandbox *sandbox;
	char prefix[sizeof(preview_path_prefix) + ID_TEXT_LEN + sizeof(preview_path_ports) + 5];
	char host[PREVIEW_HOST_MAX + 8];
};

/* Browsers bind a __Host- cookie to one host and require TLS for it. */
static const char *edge_preview_cookie_name(const struct edge *e)
{
	return e->preview_base.secure ? "__Host-cay-preview" : "cay-preview";
}

int edge_preview_open(struct edge *e, struct cay_err *err)
{
	const char *lists[] = { e->settings.edge_hosts, e->settings.edge_origins,
				e->settings.edge_public_url };

	if (!e->settings.edge_previews[0])
		return 0;
	if (preview_base_parse(e->settings.edge_previews, &e->preview_base, err) < 0)
		return -EINVAL;
	/* pages of sandboxes must not be same-site with the API */
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		struct slice rest = slice_of(lists[i]);

		while (rest.n) {
			struct slice word = slice_cut(&rest, ' ');

			if (memmem(word.p, word.n, e->preview_base.domain,
				   strlen(e->preview_base.domain)))
				return cay_fail(
					err, CAY_E_INVALID,
					"edge.previews: the API must not be at or below %s, "
					"the domain of previews",
					e->preview_base.domain);
		}
	}
	return 0;
}

static bool preview_is_of_screen(const struct preview_target *p)
{
	return p->by_host && p->port == PREVIEW_SCREEN_PORT;
}

static bool preview_skip_prefix(struct slice *s, struct slice with)
{
	if (s->n < with.n || memcmp(s->p, with.p, with.n) != 0)
		return false;
	s->p += with.n;
	s->n -= with.n;
	return true;
}

static bool preview_target_parse_path(struct slice target, struct preview_target *ret)
{
	struct slice path = target, number;
	uint64_t port;

	if (!preview_skip_prefix(&path, slice_of(preview_path_prefix)) || path.n < ID_TEXT_LEN ||
	    id_parse(ID_SANDBOX, (struct slice){ path.p, ID_TEXT_LEN }, &ret->sandbox) < 0)
		return false;
	path.p += ID_TEXT_LEN;
	path.n -= ID_TEXT_LEN;
	if (preview_skip_prefix(&path, slice_of(preview_path_ports))) {
		number = slice_cut(&path, '/');
		if (!path.p || str_parse_u64(number, 1, UINT16_MAX, &port) < 0)
			return false;
		ret->port = (uint16_t)port;
	} else if (preview_skip_prefix(&path, slice_of(preview_path_app)) &&
		   preview_skip_prefix(&path, SLICE("/"))) {
		ret->port = 0;
	} else {
		return false;
	}
	ret->target = (struct slice){ path.p - 1, path.n + 1 };
	return true;
}

static bool preview_target_find(const struct edge *e, const struct http_head *h,
				struct preview_target *ret)
{
	*ret = (struct preview_target){ .target = h->target };
	ret->by_host = preview_host_parse(&e->preview_base, http_header_find(h, "host"),
					  &ret->sandbox, &ret->port);
	return ret->by_host || preview_target_parse_path(h->target, ret);
}

static void preview_request_end(struct live_request *g, const struct cay_err *why)
{
	forward_cancel(&((struct preview_request *)g)->hold, why);
}

static void on_preview_request_done(void *arg)
{
	struct preview_request *l = arg;

	live_request_remove(&l->live);
	control_state_leave_sandbox(l->live.edge->control_state, l->sandbox);
	free(l);
}

static void preview_request_forward(struct edge *e, struct request *rq,
				    const struct preview_target *p, struct control_state_sandbox *s)
{
	struct slice host = http_header_find(rq->head, "host");
	auto_buf path = BUF_INIT(128);
	char name[ID_TEXT_LEN + 1];
	struct preview_request *l = calloc(1, sizeof(*l));
	unsigned port = p->port ? p->port : s->app_port;
	struct proxy_conf conf = { .sandbox = name,
				   .target = p->target,
				   .done = on_preview_request_done,
				   .arg = l,
				   .headers = { .cookie = edge_preview_cookie_name(e),
						.port = port } };
	int n;

	id_format(&p->sandbox, name);
	if (!l)
		n = -1;
	else if (p->port)
		n = snprintf(l->prefix, sizeof(l->prefix), "%s%s%s%u", preview_path_prefix, name,
			     preview_path_ports, port);
	else
		n = snprintf(l->prefix, sizeof(l->prefix), "%s%s%s", preview_path_prefix, name,
			     preview_path_app);
	if (n < 0 || n >= (int)sizeof(l->prefix) || host.n >= sizeof(l->host) ||
	    buf_printf(&path, "%s/box/%s", e->settings.run_dir, name) < 0) {
		free(l);
		request_no_memory(rq);
		return;
	}
	l->sandbox = s;
	memcpy(l->host, host.p, host.n);
	conf.path = path.data;
	conf.handle = &l->hold;
	conf.headers.prefix = p->by_host ? NULL : l->prefix;
	conf.headers.host = p->by_host ? l->host : NULL;
	conf.headers.scheme = e->preview_base.secure ? "https" : "http";
	/* a program may send both, and a JWT cannot be recognised as ours */
	conf.headers.drop_authorization = e->jwks && http_header_find(rq->head, "cay-preview").p;
	control_feed_enter_sandbox(e, s);
	live_request_add(e, &l->live, rq, s, preview_request_end);
	proxy_start(rq, &conf);
}

/* For an authenticated caller, rq->actor. */
static void preview_request_start(struct edge *e, struct request *rq,
				  const struct preview_target *p)
{
	struct control_state_sandbox *s = control_state_find_sandbox(e->control_state, &p->sandbox);

	if (!s || !route_actor_has_sandbox(&rq->actor, s))
		request_refuse(rq, CAY_E_NOT_FOUND, "no such sandbox");
	else if (preview_is_of_screen(p))
		edge_desktop_start(e, rq, s);
	else if (route_check_sandbox(e, rq, s, LOOKS_MAX))
		preview_request_forward(e, rq, p, s);
}

static void preview_request_set_operation(struct request *rq, const struct preview_target *p)
{
	enum op_id op = preview_is_of_screen(p) ? OP_SCREEN_VNC
			: p->port               ? OP_PORT_PROXY
						: OP_PORT_APP;

	rq->match = (struct op_match){ .op = &ops[op], .params = { p->sandbox }, .n_params = 1 };
}

/* Below a path of the API, with any credential of the API. */
static void preview_request_by_path(struct request *rq, void *arg)
{
	struct edge *e = arg;
	struct cay_err err = {};
	struct preview_target p;

	(void)preview_target_find(e, rq->head, &p);
	preview_request_set_operation(rq, &p);
	if (admission_admit_request(rq, e, &err) < 0)
		request_fail(rq, &err);
	else
		preview_request_start(e, rq, &p);
}

/* Remove the token from the query; the rest stays unchanged. */
static bool preview_token_extract(struct slice target, struct slice *ret_token, struct buf *rest)
{
	struct slice query = target, path = slice_cut(&query, '?');
	bool found = false, any = false;
	int r = buf_append(rest, path.p, path.n);

	while (query.p && r >= 0) {
		struct slice pair = slice_cut(&query, '&'), value = pair;

		if (slice_eq(slice_cut(&value, '='), SLICE(PREVIEW_PARAM))) {
			*ret_token = value.p ? value : SLICE("");
			found = true;
			continue;
		}
		r = buf_putc(rest, any ? '&' : '?');
		if (r >= 0)
			r = buf_append(rest, pair.p, pair.n);
		any = true;
	}
	return found && r >= 0;
}

/* Exchange the token for a cookie and redirect, so that it appears neither in the history, nor in
 * the page's URL, nor in a Referer. */
static void preview_token_to_cookie(struct edge *e, struct request *rq, struct slice token,
				    const struct buf *target)
{
	const struct credential *by = rq->data;
	struct slice host = http_header_find(rq->head, "host");
	uint64_t now_ms = clk_wall_ns(e->clk) / NS_PER_MS;
	auto_buf url = BUF_INIT(URL_MAX), cookie = BUF_INIT(COOKIE_MAX);
	const char *secure = e->preview_base.secure ? "; Secure" : "";

	/* with the host: a path may begin with "//" */
	if (buf_printf(&url, "%s://%.*s", e->preview_base.secure ? "https" : "http", (int)host.n,
		       host.p) < 0 ||
	    buf_append(&url, target->data, target->len) < 0 ||
	    buf_printf(&cookie, "%s=%.*s; Path=/; HttpOnly; SameSite=Lax; Max-Age=%llu%s",
		       edge_preview_cookie_name(e), (int)token.n, token.p,
		       (unsigned long long)((by->until_ms - now_ms) / 1000), secure) < 0 ||
	    request_add_reply_header(rq, "Location", buf_str(&url)) < 0 ||
	    request_add_reply_header(rq, "Set-Cookie", buf_str(&cookie)) < 0 ||
	    request_add_reply_header(rq, "Cache-Control", "no-store") < 0 ||
	    request_add_reply_header(rq, "Referrer-Policy", "no-referrer") < 0)
		request_no_memory(rq);
	else
		request_reply(rq, 303, NULL, NULL);
	if (cookie.data)
		explicit_bzero(cookie.data, cookie.len);
}

/* Without Origin and Sec-Fetch-Site (an image in an old browser) the Referer may name the page. */
static bool preview_referer_is_foreign(const struct edge *e, struct slice referer,
				       const struct preview_target *p)
{
	struct slice rest = referer, host;
	struct id from;
	uint16_t port;

	(void)slice_cut(&rest, '/');
	(void)slice_cut(&rest, '/');
	host = slice_cut(&rest, '/');
	return host.n && preview_host_parse(&e->preview_base, host, &from, &port) &&
	       !id_eq(&from, &p->sandbox);
}

/* Same-site pages of other sandboxes send this one's cookie; they may only navigate here.  Other
 * ports of the same sandbox are trusted alike, but not with its screen, which is the viewer's. */
static bool preview_request_is_foreign(const struct edge *e, const struct http_head *h,
				       const struct preview_target *p)
{
	struct slice origin = http_header_find(h, "origin"),
		     site = http_header_find(h, "sec-fetch-site");
	bool leads = http_equals_nocase(http_header_find(h, "sec-fetch-mode"), "navigate") &&
		     http_equals_nocase(http_header_find(h, "sec-fetch-dest"), "document");

	if (!origin.p && !site.p)
		return preview_referer_is_foreign(e, http_header_find(h, "referer"), p);
	if (origin.p) {
		struct slice host = origin, scheme = slice_cut(&host, ':');
		struct id from;
		uint16_t port;

		if (host.n < 3 || memcmp(host.p, "//", 2) != 0 ||
		    !http_equals_nocase(scheme, e->preview_base.secure ? "https" : "http"))
			return true;
		host.p += 2;
		host.n -= 2;
		return !preview_host_parse(&e->preview_base, host, &from, &port) ||
		       !id_eq(&from, &p->sandbox) ||
		       (preview_is_of_screen(p) && port != PREVIEW_SCREEN_PORT);
	}
	return !http_equals_nocase(site, "none") && !http_equals_nocase(site, "same-origin") &&
	       !leads;
}

/* By a header, which a foreign page cannot set, or the cookie. */
static int preview_request_authenticate(struct edge *e, struct request *rq,
					const struct preview_target *p, struct credential *by,
					struct cay_err *err)
{
	struct slice token = http_header_find(rq->head, "cay-preview");
	struct slice traffic = http_header_find(rq->head, "e2b-traffic-access-token");
	size_t at = 0;
	int r;

	if (token.p)
		return authenticate_preview_token(e, token, &p->sandbox, p->port, &rq->actor, by,
						  err);
	if (traffic.p)
		return authenticate_sandbox_token(e, traffic, &p->sandbox, &rq->actor, by, err);
	r = cay_fail(err, CAY_E_UNAUTHENTICATED, "no preview token");
	for (unsigned i = 0; i < COOKIE_TRIES; i++) {
		token = proxy_headers_find_cookie(rq->head, edge_preview_cookie_name(e), &at);
		if (!token.p)
			break;
		*err = (struct cay_err){};
		r = authenticate_preview_token(e, token, &p->sandbox, p->port, &rq->actor, by, err);
		if (r >= 0)
			break;
	}
	if (r >= 0 && preview_request_is_foreign(e, rq->head, p))
		return cay_fail(err, CAY_E_FORBIDDEN, "that Origin is not allowed");
	return r;
}

/* Whoever created the sandbox opened its ports to everybody, and the node allows that. */
static bool preview_is_public(const struct edge *e, const struct preview_target *p,
			      struct actor *ret)
{
	const struct control_state_sandbox *s =
		e->settings.edge_public_ports
			? control_state_find_sandbox(e->control_state, &p->sandbox)
			: NULL;

	if (!s || !s->public_ports)
		return false;
	*ret = (struct actor){
		.tenant = s->tenant, .sandbox = s->id, .one_sandbox = true, .scope = SCOPE_WRITE
	};
	return true;
}

static void preview_request_by_host(struct request *rq, void *arg)
{
	struct edge *e = arg;
	auto_buf rest = BUF_INIT(URL_MAX);
	struct credential *by = arena_alloc(&rq->arena, 1, sizeof(*by));
	struct slice token = {};
	struct cay_err err = {};
	struct preview_target p;
	bool fresh;
	int r;

	(void)preview_target_find(e, rq->head, &p);
	preview_request_set_operation(rq, &p);
	if (!by) {
		request_no_memory(rq);
		return;
	}
	*by = (struct credential){ .until_ms = PUSH_NEVER };
	rq->data = by;
	rq->actor = (struct actor){ .scope = SCOPE_PUBLIC };
	fresh = preview_token_extract(rq->head->target, &token, &rest);
	if (fresh)
		r = authenticate_preview_token(e, token, &p.sandbox, p.port, &rq->actor, by, &err);
	else if (preview_is_public(e, &p, &rq->actor))
		r = 0;
	else
		r = preview_request_authenticate(e, rq, &p, by, &err);
	if (r < 0 && err.code == CAY_E_FORBIDDEN)
		e->counters.now.refused[METRICS_ORIGIN]++;
	else
		r = admission_check_authenticated(e, rq, r, &err);
	if (r >= 0 && fresh && !slice_eq(rq->head->method, SLICE("GET")) &&
	    !slice_eq(rq->head->method, SLICE("HEAD")))
		r = cay_fail(&err, CAY_E_INVALID,
			     "a preview token is only accepted by GET and HEAD");
	if (r < 0)
		request_fail(rq, &err);
	else if (fresh)
		preview_token_to_cookie(e, rq, token, &rest);
	else
		preview_request_start(e, rq, &p);
}

/* A script of a page can set cookies for the whole domain of previews, so many that the browser's
 * requests to all of them are refused.  The browser deletes them when told so. */
void on_edge_preview_head_refused(struct request *rq, struct slice head, void *arg)
{
	const struct edge *e = arg;
	size_t cookies = 0;
	bool ours = false;
	struct id sandbox;
	uint16_t port;

	while (head.p) {
		struct slice value = slice_cut(&head, '\r'), name;

		(void)slice_cut(&head, '\n');
		name = slice_cut(&value, ':');
		if (http_equals_nocase(name, "cookie"))
			cookies += value.n;
		else if (http_equals_nocase(name, "host"))
			ours = preview_host_parse(&e->preview_base, slice_trim(value), &sandbox,
						  &port);
	}
	/* a page that only asks for a long URL must not end the sessions of others */
	if (ours && cookies > HTTP_HEAD_MAX / 2)
		(void)request_add_reply_header(rq, "Clear-Site-Data", "\"cookies\"");
}

request_fn *edge_preview_find_handler(struct request *rq, void *arg)
{
	struct preview_target p;

	if (!preview_target_find(arg, rq->head, &p))
		return NULL;
	if (p.by_host && e2b_forward_serves_port(arg, p.port))
		return e2b_forward_request;
	return p.by_host ? preview_request_by_host : preview_request_by_path;
}
