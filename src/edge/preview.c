/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "edge/edge.h"
#include "net/proxy.h"

/* Fewer than a sandbox takes connections: commands find room beside its pages. */
#define LOOKS_MAX 160
#define URL_MAX (HTTP_TARGET_MAX + KIB(1))
#define COOKIE_MAX 320
#define COOKIE_TRIES 4

static const char paths[] = "/v1/sandboxes/", ports[] = "/ports/", app[] = "/app";

/* Which port of which sandbox, and what is asked of it. */
struct place {
	struct id sandbox;
	uint16_t port; /* 0: that of its application */
	struct slice target;
	bool by_host;
};

/* One under way. */
struct look {
	struct guest guest;
	struct carry_hold hold;
	struct edge *edge;
	struct table_sandbox *to;
	char prefix[sizeof(paths) + ID_TEXT_LEN + sizeof(ports) + 5];
	char host[PREVIEW_HOST_MAX + 8];
};

/* A browser holds a cookie of that name to this one host, which must have set it by TLS;
 * without TLS it may not be called so. */
static const char *cookie_name(const struct edge *e)
{
	return e->previews.secure ? "__Host-cay-preview" : "cay-preview";
}

int preview_open(struct edge *e, struct cay_err *err)
{
	const char *lists[] = { e->settings.edge_hosts, e->settings.edge_origins,
				e->settings.edge_public_url };

	if (!e->settings.edge_previews[0])
		return 0;
	if (preview_base_parse(e->settings.edge_previews, &e->previews, err) < 0)
		return -EINVAL;
	/* what a sandbox shows there must not be a neighbour of who has keys */
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		struct slice rest = slice_of(lists[i]);

		while (rest.n) {
			struct slice word = slice_cut(&rest, ' ');

			if (memmem(word.p, word.n, e->previews.domain, strlen(e->previews.domain)))
				return cay_fail(err, CAY_E_INVALID,
						"edge.previews: the API may not be at or below %s, "
						"where sandboxes show their pages",
						e->previews.domain);
		}
	}
	return 0;
}

/* Where it is meant to go */

static bool begins_with(struct slice *s, struct slice with)
{
	if (s->n < with.n || memcmp(s->p, with.p, with.n) != 0)
		return false;
	s->p += with.n;
	s->n -= with.n;
	return true;
}

static bool at_path(struct slice target, struct place *ret)
{
	struct slice path = target, number;
	uint64_t port;

	if (!begins_with(&path, slice_of(paths)) || path.n < ID_TEXT_LEN ||
	    id_parse(ID_SANDBOX, (struct slice){ path.p, ID_TEXT_LEN }, &ret->sandbox) < 0)
		return false;
	path.p += ID_TEXT_LEN;
	path.n -= ID_TEXT_LEN;
	if (begins_with(&path, slice_of(ports))) {
		number = slice_cut(&path, '/');
		if (!path.p || str_u64(number, 1, UINT16_MAX, &port) < 0)
			return false;
		ret->port = (uint16_t)port;
	} else if (begins_with(&path, slice_of(app)) && begins_with(&path, SLICE("/"))) {
		ret->port = 0;
	} else {
		return false;
	}
	ret->target = (struct slice){ path.p - 1, path.n + 1 };
	return true;
}

static bool find_place(const struct edge *e, const struct http_head *h, struct place *ret)
{
	*ret = (struct place){ .target = h->target };
	ret->by_host =
		preview_host(&e->previews, http_header(h, "host"), &ret->sandbox, &ret->port);
	return ret->by_host || at_path(h->target, ret);
}

/* Through */

static void cut_look(struct guest *g, const struct cay_err *why)
{
	carry_cut(&((struct look *)g)->hold, why);
}

static void on_left(void *arg)
{
	struct look *l = arg;

	guest_leave(&l->guest);
	table_leave(l->edge->table, l->to);
	free(l);
}

static void go_through(struct edge *e, struct request *rq, const struct place *p,
		       struct table_sandbox *s)
{
	struct slice host = http_header(rq->head, "host");
	auto_buf path = BUF_INIT(128);
	char name[ID_TEXT_LEN + 1];
	struct look *l = calloc(1, sizeof(*l));
	unsigned port = p->port ? p->port : s->app_port;
	struct proxy_conf conf = { .sandbox = name,
				   .target = p->target,
				   .done = on_left,
				   .arg = l,
				   .clean = { .cookie = cookie_name(e), .port = port } };
	int n;

	id_format(&p->sandbox, name);
	if (!l)
		n = -1;
	else if (p->port)
		n = snprintf(l->prefix, sizeof(l->prefix), "%s%s%s%u", paths, name, ports, port);
	else
		n = snprintf(l->prefix, sizeof(l->prefix), "%s%s%s", paths, name, app);
	if (n < 0 || n >= (int)sizeof(l->prefix) || host.n >= sizeof(l->host) ||
	    buf_printf(&path, "%s/box/%s", e->settings.run_dir, name) < 0) {
		free(l);
		request_refuse(rq, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	l->edge = e;
	l->to = s;
	memcpy(l->host, host.p, host.n);
	conf.path = path.data;
	conf.hold = &l->hold;
	conf.clean.prefix = p->by_host ? NULL : l->prefix;
	conf.clean.host = p->by_host ? l->host : NULL;
	conf.clean.scheme = e->previews.secure ? "https" : "http";
	/* a program that has both sends its JWT, which looks like anybody's */
	conf.clean.no_auth = e->jwks && http_header(rq->head, "cay-preview").p;
	table_enter(e->table, s);
	guest_enter(e, &l->guest, rq, s, cut_look);
	proxy_start(rq, &conf);
}

/* Somebody who may; rq->actor is who. */
static void show(struct edge *e, struct request *rq, const struct place *p)
{
	struct table_sandbox *s = table_sandbox(e->table, &p->sandbox);

	if (!s || !id_eq(&s->tenant, &rq->actor.tenant))
		request_refuse(rq, CAY_E_NOT_FOUND, "there is no such sandbox");
	else if (s->state != SB_RUNNING)
		request_refuse(rq, CAY_E_STATE, "the sandbox is not running");
	else if (s->busy >= LOOKS_MAX) {
		(void)request_header(rq, "Retry-After", "1");
		request_refuse(rq, CAY_E_RATE, "too many requests are in this sandbox");
	} else
		go_through(e, rq, p, s);
}

static void begin(struct request *rq, const struct place *p)
{
	rq->match = (struct op_match){ .op = &ops[p->port ? OP_PORT_PROXY : OP_PORT_APP],
				       .params = { p->sandbox },
				       .n_params = 1 };
}

/* Below a path of the API: by whatever the API takes. */
static void by_path(struct request *rq, void *arg)
{
	struct edge *e = arg;
	struct cay_err err = {};
	struct place p;

	(void)find_place(e, rq->head, &p);
	begin(rq, &p);
	if (gate_admit(rq, e, &err) < 0)
		request_fail(rq, &err);
	else
		show(e, rq, &p);
}

/* On a host of its own */

/* The token in the query: cut out of it, and the rest as it was. */
static bool cut_token(struct slice target, struct slice *ret_token, struct buf *rest)
{
	struct slice query = target, path = slice_cut(&query, '?');
	bool found = false, any = false;
	int r = buf_add(rest, path.p, path.n);

	while (query.p && r >= 0) {
		struct slice pair = slice_cut(&query, '&'), value = pair;

		if (slice_eq(slice_cut(&value, '='), SLICE(PREVIEW_PARAM))) {
			*ret_token = value.p ? value : SLICE("");
			found = true;
			continue;
		}
		r = buf_putc(rest, any ? '&' : '?');
		if (r >= 0)
			r = buf_add(rest, pair.p, pair.n);
		any = true;
	}
	return found && r >= 0;
}

/* For a token a cookie, and the same page without it: not in the history, not in what the
 * page sees of itself, not in a Referer. */
static void exchange(struct edge *e, struct request *rq, struct slice token,
		     const struct buf *target)
{
	const struct pass *by = rq->data;
	struct slice host = http_header(rq->head, "host");
	uint64_t now_ms = clk_wall_ns(e->clk) / NS_PER_MS;
	auto_buf url = BUF_INIT(URL_MAX), cookie = BUF_INIT(COOKIE_MAX);
	const char *secure = e->previews.secure ? "; Secure" : "";

	/* with its host: a path may begin with "//" and mean another one */
	if (buf_printf(&url, "%s://%.*s", e->previews.secure ? "https" : "http", (int)host.n,
		       host.p) < 0 ||
	    buf_add(&url, target->data, target->len) < 0 ||
	    buf_printf(&cookie, "%s=%.*s; Path=/; HttpOnly; SameSite=Lax; Max-Age=%llu%s",
		       cookie_name(e), (int)token.n, token.p,
		       (unsigned long long)((by->until_ms - now_ms) / 1000), secure) < 0 ||
	    request_header(rq, "Location", buf_str(&url)) < 0 ||
	    request_header(rq, "Set-Cookie", buf_str(&cookie)) < 0 ||
	    request_header(rq, "Cache-Control", "no-store") < 0 ||
	    request_header(rq, "Referrer-Policy", "no-referrer") < 0)
		request_refuse(rq, CAY_E_NO_MEMORY, "out of memory");
	else
		request_reply(rq, 303, NULL, NULL);
	if (cookie.data)
		explicit_bzero(cookie.data, cookie.len);
}

/* What says neither Origin nor Sec-Fetch-Site, as a picture in an old browser, may still say
 * which page it is in. */
static bool is_of_neighbour(const struct edge *e, struct slice referer, const struct place *p)
{
	struct slice rest = referer, host;
	struct id from;
	uint16_t port;

	(void)slice_cut(&rest, '/');
	(void)slice_cut(&rest, '/');
	host = slice_cut(&rest, '/');
	return host.n && preview_host(&e->previews, host, &from, &port) &&
	       !id_eq(&from, &p->sandbox);
}

/* Pages of other hosts ask with this one's cookie, if those are neighbours: all they may
 * is lead here.  Other ports of the same sandbox are the same program's. */
static bool is_foreign(const struct edge *e, const struct http_head *h, const struct place *p)
{
	struct slice origin = http_header(h, "origin"), site = http_header(h, "sec-fetch-site");
	bool leads = http_eq(http_header(h, "sec-fetch-mode"), "navigate") &&
		     http_eq(http_header(h, "sec-fetch-dest"), "document");

	if (!origin.p && !site.p)
		return is_of_neighbour(e, http_header(h, "referer"), p);
	if (origin.p) {
		struct slice host = origin, scheme = slice_cut(&host, ':');
		struct id from;
		uint16_t port;

		if (host.n < 3 || memcmp(host.p, "//", 2) != 0 ||
		    !http_eq(scheme, e->previews.secure ? "https" : "http"))
			return true;
		host.p += 2;
		host.n -= 2;
		return !preview_host(&e->previews, host, &from, &port) ||
		       !id_eq(&from, &p->sandbox);
	}
	return !http_eq(site, "none") && !http_eq(site, "same-origin") && !leads;
}

/* By a header, which no page of a stranger can set, or the cookie. */
static int find_viewer(struct edge *e, struct request *rq, const struct place *p, struct pass *by,
		       struct cay_err *err)
{
	struct slice token = http_header(rq->head, "cay-preview");
	size_t at = 0;
	int r;

	if (token.p)
		return who_previews(e, token, &p->sandbox, p->port, &rq->actor, by, err);
	r = cay_fail(err, CAY_E_UNAUTHENTICATED, "no preview");
	for (unsigned i = 0; i < COOKIE_TRIES; i++) {
		token = clean_cookie(rq->head, cookie_name(e), &at);
		if (!token.p)
			break;
		*err = (struct cay_err){};
		r = who_previews(e, token, &p->sandbox, p->port, &rq->actor, by, err);
		if (r >= 0)
			break;
	}
	if (r >= 0 && is_foreign(e, rq->head, p))
		return cay_fail(err, CAY_E_FORBIDDEN, "pages of that Origin may not ask");
	return r;
}

static void by_host(struct request *rq, void *arg)
{
	struct edge *e = arg;
	auto_buf rest = BUF_INIT(URL_MAX);
	struct pass *by = pool_take(&rq->pool, 1, sizeof(*by));
	struct slice token = {};
	struct cay_err err = {};
	struct place p;
	bool fresh;
	int r;

	(void)find_place(e, rq->head, &p);
	begin(rq, &p);
	if (!by) {
		request_refuse(rq, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	*by = (struct pass){ .until_ms = PUSH_NEVER };
	rq->data = by;
	rq->actor = (struct actor){ .scope = SCOPE_PUBLIC };
	fresh = cut_token(rq->head->target, &token, &rest);
	r = fresh ? who_previews(e, token, &p.sandbox, p.port, &rq->actor, by, &err)
		  : find_viewer(e, rq, &p, by, &err);
	if (r < 0 && err.code == CAY_E_FORBIDDEN)
		e->counts.now.refused[METRICS_ORIGIN]++;
	else
		r = gate_known(e, rq, r, &err);
	if (r >= 0 && fresh && !slice_eq(rq->head->method, SLICE("GET")) &&
	    !slice_eq(rq->head->method, SLICE("HEAD")))
		r = cay_fail(&err, CAY_E_INVALID, "the token of a preview is for a GET");
	if (r < 0)
		request_fail(rq, &err);
	else if (fresh)
		exchange(e, rq, token, &rest);
	else
		show(e, rq, &p);
}

request_fn *preview_find(struct request *rq, void *arg)
{
	struct place p;

	if (!find_place(arg, rq->head, &p))
		return NULL;
	return p.by_host ? by_host : by_path;
}
