/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api-find - resolve names and ids of the command line
 */
#include <limits.h>
#include <stdio.h>

#include "cli/client/api.h"
#include "cli/core/options.h"

#define NEAR_ROWS_MAX 500

struct api_match {
	struct slice name;
	struct id id;
	bool found;
	bool include_ended; /* match ended sandboxes as well */
};

static int api_match_sandbox(void *to, const void *row)
{
	const struct sandbox_info *s = row;
	struct api_match *w = to;
	bool over = s->state == SB_TERMINATED || s->state == SB_FAILED;

	/* a name can be used again once its sandbox has ended */
	if (!s->name || !slice_eq(slice_of(s->name), w->name) || (over && !w->include_ended))
		return 0;
	if (!w->found || !over)
		w->id = s->id;
	w->found = true;
	return !over;
}

static int api_match_image(void *to, const void *row)
{
	const struct image_info *i = row;
	struct api_match *w = to;

	if ((i->name && slice_eq(slice_of(i->name), w->name)) ||
	    slice_eq(slice_of(i->digest), w->name)) {
		w->id = i->id;
		w->found = true;
	}
	return w->found;
}

static int api_fail_not_found(const char *what, const char *word, struct cay_err *err)
{
	return cay_fail(err, CAY_E_NOT_FOUND, "there is no %s '%s'", what, word);
}

struct near_name {
	struct slice word;
	char best[64];
	unsigned best_distance;
	size_t n_seen;
};

static int api_compare_near_name(void *to, const void *row)
{
	const struct sandbox_info *s = row;
	struct near_name *n = to;
	unsigned d = s->name ? opt_edit_distance(n->word, slice_of(s->name)) : UINT_MAX;

	if (s->name && d < n->best_distance && d < n->word.n && strlen(s->name) < sizeof(n->best)) {
		n->best_distance = d;
		memcpy(n->best, s->name, strlen(s->name) + 1);
	}
	return ++n->n_seen >= NEAR_ROWS_MAX;
}

static void api_hint_similar_name(struct api *a, const char *word)
{
	const struct sandbox_query live = { .state = "live" };
	struct near_name near = { .word = slice_of(word), .best_distance = 3 };
	struct cay_err none = {};
	char hint[API_HINT_MAX];
	int n = 0;

	if (api_list_each(a, OP_SANDBOX_LIST, &live, api_compare_near_name, &near, &none) >= 0 &&
	    near.best[0])
		n = snprintf(hint, sizeof(hint), "did you mean '%s'? 'cay ls' lists them",
			     near.best);
	api_hint_set(
		a,
		n > 0 ? hint
		      : "'cay ls --all' also lists ended sandboxes; 'cay why' says how they ended");
}

static int api_find_sandbox_in_state(struct api *a, const char *word, bool any, struct id *ret,
				     struct cay_err *err)
{
	struct sandbox_query which = { .name = word, .state = any ? NULL : "live" };
	struct api_match w = { .name = slice_of(word), .include_ended = any };
	struct cay_err why = {};
	int r;

	if (id_parse(ID_SANDBOX, w.name, ret) == 0)
		return 0;
	r = api_list_each(a, OP_SANDBOX_LIST, &which, api_match_sandbox, &w, &why);
	if (r < 0 && why.code == CAY_E_INVALID && str_eq(why.field, "name")) {
		/* no sandbox can have an invalid name */
		a->hint[0] = 0;
		return api_fail_not_found("sandbox", word, err);
	}
	if (r < 0) {
		*err = why;
		return r;
	}
	*ret = w.id;
	if (!w.found && !any)
		api_hint_similar_name(a, word);
	return w.found ? 0 : api_fail_not_found("sandbox", word, err);
}

int api_find_sandbox(struct api *a, const char *word, struct id *ret, struct cay_err *err)
{
	return api_find_sandbox_in_state(a, word, false, ret, err);
}

int api_find_any_sandbox(struct api *a, const char *word, struct id *ret, struct cay_err *err)
{
	return api_find_sandbox_in_state(a, word, true, ret, err);
}

static int api_match_tenant(void *to, const void *row)
{
	const struct tenant_info *t = row;
	struct api_match *w = to;

	w->found = slice_eq(slice_of(t->name), w->name);
	w->id = t->id;
	return w->found;
}

static int api_match_key(void *to, const void *row)
{
	const struct key_info *k = row;
	struct api_match *w = to;

	w->found = slice_eq(slice_of(k->prefix), w->name);
	w->id = k->id;
	return w->found;
}

static int api_find_in_list(struct api *a, enum op_id op, api_each *match, const char *what,
			    const char *word, struct id *ret, struct cay_err *err)
{
	struct api_match w = { .name = slice_of(word) };
	int r = api_list_each(a, op, NULL, match, &w, err);

	if (r < 0)
		return r;
	*ret = w.id;
	return w.found ? 0 : api_fail_not_found(what, word, err);
}

int api_find_image(struct api *a, const char *word, struct id *ret, struct cay_err *err)
{
	if (id_parse(ID_IMAGE, slice_of(word), ret) == 0)
		return 0;
	return api_find_in_list(a, OP_IMAGE_LIST, api_match_image, "image", word, ret, err);
}

static int api_match_template(void *to, const void *row)
{
	const struct template_info *t = row;
	struct api_match *w = to;

	w->found = slice_eq(slice_of(t->name), w->name);
	w->id = t->id;
	return w->found;
}

int api_find_template(struct api *a, const char *word, struct id *ret, struct cay_err *err)
{
	if (id_parse(ID_TEMPLATE, slice_of(word), ret) == 0)
		return 0;
	return api_find_in_list(a, OP_TEMPLATE_LIST, api_match_template, "template", word, ret,
				err);
}

int api_find_tenant(struct api *a, const char *word, struct id *ret, struct cay_err *err)
{
	if (id_parse(ID_TENANT, slice_of(word), ret) == 0)
		return 0;
	return api_find_in_list(a, OP_TENANT_LIST, api_match_tenant, "tenant", word, ret, err);
}

int api_find_key(struct api *a, const char *word, struct id *ret, struct cay_err *err)
{
	if (id_parse(ID_KEY, slice_of(word), ret) == 0)
		return 0;
	return api_find_in_list(a, OP_KEY_LIST, api_match_key, "key", word, ret, err);
}
