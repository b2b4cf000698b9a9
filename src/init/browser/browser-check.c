/* SPDX-License-Identifier: Apache-2.0 */
/* What of a request can be refused before the browser is asked */
#include "init/browser/browser.h"

#define TIMEOUT_MARGIN_MS 5000

enum {
	HAS_PLACE = 1, /* ref, or x and y */
	HAS_TO = 2,    /* to_ref, or to_x and to_y */
	HAS_BUTTON = 4,
	HAS_WHEEL = 8,
	HAS_KEYS = 16,
	HAS_REPEAT = 32,
	HAS_TEXT = 64,
	HAS_DURATION = 128,
	HAS_URL = 256,
	HAS_SCRIPT = 512,
	HAS_PATHS = 1024,
	HAS_REF = 2048, /* or a selector; alone: and no coordinates */
	HAS_SELECTOR = 4096
};

static const struct {
	unsigned takes, needs;
} action_rules[BROWSER_NUM_ACTIONS] = {
	[BROWSER_NAVIGATE] = { HAS_URL, HAS_URL },
	[BROWSER_BACK] = {},
	[BROWSER_FORWARD] = {},
	[BROWSER_RELOAD] = {},
	[BROWSER_CLICK] = { HAS_PLACE | HAS_REF | HAS_BUTTON | HAS_KEYS, HAS_PLACE },
	[BROWSER_HOVER] = { HAS_PLACE | HAS_REF, HAS_PLACE },
	[BROWSER_DRAG] = { HAS_PLACE | HAS_REF | HAS_TO, HAS_PLACE | HAS_TO },
	[BROWSER_SCROLL] = { HAS_PLACE | HAS_REF | HAS_WHEEL, 0 },
	[BROWSER_FILL] = { HAS_REF | HAS_TEXT, HAS_REF | HAS_TEXT },
	[BROWSER_TYPE] = { HAS_TEXT, HAS_TEXT },
	[BROWSER_PRESS] = { HAS_KEYS | HAS_REPEAT | HAS_DURATION, HAS_KEYS },
	[BROWSER_UPLOAD] = { HAS_REF | HAS_PATHS, HAS_REF | HAS_PATHS },
	[BROWSER_EVALUATE] = { HAS_SCRIPT, HAS_SCRIPT },
	[BROWSER_WAIT] = { HAS_TEXT | HAS_SELECTOR | HAS_DURATION, HAS_DURATION },
	[BROWSER_TAB_NEW] = { HAS_URL, 0 },
	[BROWSER_TAB_CLOSE] = {},
};

static int action_check_members(const struct browser_action *a, struct cay_err *err)
{
	const struct {
		bool there;
		unsigned takes, needs;
		const char *name;
	} members[] = {
		{ a->ref, HAS_REF, 0, "ref" },
		{ a->selector, HAS_REF | HAS_SELECTOR, 0, "selector" },
		{ a->ref || a->selector, HAS_REF | HAS_SELECTOR, HAS_REF, "ref" },
		{ a->ref || a->selector || a->has_x || a->has_y, HAS_PLACE | HAS_REF | HAS_SELECTOR,
		  HAS_PLACE, "ref" },
		{ a->has_x, HAS_PLACE, 0, "x" },
		{ a->has_y, HAS_PLACE, 0, "y" },
		{ a->to_ref || a->has_to_x || a->has_to_y, HAS_TO, HAS_TO, "to_ref" },
		{ a->has_button, HAS_BUTTON, 0, "button" },
		{ a->has_clicks, HAS_BUTTON, 0, "clicks" },
		{ a->has_direction, HAS_WHEEL, 0, "direction" },
		{ a->has_amount, HAS_WHEEL, 0, "amount" },
		{ a->keys, HAS_KEYS, HAS_KEYS, "keys" },
		{ a->has_repeat, HAS_REPEAT, 0, "repeat" },
		{ a->text, HAS_TEXT, HAS_TEXT, "text" },
		{ a->has_duration, HAS_DURATION, HAS_DURATION, "duration_ms" },
		{ a->url, HAS_URL, HAS_URL, "url" },
		{ a->script, HAS_SCRIPT, HAS_SCRIPT, "script" },
		{ a->has_paths, HAS_PATHS, HAS_PATHS, "paths" },
	};
	unsigned takes = action_rules[a->type].takes, needs = action_rules[a->type].needs;

	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		if (members[i].there && !(takes & members[i].takes))
			return cay_fail_field(err, CAY_E_INVALID, members[i].name,
					      "not a member of this action");
		if (!members[i].there && needs & members[i].needs)
			return cay_fail_field(err, CAY_E_INVALID, members[i].name,
					      "required for this action");
	}
	return 0;
}

bool browser_ref_is_valid(const char *ref)
{
	uint64_t n;

	return strncmp(ref, "ref_", 4) == 0 &&
	       str_parse_u64(slice_of(ref + 4), 1, INT32_MAX, &n) >= 0;
}

static int action_check_ref(const char *ref, const char *field, struct cay_err *err)
{
	return !ref || browser_ref_is_valid(ref)
		       ? 0
		       : cay_fail_field(err, CAY_E_INVALID, field,
					"is not a reference of a snapshot, such as ref_4");
}

static int action_check_place(const struct browser_action *a, struct cay_err *err)
{
	if (action_check_ref(a->ref, "ref", err) < 0 ||
	    action_check_ref(a->to_ref, "to_ref", err) < 0)
		return -EINVAL;
	if (a->has_x != a->has_y)
		return cay_fail_field(err, CAY_E_INVALID, a->has_x ? "y" : "x",
				      "x and y belong together");
	if (a->has_to_x != a->has_to_y)
		return cay_fail_field(err, CAY_E_INVALID, a->has_to_x ? "to_y" : "to_x",
				      "to_x and to_y belong together");
	if (!!a->ref + !!a->selector + a->has_x > 1)
		return cay_fail_field(err, CAY_E_INVALID, a->ref ? "ref" : "selector",
				      "give one of ref, selector, and x with y");
	if (a->selector && a->text && a->type == BROWSER_WAIT)
		return cay_fail_field(err, CAY_E_INVALID, "selector",
				      "give text or selector, not both");
	if (a->to_ref && a->has_to_x)
		return cay_fail_field(err, CAY_E_INVALID, "to_ref",
				      "give a to_ref or to_x and to_y, not both");
	return 0;
}

/* Not what a page is: a scheme, and what only a person types into the address bar. */
static int action_check_url(const struct browser_action *a, struct cay_err *err)
{
	struct slice rest = slice_of(a->url), scheme = slice_cut(&rest, ':');

	if (!rest.p || !scheme.n)
		return cay_fail_field(err, CAY_E_INVALID, "url",
				      "has no scheme; begin it with https://");
	for (size_t i = 0; i < scheme.n; i++)
		if (!ascii_is_alnum(scheme.p[i]) && !strchr("+-.", scheme.p[i]))
			return cay_fail_field(err, CAY_E_INVALID, "url",
					      "has no scheme; begin it with https://");
	if (scheme.n == 10 && http_equals_nocase(scheme, "javascript"))
		return cay_fail_field(err, CAY_E_INVALID, "url",
				      "is a script; use the action evaluate");
	return 0;
}

static int action_check(const struct browser_action *a, struct cay_err *err)
{
	struct browser_key keys[BROWSER_KEYS_MAX] = {};
	size_t n = 0;
	int r = action_check_members(a, err);

	if (r >= 0)
		r = action_check_place(a, err);
	if (r >= 0 && a->type == BROWSER_TYPE)
		for (const char *c = a->text; *c && r >= 0; c++)
			if (((unsigned char)*c < ' ' && !strchr("\t\r\n", *c)) || *c == 127)
				r = cay_fail_field(err, CAY_E_INVALID, "text",
						   "has a control character that no key types");
	if (r >= 0 && a->url)
		r = action_check_url(a, err);
	if (r >= 0 && a->keys)
		r = browser_keys_parse(a->keys, keys, &n, err);
	if (r >= 0 && a->keys && a->type == BROWSER_CLICK && (n != 1 || keys[0].name))
		r = cay_fail_field(
			err, CAY_E_INVALID, "keys",
			"a click takes only modifiers: ctrl, shift, alt and meta, joined by +");
	if (r >= 0 && a->type == BROWSER_PRESS && a->has_duration && (n != 1 || a->has_repeat))
		r = cay_fail_field(err, CAY_E_INVALID, "duration_ms",
				   "only one combination can be held, once");
	if (r >= 0 && a->keys && a->type == BROWSER_PRESS)
		for (size_t i = 0; i < n && r >= 0; i++)
			if (!keys[i].name)
				r = cay_fail_field(err, CAY_E_INVALID, "keys",
						   "a combination needs a key besides ctrl, shift, "
						   "alt and meta");
	return r;
}

int browser_actions_check(const struct browser_act *q, struct cay_err *err)
{
	const struct browser_action *v = q->actions.v;
	uint64_t waits = 0;

	if (q->tab && !tab_id_is_valid(q->tab))
		return cay_fail_field(err, CAY_E_INVALID, "tab", "is not the id of a tab");
	for (size_t i = 0; i < q->actions.n; i++) {
		auto_buf name = BUF_INIT(32);

		waits += v[i].has_duration ? v[i].duration_ms : 0;
		if (action_check(&v[i], err) >= 0)
			continue;
		if (buf_printf(&name, "actions[%zu]", i) < 0)
			return cay_no_memory(err);
		cay_err_prefix_field(err, buf_str(&name));
		return -EINVAL;
	}
	if (waits + TIMEOUT_MARGIN_MS > q->timeout_ms && waits)
		return cay_fail_field(
			err, CAY_E_INVALID, "actions",
			"all duration_ms together must be at least %d s less than timeout_ms",
			TIMEOUT_MARGIN_MS / 1000);
	return 0;
}

int browser_shot_check(const struct browser_shot_query *q, struct cay_err *err)
{
	if (!q->width != !q->height)
		return cay_fail_field(err, CAY_E_INVALID, q->width ? "height" : "width",
				      "width and height belong together");
	if (q->width && (q->full || q->format == BROWSER_PDF))
		return cay_fail_field(err, CAY_E_INVALID, "width",
				      "a region is shown as PNG, of what is in view");
	return 0;
}
