/* SPDX-License-Identifier: Apache-2.0 */
#include "init/browser/tab.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "init/browser/browser-texts.h"
#include "ops/types.h"

#define WORLD "cay"
#define LIST_MAX DEVTOOLS_MESSAGE_MAX /* pages choose their addresses */
#define EXPRESSION_MAX MIB(1)
#define EVALUATE_TRIES 3
#define ATTACH_MS 8000

void tab_init(struct tab *t, struct arena *arena)
{
	*t = (struct tab){ .devtools = DEVTOOLS_INIT, .arena = arena };
	cdp_init(&t->cdp, &t->devtools);
}

void tab_fini(struct tab *t)
{
	cdp_fini(&t->cdp);
	devtools_fini(&t->devtools);
}

void tab_leave(struct tab *t)
{
	tab_fini(t);
	t->devtools = DEVTOOLS_INIT;
	cdp_init(&t->cdp, &t->devtools);
	t->id[0] = 0;
	t->world = 0;
	t->world_is_ready = t->loading = t->crashed = false;
}

void tab_note(struct tab *t, const char *fmt, ...)
{
	auto_buf text = BUF_INIT(KIB(4));
	const char *copy;
	va_list ap;
	int r;

	if (t->n_changes == TAB_CHANGES_MAX)
		return;
	va_start(ap, fmt);
	r = buf_vprintf(&text, fmt, ap);
	va_end(ap);
	copy = r < 0 ? NULL : arena_strndup(t->arena, text.data, text.len);
	if (copy)
		t->changes[t->n_changes++] = copy;
}

/* A text of the browser's JSON, at most max bytes of it. */
static const char *text_member(const json_t *j, const char *name, size_t max, struct arena *arena)
{
	const char *s = json_string_value(json_object_get(j, name));
	size_t n = s ? strlen(s) : 0;

	return arena_strndup(arena, s ? s : "", n <= max ? n : utf8_whole_prefix_len(s, max));
}

bool tab_id_is_valid(const char *id)
{
	size_t n = strlen(id);

	for (size_t i = 0; i < n; i++)
		if (!ascii_is_alnum(id[i]) && id[i] != '-')
			return false;
	return n && n <= TAB_ID_MAX;
}

/* Chromium writes titles as HTML has them. */
static void html_unescape(char *text)
{
	static const struct {
		const char *entity;
		char c;
	} entities[] = {
		{ "&amp;", '&' },  { "&lt;", '<' },   { "&gt;", '>' },
		{ "&quot;", '"' }, { "&#39;", '\'' },
	};
	char *to = text;

	while (*text) {
		size_t i = 0;

		while (i < ARRAY_SIZE(entities) &&
		       strncmp(text, entities[i].entity, strlen(entities[i].entity)) != 0)
			i++;
		*to++ = i < ARRAY_SIZE(entities) ? entities[i].c : *text;
		text += i < ARRAY_SIZE(entities) ? strlen(entities[i].entity) : 1;
	}
	*to = 0;
}

int tabs_read(struct devtools *d, struct arena *arena, struct field_list *ret, struct cay_err *err)
{
	auto_buf body = BUF_INIT(LIST_MAX);
	auto_json list = NULL;
	struct browser_tab *rows;
	const json_t *j;
	size_t i;
	int r = devtools_fetch(d, "GET", "/json/list", &body, err);

	if (r >= 0)
		r = cdp_parse(body.data, body.len, &list, err);
	if (r < 0)
		return r;
	rows = arena_alloc(arena, TABS_MAX, sizeof(*rows));
	if (!rows)
		return cay_no_memory(err);
	*ret = (struct field_list){ .v = rows };
	json_array_foreach(list, i, j)
	{
		struct browser_tab *row = &rows[ret->n];

		if (ret->n == TABS_MAX || !json_text_eq(json_object_get(j, "type"), "page"))
			continue;
		*row = (struct browser_tab){
			.id = text_member(j, "id", TAB_ID_MAX, arena),
			.title = text_member(j, "title", BROWSER_TITLE_MAX, arena),
			.url = text_member(j, "url", BROWSER_URL_MAX, arena),
			.active = ret->n == 0,
		};
		if (!row->id || !row->title || !row->url)
			return cay_no_memory(err);
		html_unescape((char *)(uintptr_t)row->title);
		ret->n += tab_id_is_valid(row->id);
	}
	return 0;
}

/* The id of a tab is that of its main frame, whatever page it shows. */
static bool tab_is_main_frame(const struct tab *t, const json_t *params)
{
	return json_text_eq(json_object_get(params, "frameId"), t->id);
}

static int on_context_created(void *arg, const json_t *params, struct cay_err *)
{
	struct tab *t = arg;
	const json_t *context = json_object_get(params, "context");
	json_int_t id = json_integer_value(json_object_get(context, "id"));

	if (!json_text_eq(json_object_get(context, "name"), WORLD) ||
	    !tab_is_main_frame(t, json_object_get(context, "auxData")))
		return 0;
	/* two requests at once may have made one each: all use the first */
	if (!t->world || id < t->world) {
		t->world = id;
		t->world_is_ready = false;
	}
	return 0;
}

static void tab_forget_world(struct tab *t)
{
	t->world = 0;
	t->world_is_ready = false;
}

static int on_context_destroyed(void *arg, const json_t *params, struct cay_err *)
{
	struct tab *t = arg;

	if (json_integer_value(json_object_get(params, "executionContextId")) == t->world)
		tab_forget_world(t);
	return 0;
}

static int on_contexts_cleared(void *arg, const json_t *, struct cay_err *)
{
	struct tab *t = arg;

	tab_forget_world(t);
	return 0;
}

static int on_loading(void *arg, const json_t *params, struct cay_err *)
{
	struct tab *t = arg;

	if (tab_is_main_frame(t, params))
		t->loading = true;
	return 0;
}

static int on_loaded(void *arg, const json_t *params, struct cay_err *)
{
	struct tab *t = arg;

	if (tab_is_main_frame(t, params))
		t->loading = false;
	return 0;
}

/* In quotes and on one line: it is the page that says it. */
static void tab_note_said(struct tab *t, const char *what, struct slice said)
{
	char text[TAB_TEXT_MAX + 1] = {};

	for (size_t i = 0; i < said.n && i < TAB_TEXT_MAX; i++)
		text[i] = (unsigned char)said.p[i] < ' ' || said.p[i] == '"' ? ' ' : said.p[i];
	tab_note(t, "%s: \"%s\"", what, text);
}

/* A page with an open dialog does nothing else.  Leaving the page is allowed, any other question
 * refused. */
static int on_dialog(void *arg, const json_t *params, struct cay_err *err)
{
	struct tab *t = arg;
	const char *said = json_string_value(json_object_get(params, "message"));
	bool leaves = json_text_eq(json_object_get(params, "type"), "beforeunload");
	size_t n = said ? strlen(said) : 0;
	struct jw w;

	if (!t->may_change) {
		int r = cay_fail(err, CAY_E_STATE, "the page shows a dialog");

		cay_err_hint(err, "press Return on the screen, or open another tab (tab_new)");
		return r;
	}
	n = n <= TAB_TEXT_MAX ? n : utf8_whole_prefix_len(said, TAB_TEXT_MAX);
	if (!leaves)
		tab_note_said(t, "dismissed a dialog of the page", (struct slice){ said, n });
	cdp_begin(&t->cdp, &w, "Page.handleJavaScriptDialog");
	jw_bool(&w, "accept", leaves);
	return cdp_send(&t->cdp, &w, err) < 0 ? -EIO : 0;
}

static int on_response(void *arg, const json_t *params, struct cay_err *)
{
	struct tab *t = arg;
	const json_t *response = json_object_get(params, "response");
	json_int_t status = json_integer_value(json_object_get(response, "status"));

	if (tab_is_main_frame(t, params) &&
	    json_text_eq(json_object_get(params, "type"), "Document") && status >= 0 &&
	    status <= 999)
		t->status = (unsigned)status;
	return 0;
}

static int on_crashed(void *arg, const json_t *, struct cay_err *err)
{
	struct tab *t = arg;
	int r;

	t->crashed = true;
	if (t->attaching)
		return 0;
	r = cay_fail(err, CAY_E_UNAVAILABLE, "the page crashed");
	cay_err_hint(err, "its tab is empty now: navigate again");
	cay_err_set_blame(err, BLAME_TASK);
	return r;
}

static const struct cdp_event tab_events[] = {
	{ "Runtime.executionContextCreated", on_context_created },
	{ "Runtime.executionContextDestroyed", on_context_destroyed },
	{ "Runtime.executionContextsCleared", on_contexts_cleared },
	{ "Page.frameStartedLoading", on_loading },
	{ "Page.frameStoppedLoading", on_loaded },
	{ "Page.javascriptDialogOpening", on_dialog },
	{ "Network.responseReceived", on_response },
	{ "Inspector.targetCrashed", on_crashed },
	{},
};

/* A call without parameters whose result is of no use. */
static int tab_call(struct tab *t, const char *method, struct cay_err *err)
{
	struct jw w;
	int r;

	cdp_begin(&t->cdp, &w, method);
	r = cdp_call(&t->cdp, &w, NULL, err);
	return r == -EREMOTEIO ? cdp_fail_refused(&t->cdp, err, method) : r;
}

static int tab_connect(struct tab *t, struct cay_err *err)
{
	static const char key[] =
		"Y2F5LWluaXQtYnJvd3Nlcg=="; /* 16 bytes: their value is of no use */
	char accept[DEVTOOLS_ACCEPT_MAX], path[DEVTOOLS_PATH_MAX];
	int r = snprintf(path, sizeof(path), "/devtools/page/%s", t->id);

	assert(r > 0 && (size_t)r < sizeof(path));
	r = devtools_upgrade(&t->devtools, path, slice_of(key), accept, err);
	t->cdp.events = tab_events;
	t->cdp.arg = t;
	return r;
}

static int tab_fail_state(struct cay_err *err, const char *what, const char *hint)
{
	int r = cay_fail(err, CAY_E_STATE, "%s", what);

	cay_err_hint(err, "%s", hint);
	return r;
}

/* Nothing answers for a page that has crashed; the browser itself can navigate its tab. */
static int tab_replace_crashed(struct tab *t, struct cay_err *err)
{
	struct jw w;
	int r = tab_call(t, "Inspector.enable", err);

	if (r < 0 || !t->crashed)
		return r;
	if (!t->may_change)
		return tab_fail_state(err, "the page has crashed",
				      "open it again with the action navigate");
	cdp_begin(&t->cdp, &w, "Page.navigate");
	jw_str(&w, "url", "about:blank");
	r = cdp_call(&t->cdp, &w, NULL, err);
	t->crashed = false;
	tab_note(t, "the page of this tab had crashed");
	return r == -EREMOTEIO ? cdp_fail_refused(&t->cdp, err, "a crashed page") : r;
}

/* A page that is busy without end answers nothing. */
static int tab_begin(struct tab *t, struct cay_err *err)
{
	uint64_t deadline_ns = t->devtools.deadline_ns;
	struct cay_err why = {};
	int r;

	devtools_set_deadline(&t->devtools, ATTACH_MS);
	if (t->devtools.deadline_ns > deadline_ns)
		t->devtools.deadline_ns = deadline_ns;
	t->attaching = true;
	r = tab_replace_crashed(t, &why);
	if (r >= 0)
		r = tab_call(t, "Page.enable", &why);
	/* without the focus of the window a page gets no events of focus */
	if (r >= 0 && t->may_change)
		r = tab_call(t, "Page.bringToFront", &why);
	if (r >= 0)
		r = tab_call(t, "Runtime.enable", &why);
	t->attaching = false;
	t->devtools.deadline_ns = deadline_ns;
	if (r >= 0)
		return 0;
	if (why.code != CAY_E_TIMEOUT) {
		*err = why;
		return r;
	}
	r = cay_fail(err, CAY_E_TIMEOUT, "the page does not respond within %d s", ATTACH_MS / 1000);
	cay_err_hint(err,
		     "it runs a script that does not end, or shows a dialog: go on in another "
		     "tab (tab_new), close this one (tab_close), or press Return on the screen");
	cay_err_set_blame(err, BLAME_TASK);
	return r;
}

int tab_attach(struct tab *t, const char *id, struct cay_err *err)
{
	struct field_list tabs = {};
	int r = 0;

	if (!id) {
		r = tabs_read(&t->devtools, t->arena, &tabs, err);
		if (r >= 0 && !tabs.n)
			r = tab_fail_state(err, "the browser has no tab",
					   "open one with the action tab_new");
		id = r >= 0 ? ((const struct browser_tab *)tabs.v)[0].id : NULL;
	} else if (!tab_id_is_valid(id)) {
		r = cay_fail_field(err, CAY_E_INVALID, "tab", "is not the id of a tab");
	}
	if (r < 0)
		return r;
	memcpy(t->id, id, strlen(id) + 1);
	r = tab_connect(t, err);
	return r < 0 ? r : tab_begin(t, err);
}

/* The words of an exception: its first line. */
static int tab_fail_exception(const json_t *details, struct cay_err *err)
{
	const json_t *exception = json_object_get(details, "exception");
	const char *said = json_string_value(json_object_get(exception, "description"));
	struct slice line;

	if (!said)
		said = json_string_value(json_object_get(exception, "value"));
	if (!said)
		said = json_string_value(json_object_get(details, "text"));
	line = slice_of(said ? said : "an exception");
	line = slice_cut(&line, '\n');
	return cay_fail(err, CAY_E_INVALID, "the script failed: %.*s",
			(int)utf8_whole_prefix_len(line.p, line.n < 200 ? line.n : 200), line.p);
}

/* context: a world, or 0 for the page's own. */
static int tab_evaluate_in(struct tab *t, int64_t context, const char *expression, json_t **ret,
			   struct cay_err *err)
{
	auto_json result = NULL;
	const json_t *thrown;
	struct jw w;
	int r;

	cdp_begin(&t->cdp, &w, "Runtime.evaluate");
	jw_str(&w, "expression", expression);
	if (context)
		jw_i64(&w, "contextId", context);
	jw_bool(&w, "returnByValue", true);
	jw_bool(&w, "awaitPromise", true);
	jw_bool(&w, "userGesture", t->may_change);
	if (!context)
		jw_bool(&w, "replMode", true);
	r = cdp_call(&t->cdp, &w, &result, err);
	if (r < 0)
		return r;
	thrown = json_object_get(result, "exceptionDetails");
	if (thrown)
		return tab_fail_exception(thrown, err);
	if (ret) {
		const json_t *remote = json_object_get(result, "result");
		json_t *value = json_object_get(remote, "value");

		/* NaN and the like, which JSON has not */
		*ret = json_incref(value ? value : json_object_get(remote, "unserializableValue"));
	}
	return 0;
}

/* The program of ours, in a world that it makes if the page has none. */
static int tab_prepare_world(struct tab *t, struct cay_err *err)
{
	auto_json result = NULL;
	auto_json there = NULL;
	struct jw w;
	int r = 0;

	if (t->world_is_ready)
		return 0;
	if (!t->world) {
		cdp_begin(&t->cdp, &w, "Page.createIsolatedWorld");
		jw_str(&w, "frameId", t->id);
		jw_str(&w, "worldName", WORLD);
		r = cdp_call(&t->cdp, &w, &result, err);
		if (r < 0)
			return r;
		t->world = json_integer_value(json_object_get(result, "executionContextId"));
	}
	r = tab_evaluate_in(t, t->world, "typeof cayPage", &there, err);
	if (r >= 0 && !json_text_eq(there, "object"))
		r = tab_evaluate_in(t, t->world, (const char *)browser_text_page, NULL, err);
	t->world_is_ready = r >= 0;
	return r;
}

int tab_evaluate(struct tab *t, const char *expression, json_t **ret, struct cay_err *err)
{
	int r = -EREMOTEIO;

	/* a page that navigates takes its world with it */
	for (unsigned i = 0; i < EVALUATE_TRIES && r == -EREMOTEIO; i++) {
		r = tab_prepare_world(t, err);
		if (r >= 0)
			r = tab_evaluate_in(t, t->world, expression, ret, err);
		if (r == -EREMOTEIO)
			tab_forget_world(t);
	}
	return r == -EREMOTEIO ? cdp_fail_refused(&t->cdp, err, "the page") : r;
}

int tab_run_script(struct tab *t, const char *script, json_t **ret, struct cay_err *err)
{
	int r = tab_evaluate_in(t, 0, script, ret, err);

	return r == -EREMOTEIO ? cdp_fail_refused(&t->cdp, err, "the script") : r;
}

int tab_ask_page(struct tab *t, const char *name, const char *one, const char *two, json_t **ret,
		 struct cay_err *err)
{
	auto_buf expression = BUF_INIT(EXPRESSION_MAX), list = BUF_INIT(EXPRESSION_MAX);
	struct jw w = jw_to(&list);

	jw_array_begin(&w, NULL);
	if (one)
		jw_str(&w, NULL, one);
	if (two)
		jw_str(&w, NULL, two);
	jw_end(&w);
	if (jw_finish(&w) < 0 || buf_printf(&expression, "cayPage.%s(...%s)", name, list.data) < 0)
		return cay_no_memory(err);
	return tab_evaluate(t, expression.data, ret, err);
}

int tab_settle(struct tab *t, uint64_t quiet_ms, uint64_t max_ms, struct cay_err *err)
{
	uint64_t begun = clk_boot_ns(&clk_system) / NS_PER_MS, now = begun;
	int r = 0;

	while (r >= 0 && !devtools_is_late(&t->devtools) &&
	       now - begun < (t->loading ? max_ms : quiet_ms)) {
		uint64_t left = (t->loading ? max_ms : quiet_ms) - (now - begun);

		r = cdp_wait_event(&t->cdp, left, err);
		now = clk_boot_ns(&clk_system) / NS_PER_MS;
	}
	return r;
}
