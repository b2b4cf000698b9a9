/* SPDX-License-Identifier: Apache-2.0 */
/* Actions in a tab: where they happen, and what a page says of them */
#include <inttypes.h>
#include <math.h>

#include "base/clock.h"
#include "init/browser/browser.h"

#define QUIET_MS 100
#define AFTER_MAX_MS 10000 /* for a page that an action began to load */
#define LOAD_MAX_MS 30000
#define LOOK_MS 100 /* between looks for a text */
#define COORDINATE_MAX 1e6
#define PICTURE_SIDE_MAX 16384

/* A number that is to be told: not negative, and one that JSON's readers hold. */
static uint64_t member_count(const json_t *j, const char *name)
{
	double v = json_number_value(json_object_get(j, name));

	return isfinite(v) && v >= 0 && v < (double)INT32_MAX ? (uint64_t)v : 0;
}

static int fail_stale(struct cay_err *err, const char *ref)
{
	if (strncmp(ref, "css:", 4) == 0)
		return cay_fail(err, CAY_E_NOT_FOUND, "no element matches the selector %.100s",
				ref + 4);
	return cay_fail(err, CAY_E_NOT_FOUND,
			"%.32s is not in the page: it has changed, take a new snapshot", ref);
}

/* What the page says of an element instead of what was asked. */
static int page_check_answer(const json_t *said, const char *ref, struct cay_err *err)
{
	const char *covered = json_string_value(json_object_get(said, "covered"));
	const char *error = json_string_value(json_object_get(said, "error"));

	if (json_is_true(json_object_get(said, "stale")))
		return fail_stale(err, ref);
	if (strncmp(ref, "css:", 4) == 0)
		ref += 4;
	if (json_is_true(json_object_get(said, "hidden")))
		return cay_fail(err, CAY_E_INVALID,
				"%.100s is not visible, so the mouse cannot reach it", ref);
	if (covered)
		return cay_fail(err, CAY_E_INVALID, "%.100s is covered by %.120s", ref, covered);
	if (error)
		return cay_fail(err, CAY_E_INVALID, "%.60s: %.180s", ref, error);
	return 0;
}

static bool coordinate_is_valid(double v)
{
	return isfinite(v) && v >= -COORDINATE_MAX && v <= COORDINATE_MAX;
}

/* The element of an action, as page.js takes it; NULL: it has none. */
static int browser_target(struct browser_hand *h, const struct browser_action *a, const char **ret,
			  struct cay_err *err)
{
	auto_buf text = BUF_INIT(KIB(8));

	*ret = a->ref;
	if (!a->selector)
		return 0;
	if (buf_printf(&text, "css:%s", a->selector) < 0)
		return cay_no_memory(err);
	*ret = arena_strndup(h->tab->arena, text.data, text.len);
	return *ret ? 0 : cay_no_memory(err);
}

/* still: without scrolling. */
static int browser_find_place(struct tab *t, const char *ref, bool still, uint64_t x, uint64_t y,
			      struct browser_place *ret, struct cay_err *err)
{
	auto_json said = NULL;
	int r;

	*ret = (struct browser_place){ (double)x, (double)y };
	if (!ref)
		return 0;
	r = tab_ask_page(t, "locate", ref, still ? "still" : NULL, &said, err);
	if (r >= 0)
		r = page_check_answer(said, ref, err);
	if (r < 0)
		return r;
	*ret = (struct browser_place){ json_number_value(json_object_get(said, "x")),
				       json_number_value(json_object_get(said, "y")) };
	if (!coordinate_is_valid(ret->x) || !coordinate_is_valid(ret->y))
		return devtools_fail(err, "sent invalid coordinates");
	return 0;
}

static int browser_navigate(struct browser_hand *h, const char *url, struct browser_result *ret,
			    struct cay_err *err)
{
	struct tab *t = h->tab;
	auto_json result = NULL;
	const char *failed;
	struct jw w;
	int r;

	cdp_begin(&t->cdp, &w, "Network.enable");
	r = cdp_call(&t->cdp, &w, NULL, err);
	if (r < 0 && r != -EREMOTEIO)
		return r;
	t->status = 0;
	cdp_begin(&t->cdp, &w, "Page.navigate");
	jw_str(&w, "url", url);
	r = cdp_call(&t->cdp, &w, &result, err);
	if (r == -EREMOTEIO)
		return cdp_fail_refused(&t->cdp, err, "the address");
	failed = r >= 0 ? json_string_value(json_object_get(result, "errorText")) : NULL;
	if (failed) {
		r = cay_fail(err, CAY_E_INVALID, "the page did not load: %.80s", failed);
		cay_err_hint(err, "if the name is right, the sandbox's egress policy may not allow "
				  "it: see `cay egress show SANDBOX`");
		return r;
	}
	if (r >= 0)
		r = tab_settle(t, QUIET_MS, LOAD_MAX_MS, err);
	if (r < 0)
		return r;
	if (t->loading)
		tab_note(t, "the page is still loading");
	ret->status = t->status;
	ret->has_status = t->status;
	cdp_begin(&t->cdp, &w, "Network.disable");
	return cdp_send(&t->cdp, &w, err) < 0 ? -EIO : 0;
}

/* By one entry of the history. */
static int browser_go(struct browser_hand *h, int by, struct cay_err *err)
{
	struct tab *t = h->tab;
	auto_json history = NULL;
	const json_t *entry;
	json_int_t now;
	struct jw w;
	int r;

	cdp_begin(&t->cdp, &w, "Page.getNavigationHistory");
	r = cdp_call(&t->cdp, &w, &history, err);
	now = r >= 0 ? json_integer_value(json_object_get(history, "currentIndex")) + by : -1;
	entry = now >= 0 ? json_array_get(json_object_get(history, "entries"), (size_t)now) : NULL;
	if (r >= 0 && !entry)
		return cay_fail(err, CAY_E_STATE, "the tab has no page %s this one",
				by < 0 ? "before" : "after");
	if (r >= 0) {
		cdp_begin(&t->cdp, &w, "Page.navigateToHistoryEntry");
		jw_i64(&w, "entryId", json_integer_value(json_object_get(entry, "id")));
		r = cdp_call(&t->cdp, &w, NULL, err);
	}
	return r == -EREMOTEIO ? cdp_fail_refused(&t->cdp, err, "the history") : r;
}

static int browser_reload(struct browser_hand *h, struct cay_err *err)
{
	struct cdp *c = &h->tab->cdp;
	struct jw w;
	int r;

	cdp_begin(c, &w, "Page.reload");
	r = cdp_call(c, &w, NULL, err);
	if (r >= 0)
		h->tab->loading = true;
	return r == -EREMOTEIO ? cdp_fail_refused(c, err, "the page") : r;
}

static int browser_fill(struct browser_hand *h, const struct browser_action *a, struct cay_err *err)
{
	auto_json said = NULL;
	const char *target;
	int r = browser_target(h, a, &target, err);

	if (r >= 0)
		r = tab_ask_page(h->tab, "fill", target, a->text, &said, err);
	if (r >= 0)
		r = page_check_answer(said, target, err);
	if (r < 0 || !json_is_true(json_object_get(said, "insert")))
		return r;
	if (a->text[0])
		return browser_insert(h, a->text, err);
	return browser_press(h, &(struct browser_action){ .keys = "Delete" }, err);
}

static int browser_upload(struct browser_hand *h, const struct browser_action *a,
			  struct cay_err *err)
{
	struct cdp *c = &h->tab->cdp;
	auto_buf name = BUF_INIT(KIB(8)), expression = BUF_INIT(KIB(8));
	auto_json found = NULL;
	const char *object;
	struct jw quoted = jw_to(&name), w;
	const char *target;
	int r = browser_target(h, a, &target, err);

	if (r >= 0)
		r = tab_evaluate(h->tab, "0", NULL, err); /* the world is there */
	if (r < 0)
		return r;
	jw_str(&quoted, NULL, target);
	if (jw_finish(&quoted) < 0 || buf_printf(&expression, "cayPage.element(%s)", name.data) < 0)
		return cay_no_memory(err);
	cdp_begin(c, &w, "Runtime.evaluate");
	jw_str(&w, "expression", expression.data);
	jw_i64(&w, "contextId", h->tab->world);
	r = cdp_call(c, &w, &found, err);
	object = r >= 0 ? json_string_value(
				  json_object_get(json_object_get(found, "result"), "objectId"))
			: NULL;
	if (r >= 0 && !object)
		return fail_stale(err, target);
	if (r >= 0) {
		cdp_begin(c, &w, "DOM.setFileInputFiles");
		jw_str(&w, "objectId", object);
		jw_array_begin(&w, "files");
		for (size_t i = 0; i < a->paths.n; i++)
			jw_str(&w, NULL, a->paths.v[i]);
		jw_end(&w);
		r = cdp_call(c, &w, NULL, err);
	}
	return r == -EREMOTEIO ? cdp_fail_refused(c, err, a->selector ? a->selector : a->ref) : r;
}

/* The value of a script as JSON; of undefined there is none. */
static int browser_evaluate(struct browser_hand *h, const char *script, struct browser_result *ret,
			    struct cay_err *err)
{
	auto_json value = NULL;
	char *text;
	int r = tab_run_script(h->tab, script, &value, err);

	if (r < 0 || !value)
		return r;
	text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
	h->value_bytes += text ? strlen(text) : 0;
	if (text && h->value_bytes > BROWSER_VALUE_MAX)
		r = cay_fail(err, CAY_E_TOO_LARGE,
			     "the values of the scripts have %zu bytes, more than %zu",
			     h->value_bytes, (size_t)BROWSER_VALUE_MAX);
	else if (!text || !(ret->value = arena_strndup(h->tab->arena, text, strlen(text))))
		r = cay_no_memory(err);
	free(text);
	return r;
}

/* For a time, or until a text is there. */
static int browser_wait(struct browser_hand *h, const struct browser_action *a, struct cay_err *err)
{
	uint64_t end = clk_boot_ns(&clk_system) + a->duration_ms * NS_PER_MS;
	const char *target, *what = a->text ? "hasText" : a->selector ? "isSeen" : NULL;
	int r = browser_target(h, a, &target, err);

	if (r < 0)
		return r;
	for (;;) {
		uint64_t now = clk_boot_ns(&clk_system);
		auto_json there = NULL;
		uint64_t left = end > now ? (end - now) / NS_PER_MS : 0;

		r = what ? tab_ask_page(h->tab, what, a->text ? a->text : target, NULL, &there, err)
			 : 0;
		if (r < 0 || json_is_true(there))
			return r;
		if (!left)
			return what ? cay_fail(err, CAY_E_TIMEOUT,
					       "the %s did not appear within %" PRIu64 " ms",
					       a->text ? "text" : "element", a->duration_ms)
				    : 0;
		r = cdp_wait_event(&h->tab->cdp, left < LOOK_MS ? left : LOOK_MS, err);
		if (r < 0)
			return r;
		if (h->op)
			child_op_report_progress(h->op);
	}
}

int browser_pause(struct browser_hand *h, uint64_t ms, struct cay_err *err)
{
	const struct browser_action wait = { .type = BROWSER_WAIT, .duration_ms = ms };

	return browser_wait(h, &wait, err);
}

static int browser_do_with_mouse(struct browser_hand *h, const struct browser_action *a,
				 struct cay_err *err)
{
	struct browser_place at, to;
	const char *target;
	int r = browser_target(h, a, &target, err);

	if (r >= 0)
		r = browser_find_place(h->tab, target, false, a->x, a->y, &at, err);
	if (r >= 0 && a->type == BROWSER_DRAG)
		r = browser_find_place(h->tab, a->to_ref, false, a->to_x, a->to_y, &to, err);
	if (r >= 0 && a->type == BROWSER_DRAG && a->to_ref) /* which may have scrolled */
		r = browser_find_place(h->tab, target, true, a->x, a->y, &at, err);
	if (r < 0)
		return r;
	switch (a->type) {
	case BROWSER_CLICK:
		return browser_click(h, a, at, err);
	case BROWSER_DRAG:
		return browser_drag(h, at, to, err);
	case BROWSER_SCROLL:
		return browser_scroll(h, a, at, err);
	default:
		return browser_hover(h, at, err);
	}
}

static int browser_do_alone(struct browser_hand *h, const struct browser_action *a,
			    struct browser_result *ret, struct cay_err *err)
{
	switch (a->type) {
	case BROWSER_NAVIGATE:
		return browser_navigate(h, a->url, ret, err);
	case BROWSER_BACK:
		return browser_go(h, -1, err);
	case BROWSER_FORWARD:
		return browser_go(h, 1, err);
	case BROWSER_RELOAD:
		return browser_reload(h, err);
	case BROWSER_FILL:
		return browser_fill(h, a, err);
	case BROWSER_TYPE:
		return browser_type(h, a->text, err);
	case BROWSER_PRESS:
		return browser_press(h, a, err);
	case BROWSER_UPLOAD:
		return browser_upload(h, a, err);
	case BROWSER_EVALUATE:
		return browser_evaluate(h, a->script, ret, err);
	case BROWSER_WAIT:
		return browser_wait(h, a, err);
	default:
		return browser_do_with_mouse(h, a, err);
	}
}

int browser_do(struct browser_hand *h, const struct browser_action *a, struct browser_result *ret,
	       struct cay_err *err)
{
	int r = browser_do_alone(h, a, ret, err);

	return r < 0 ? r : tab_settle(h->tab, QUIET_MS, AFTER_MAX_MS, err);
}

int browser_read_page(struct tab *t, unsigned filter, const char *ref, uint64_t max_chars,
		      struct browser_snapshot *ret, struct cay_err *err)
{
	static const char *const filters[] = { [BROWSER_VISIBLE] = "visible",
					       [BROWSER_ALL] = "all",
					       [BROWSER_INTERACTIVE] = "interactive",
					       [BROWSER_TEXT] = "text",
					       [BROWSER_MARKDOWN] = "markdown" };
	auto_buf expression = BUF_INIT(KIB(8)), options = BUF_INIT(KIB(4));
	struct jw w = jw_to(&options);
	auto_json said = NULL;
	const char *text, *title, *url;
	int r;

	jw_object_begin(&w, NULL);
	if (filter != BROWSER_NONE)
		jw_str(&w, "filter", filters[filter]);
	jw_u64(&w, "max", max_chars);
	if (ref)
		jw_str(&w, "ref", ref);
	jw_end(&w);
	if (jw_finish(&w) < 0 ||
	    buf_printf(&expression, "cayPage.%s(%s)", filter == BROWSER_NONE ? "view" : "snapshot",
		       options.data) < 0)
		return cay_no_memory(err);
	r = tab_evaluate(t, expression.data, &said, err);
	if (r >= 0)
		r = page_check_answer(said, ref ? ref : "", err);
	if (r < 0)
		return r;
	text = filter == BROWSER_NONE ? "" : json_string_value(json_object_get(said, "text"));
	title = json_string_value(json_object_get(said, "title"));
	url = json_string_value(json_object_get(said, "url"));
	if (!text || !title || !url || strlen(text) > 4 * BROWSER_CHARS_MAX ||
	    strlen(title) > 4 * BROWSER_TITLE_MAX || strlen(url) > 4 * BROWSER_URL_MAX)
		return devtools_fail(err, "sent an invalid snapshot");
	*ret = (struct browser_snapshot){
		.tab = t->id,
		.url = arena_strndup(t->arena, url, strlen(url)),
		.title = arena_strndup(t->arena, title, strlen(title)),
		.text = arena_strndup(t->arena, text, strlen(text)),
		.left = member_count(said, "left"),
		.width = member_count(said, "width"),
		.height = member_count(said, "height"),
		.scroll_y = member_count(said, "scroll_y"),
		.page_height = member_count(said, "page_height"),
	};
	return ret->url && ret->title && ret->text ? 0 : cay_no_memory(err);
}

static int browser_copy_data(struct tab *t, const json_t *result, struct slice *ret,
			     struct cay_err *err)
{
	const char *data = json_string_value(json_object_get(result, "data"));
	const char *copy = data ? arena_strndup(t->arena, data, strlen(data)) : NULL;

	if (!data)
		return devtools_fail(err, "sent no picture");
	if (!copy)
		return cay_no_memory(err);
	*ret = slice_of(copy);
	return 0;
}

/* What a picture shows, in pixels of the page. */
struct picture_clip {
	double x, y, width, height, scale;
};

/* The whole page, or the region of the view, enlarged to the view's size. */
static int picture_clip_find(struct tab *t, const struct browser_shot_query *q,
			     struct picture_clip *ret, struct cay_err *err)
{
	auto_json metrics = NULL;
	const json_t *page, *view;
	double wide, high;
	struct jw w;
	int r;

	cdp_begin(&t->cdp, &w, "Page.getLayoutMetrics");
	r = cdp_call(&t->cdp, &w, &metrics, err);
	if (r < 0)
		return r == -EREMOTEIO ? cdp_fail_refused(&t->cdp, err, "the page") : r;
	page = json_object_get(metrics, "cssContentSize");
	view = json_object_get(metrics, "cssLayoutViewport");
	if (q->full) {
		*ret = (struct picture_clip){ .width = (double)member_count(page, "width"),
					      .height = (double)member_count(page, "height"),
					      .scale = 1 };
		return 0;
	}
	wide = (double)member_count(view, "clientWidth");
	high = (double)member_count(view, "clientHeight");
	if ((double)(q->x + q->width) > wide || (double)(q->y + q->height) > high)
		return cay_fail_field(err, CAY_E_INVALID, "width",
				      "the region is outside of the view, which is %.0fx%.0f", wide,
				      high);
	*ret = (struct picture_clip){
		.x = (double)(member_count(view, "pageX") + q->x),
		.y = (double)(member_count(view, "pageY") + q->y),
		.width = (double)q->width,
		.height = (double)q->height,
	};
	wide /= ret->width;
	high /= ret->height;
	ret->scale = wide < high ? wide : high;
	return 0;
}

int browser_print(struct tab *t, struct slice *ret, struct cay_err *err)
{
	auto_json result = NULL;
	struct jw w;
	int r;

	cdp_begin(&t->cdp, &w, "Page.printToPDF");
	jw_real(&w, "paperWidth", 8.27);
	jw_real(&w, "paperHeight", 11.69);
	jw_bool(&w, "printBackground", true);
	r = cdp_call(&t->cdp, &w, &result, err);
	if (r < 0)
		return r == -EREMOTEIO ? cdp_fail_refused(&t->cdp, err, "the page") : r;
	return browser_copy_data(t, result, ret, err);
}

int browser_take_picture(struct tab *t, const struct browser_shot_query *q, struct slice *ret,
			 struct cay_err *err)
{
	struct picture_clip clip = {};
	auto_json result = NULL;
	struct jw w;
	int r = q && (q->full || q->width) ? picture_clip_find(t, q, &clip, err) : 0;

	if (r < 0)
		return r;
	if (clip.width > PICTURE_SIDE_MAX || clip.height > PICTURE_SIDE_MAX) {
		r = cay_fail(err, CAY_E_TOO_LARGE,
			     "the page has %.0fx%.0f pixels, more than %d on a side", clip.width,
			     clip.height, PICTURE_SIDE_MAX);
		cay_err_hint(err, "leave out `full`, or use `format=pdf`");
		return r;
	}
	cdp_begin(&t->cdp, &w, "Page.captureScreenshot");
	jw_str(&w, "format", "png");
	jw_bool(&w, "optimizeForSpeed", true);
	if (clip.width > 0 && clip.height > 0) {
		jw_bool(&w, "captureBeyondViewport", true);
		jw_object_begin(&w, "clip");
		jw_real(&w, "x", clip.x);
		jw_real(&w, "y", clip.y);
		jw_real(&w, "width", clip.width);
		jw_real(&w, "height", clip.height);
		jw_real(&w, "scale", clip.scale);
		jw_end(&w);
	}
	r = cdp_call(&t->cdp, &w, &result, err);
	if (r < 0)
		return r == -EREMOTEIO ? cdp_fail_refused(&t->cdp, err, "the picture") : r;
	return browser_copy_data(t, result, ret, err);
}
