/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>

#include "init/browser/browser.h"
#include "init/core/handlers.h"
#include "init/service/service.h"
#include "text/base64.h"
#include "wire/hello.h"

#define SERVICE "browser"
#define READ_MS 30000
#define ARENA_MAX MIB(64)
#define PNG_IN_JSON_MAX (MIB(6) - KIB(64))
#define SHOT_MAX MIB(16)
#define CLIENTS_MAX 16 /* of DevTools, so that children remain for other operations */
#define CONNECT_MS 30000
#define CLOSE_MAX_MS 10000
#define CLOSE_LOOK_MS 20
#define DESCRIBE_MS 6000 /* for what the page shows then, also when time was over before */
#define BROWSER_GRACE_MS 15000

static struct service *browser_service(struct init *in)
{
	return service_find(in, SLICE(SERVICE));
}

static bool browser_is_starting(const struct init *in)
{
	for (const struct service *s = in->services.first; s; s = s->next)
		if (str_eq(s->config.name, SERVICE))
			return s->state == SERVICE_STARTING || s->state == SERVICE_RUNNING ||
			       s->state == SERVICE_BACKOFF;
	return false;
}

/* For operations that may change something: an image without the service has the browser that its
 * programs start. */
static void browser_start(struct init *in)
{
	struct service *s = browser_service(in);
	struct cay_err err = {};

	if (s && service_is_idle(s))
		(void)service_start(s, &err); /* the child finds out */
}

static int browser_open(struct child_op *w, struct tab *t, uint64_t ms, struct cay_err *err)
{
	int r = devtools_open(&t->devtools, browser_is_starting(child_op_init(w)), err);

	devtools_set_deadline(&t->devtools, ms);
	return r;
}

static int browser_open_page(struct child_op *w, struct tab *t, const char *tab,
			     struct cay_err *err)
{
	int r = browser_open(w, t, READ_MS, err);

	return r < 0 ? r : tab_attach(t, tab, err);
}

/* The version of the browser, and where DevTools listens. */
static int browser_describe(struct devtools *d, struct arena *arena, struct browser_info *ret,
			    struct cay_err *err)
{
	auto_buf body = BUF_INIT(KIB(16));
	auto_json j = NULL;
	const char *version;
	int r = devtools_fetch(d, "GET", "/json/version", &body, err);

	if (r >= 0)
		r = cdp_parse(body.data, body.len, &j, err);
	if (r < 0)
		return r;
	version = json_string_value(json_object_get(j, "Browser"));
	if (!version || strlen(version) > 64)
		return devtools_fail(err, "sent an invalid version");
	r = tabs_read(d, arena, &ret->tabs, err);
	if (r < 0)
		return r;
	ret->running = ret->has_port = true;
	ret->port = d->port;
	ret->version = arena_strndup(arena, version, strlen(version));
	return ret->version ? 0 : cay_no_memory(err);
}

static void child_browser_info(struct child_op *w, struct request *rq)
{
	auto_devtools d = DEVTOOLS_INIT;
	struct browser_info reply = {};
	struct cay_err err = {};
	int r = devtools_open(&d, browser_is_starting(child_op_init(w)), &err);

	devtools_set_deadline(&d, READ_MS);
	if (r >= 0)
		(void)!browser_describe(&d, &rq->arena, &reply, &err);
	else if (err.code == CAY_E_STATE)
		err = (struct cay_err){}; /* none runs: that is an answer */
	child_op_reply_json(w, &browser_info_table, &reply, &err);
}

static void child_browser_snapshot(struct child_op *w, struct request *rq)
{
	const struct browser_snapshot_query *q = rq->query;
	auto_arena arena = ARENA_INIT(ARENA_MAX);
	struct browser_snapshot reply = {};
	struct cay_err err = {};
	auto_tab t;

	tab_init(&t, &arena);
	if (q->ref && !browser_ref_is_valid(q->ref))
		(void)cay_fail_field(&err, CAY_E_INVALID, "ref",
				     "is not a reference of a snapshot, such as ref_4");
	else if (browser_open_page(w, &t, q->tab, &err) >= 0)
		(void)!browser_read_page(&t, q->filter, q->ref, q->max_chars, &reply, &err);
	child_op_reply_json(w, &browser_snapshot_table, &reply, &err);
}

static void child_browser_shot(struct child_op *w, struct request *rq)
{
	const struct browser_shot_query *q = rq->query;
	auto_arena arena = ARENA_INIT(ARENA_MAX);
	auto_buf png = BUF_INIT(SHOT_MAX);
	struct cay_err err = {};
	struct slice text;
	size_t n = 0;
	auto_tab t;
	int r;

	tab_init(&t, &arena);
	r = browser_shot_check(q, &err);
	if (r >= 0)
		r = browser_open_page(w, &t, q->tab, &err);
	if (r >= 0)
		r = q->format == BROWSER_PDF ? browser_print(&t, &text, &err)
					     : browser_take_picture(&t, q, &text, &err);
	if (r >= 0 && (buf_reserve(&png, BASE64_BYTES(text.n) + 1) < 0 ||
		       base64_decode(text.p, text.n, (uint8_t *)png.data, &n) < 0))
		r = devtools_fail(&err, "sent an invalid picture or PDF");
	if (r < 0)
		child_op_fail(w, &err);
	else if (child_op_start_stream(w, 200,
				       q->format == BROWSER_PDF ? "application/pdf" : "image/png",
				       n) >= 0 &&
		 child_op_write(w, png.data, n) >= 0)
		child_op_end_stream(w);
}

static int browser_attach(struct browser_hand *h, struct cay_err *err)
{
	int r = h->attached ? 0 : tab_attach(h->tab, h->id, err);

	h->attached = r >= 0;
	return r;
}

/* Go on in another tab, by a new connection to the browser.  id: NULL, or in the arena of the tab.
 */
static int browser_change_tab(struct browser_hand *h, const char *id, struct cay_err *err)
{
	uint64_t deadline_ns = h->tab->devtools.deadline_ns;
	int r;

	tab_leave(h->tab);
	h->attached = false;
	h->id = id;
	r = devtools_open(&h->tab->devtools, false, err);
	h->tab->devtools.deadline_ns = deadline_ns;
	return r;
}

/* A connection for one request of HTTP, beside the WebSocket. */
static int browser_fetch(const struct tab *t, const char *method, const char *path,
			 struct buf *body, struct cay_err *err)
{
	auto_devtools d = DEVTOOLS_INIT;
	int r = devtools_open(&d, false, err);

	d.deadline_ns = t->devtools.deadline_ns;
	return r < 0 ? r : devtools_fetch(&d, method, path, body, err);
}

static int browser_open_tab(struct browser_hand *h, const struct browser_action *a,
			    struct browser_result *ret, struct cay_err *err)
{
	auto_buf body = BUF_INIT(KIB(64));
	auto_json j = NULL;
	const char *id = NULL;
	int r = browser_fetch(h->tab, "PUT", "/json/new", &body, err);

	if (r >= 0)
		r = cdp_parse(body.data, body.len, &j, err);
	if (r >= 0)
		id = json_string_value(json_object_get(j, "id"));
	id = id ? arena_strndup(h->tab->arena, id, strlen(id)) : NULL;
	if (r >= 0)
		r = id ? browser_change_tab(h, id, err) : devtools_fail(err, "opened no tab");
	if (r >= 0)
		r = browser_attach(h, err);
	if (r < 0 || !a->url)
		return r;
	return browser_do(h, &(struct browser_action){ .type = BROWSER_NAVIGATE, .url = a->url },
			  ret, err);
}

static int browser_read_tabs(const struct tab *t, struct arena *arena, struct field_list *ret,
			     struct cay_err *err)
{
	auto_devtools d = DEVTOOLS_INIT;
	int r = devtools_open(&d, false, err);

	d.deadline_ns = t->devtools.deadline_ns;
	return r < 0 ? r : tabs_read(&d, arena, ret, err);
}

/* A tab that is closed is listed for a moment more. */
static int browser_await_close(const struct tab *t, const char *id, struct cay_err *err)
{
	for (unsigned waited = 0; waited < CLOSE_MAX_MS; waited += CLOSE_LOOK_MS) {
		auto_arena arena = ARENA_INIT(MIB(1));
		struct field_list tabs = {};
		const struct browser_tab *rows;
		bool there = false;
		int r = browser_read_tabs(t, &arena, &tabs, err);

		if (r < 0)
			return r;
		rows = tabs.v;
		for (size_t i = 0; i < tabs.n; i++)
			there |= str_eq(rows[i].id, id);
		if (!there)
			return 0;
		(void)poll(NULL, 0, CLOSE_LOOK_MS);
	}
	return cay_fail(err, CAY_E_TIMEOUT, "the tab did not close in time");
}

/* The last tab goes on as an empty one: without any, Chromium ends. */
static int browser_close_tab(struct browser_hand *h, struct cay_err *err)
{
	auto_buf path = BUF_INIT(KIB(1));
	auto_arena arena = ARENA_INIT(MIB(1));
	struct field_list tabs = {};
	const char *id = h->attached ? h->tab->id : h->id;
	int r = browser_read_tabs(h->tab, &arena, &tabs, id ? &(struct cay_err){} : err);

	if (r < 0 && !id)
		return r;
	if (r < 0 || tabs.n <= 1)
		r = browser_fetch(h->tab, "PUT", "/json/new", NULL, err);
	if (r < 0)
		return r;
	if (!id && !tabs.n)
		return cay_fail(err, CAY_E_STATE, "the browser has no tab");
	id = id ? id : ((const struct browser_tab *)tabs.v)[0].id;
	id = arena_strndup(&arena, id, strlen(id));
	if (!id || buf_printf(&path, "/json/close/%s", id) < 0)
		return cay_no_memory(err);
	r = browser_fetch(h->tab, "GET", path.data, NULL, err);
	if (r >= 0)
		r = browser_await_close(h->tab, id, err);
	return r < 0 ? r : browser_change_tab(h, NULL, err);
}

static int browser_do_any(struct browser_hand *h, const struct browser_action *a,
			  struct browser_result *ret, struct cay_err *err)
{
	int r;

	if (a->type == BROWSER_TAB_NEW)
		return browser_open_tab(h, a, ret, err);
	if (a->type == BROWSER_TAB_CLOSE)
		return browser_close_tab(h, err);
	r = browser_attach(h, err);
	return r < 0 ? r : browser_do(h, a, ret, err);
}

/* Until one fails, whose error becomes part of the reply: what was done before is done. */
static int browser_do_all(struct browser_hand *h, const struct browser_act *q,
			  struct browser_done *ret, struct cay_err *err)
{
	const struct browser_action *v = q->actions.v;
	struct browser_result *rows = arena_alloc(h->tab->arena, q->actions.n + 1, sizeof(*rows));
	struct cay_err why = {};

	if (!rows)
		return cay_no_memory(err);
	ret->results = (struct field_list){ .v = rows };
	while (ret->done < q->actions.n) {
		auto_buf field = BUF_INIT(CAY_ERR_FIELD_MAX + 32), text = BUF_INIT(KIB(1));

		rows[ret->done] = (struct browser_result){};
		if (browser_do_any(h, &v[ret->done], &rows[ret->done], &why) >= 0) {
			ret->results.n = ++ret->done;
			child_op_report_progress(h->op);
			continue;
		}
		if (!ret->done && (!h->attached || why.code == CAY_E_UNAVAILABLE ||
				   why.code == CAY_E_NO_MEMORY)) {
			*err = why;
			return -EIO;
		}
		if (buf_printf(&field, "actions[%zu]", (size_t)ret->done) < 0)
			return cay_no_memory(err);
		if (buf_printf(&text, "%s%s%s", why.msg, why.hint[0] ? "; " : "", why.hint) < 0)
			return cay_no_memory(err);
		ret->error = arena_strndup(h->tab->arena, text.data, text.len);
		ret->field = arena_strndup(h->tab->arena, field.data, field.len);
		return ret->error && ret->field ? 0 : cay_no_memory(err);
	}
	return 0;
}

/* What the page shows then, as far as asked. */
static int browser_read_after(struct browser_hand *h, const struct browser_act *q,
			      struct browser_done *ret, struct cay_err *err)
{
	struct tab *t = h->tab;
	struct slice png;
	int r = browser_attach(h, err);

	if (r >= 0)
		r = browser_read_page(t, q->snapshot, NULL, q->max_chars, &ret->page, err);
	if (r >= 0 && q->screenshot == AFTER_SHOT) {
		r = browser_take_picture(t, NULL, &png, err);
		if (r >= 0 && png.n > PNG_IN_JSON_MAX)
			r = cay_fail(err, CAY_E_TOO_LARGE,
				     "the picture is too large for this reply; get it by "
				     "browser.shot");
		ret->png = r >= 0 ? png.p : NULL;
	}
	return r < 0 ? r : browser_read_tabs(t, t->arena, &ret->tabs, err);
}

/* Where actions were done, or were tried, a page that cannot be read does not hide it. */
static void browser_describe_after(struct browser_hand *h, const struct browser_act *q,
				   struct browser_done *ret, struct cay_err *err)
{
	struct tab *t = h->tab;
	struct cay_err why = {};

	devtools_set_deadline(&t->devtools, DESCRIBE_MS);
	if (browser_read_after(h, q, ret, &why) < 0 && !ret->done && !ret->error)
		*err = why;
	else if (why.code)
		tab_note(t, "the page cannot be described: %s", why.msg);
	ret->changes = (struct field_texts){ t->changes, t->n_changes };
	ret->has_changes = t->n_changes;
}

static void child_browser_act(struct child_op *w, struct request *rq)
{
	const struct browser_act *q = rq->body;
	auto_arena arena = ARENA_INIT(ARENA_MAX);
	struct browser_done reply = {};
	struct cay_err err = {};
	auto_tab t;
	struct browser_hand h = { .tab = &t, .op = w, .id = q->tab };
	int r = browser_actions_check(q, &err);

	tab_init(&t, &arena);
	if (r >= 0)
		r = browser_open(w, &t, q->timeout_ms, &err);
	t.may_change = true;
	if (r >= 0)
		r = browser_do_all(&h, q, &reply, &err);
	if (r >= 0)
		browser_describe_after(&h, q, &reply, &err);
	child_op_reply_json(w, &browser_done_table, &reply, &err);
}

/* Programs that drive browsers by themselves: their WebSocket becomes one of Chromium's. */
static void child_browser_connect(struct child_op *w, struct request *rq)
{
	struct slice key = http_header_find(rq->head, "sec-websocket-key");
	char accept[DEVTOOLS_ACCEPT_MAX];
	auto_devtools d = DEVTOOLS_INIT;
	struct cay_err err = {};
	int r = devtools_open(&d, browser_is_starting(child_op_init(w)), &err);

	devtools_set_deadline(&d, READ_MS);
	if (r >= 0)
		r = devtools_upgrade(&d, d.browser_path, key, accept, &err);
	if (r >= 0 && d.received.len)
		r = devtools_fail(&err, "sent too much");
	if (r >= 0)
		r = child_op_add_header(w, "Sec-WebSocket-Accept", accept);
	if (r < 0)
		child_op_fail(w, &err);
	else
		child_op_join(w, "websocket", d.in);
}

void op_browser_info(struct request *rq, void *arg)
{
	child_op_start(arg, rq, child_browser_info, READ_MS);
}

void op_browser_snapshot(struct request *rq, void *arg)
{
	child_op_start(arg, rq, child_browser_snapshot, READ_MS);
}

void op_browser_shot(struct request *rq, void *arg)
{
	child_op_start(arg, rq, child_browser_shot, READ_MS);
}

void op_browser_act(struct request *rq, void *arg)
{
	const struct browser_act *q = rq->body;

	browser_start(arg);
	child_op_start(arg, rq, child_browser_act,
		       q->timeout_ms + DEVTOOLS_WAIT_MS + BROWSER_GRACE_MS);
}

void op_browser_cdp(struct request *rq, void *arg)
{
	struct init *in = arg;

	if (!http_equals_nocase(rq->head->upgrade, "websocket")) {
		(void)request_add_reply_header(rq, "Upgrade", "websocket");
		request_refuse(rq, CAY_E_UPGRADE, "this endpoint needs 'Upgrade: websocket'");
	} else if (child_op_count(in, child_browser_connect) >= CLIENTS_MAX) {
		request_refuse(rq, CAY_E_LIMIT, "too many programs are connected to this browser");
	} else {
		browser_start(in);
		child_op_start(in, rq, child_browser_connect, CONNECT_MS);
	}
}
