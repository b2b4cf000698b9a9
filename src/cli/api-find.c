/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api-find - what a word of the command line names
 */
#include <limits.h>
#include <stdio.h>

#include "cli/api.h"
#include "cli/opt.h"

#define NEAR_ROWS_MAX 500

struct wanted {
	struct slice name;
	struct id id;
	bool found;
	bool any; /* also one that is over */
};

static int match_sandbox(void *to, const void *row)
{
	const struct sandbox *s = row;
	struct wanted *w = to;

	bool over = s->state == SB_TERMINATED || s->state == SB_FAILED;

	/* a name is free again once its sandbox is over */
	if (!s->name || !slice_eq(slice_of(s->name), w->name) || (over && !w->any))
		return 0;
	if (!w->found || !over)
		w->id = s->id;
	w->found = true;
	return !over;
}

static int match_image(void *to, const void *row)
{
	const struct image *i = row;
	struct wanted *w = to;

	if ((i->name && slice_eq(slice_of(i->name), w->name)) ||
	    slice_eq(slice_of(i->digest), w->name)) {
		w->id = i->id;
		w->found = true;
	}
	return w->found;
}

static int no_such(const char *what, const char *word, struct cay_err *err)
{
	return cay_fail(err, CAY_E_NOT_FOUND, "there is no %s '%s'", what, word);
}

struct near {
	struct slice word;
	char best[64];
	unsigned least;
	size_t seen;
};

static int look_near(void *to, const void *row)
{
	const struct sandbox *s = row;
	struct near *n = to;
	unsigned d = s->name ? opt_distance(n->word, slice_of(s->name)) : UINT_MAX;

	if (s->name && d < n->least && d < n->word.n && strlen(s->name) < sizeof(n->best)) {
		n->least = d;
		memcpy(n->best, s->name, strlen(s->name) + 1);
	}
	return ++n->seen >= NEAR_ROWS_MAX;
}

/* A name somebody may have meant. */
static void hint_at_name(struct api *a, const char *word)
{
	const struct sandbox_query live = { .state = "live" };
	struct near near = { .word = slice_of(word), .least = 3 };
	struct cay_err none = {};
	char hint[API_HINT_MAX];
	int n = 0;

	if (api_list(a, OP_SANDBOX_LIST, &live, look_near, &near, &none) >= 0 && near.best[0])
		n = snprintf(hint, sizeof(hint), "did you mean '%s'? 'cay ls' lists them",
			     near.best);
	api_hint(a, n > 0 ? hint : "'cay ls --all' has those that ended, too; 'cay why' says how");
}

static int find_sandbox(struct api *a, const char *word, bool any, struct id *ret,
			struct cay_err *err)
{
	struct sandbox_query which = { .name = word, .state = any ? NULL : "live" };
	struct wanted w = { .name = slice_of(word), .any = any };
	struct cay_err why = {};
	int r;

	if (id_parse(ID_SANDBOX, w.name, ret) == 0)
		return 0;
	r = api_list(a, OP_SANDBOX_LIST, &which, match_sandbox, &w, &why);
	if (r < 0 && why.code == CAY_E_INVALID && str_eq(why.field, "name")) {
		/* what cannot be a name is nobody's */
		a->hint[0] = 0;
		return no_such("sandbox", word, err);
	}
	if (r < 0) {
		*err = why;
		return r;
	}
	*ret = w.id;
	if (!w.found && !any)
		hint_at_name(a, word);
	return w.found ? 0 : no_such("sandbox", word, err);
}

int api_find_sandbox(struct api *a, const char *word, struct id *ret, struct cay_err *err)
{
	return find_sandbox(a, word, false, ret, err);
}

int api_find_any(struct api *a, const char *word, struct id *ret, struct cay_err *err)
{
	return find_sandbox(a, word, true, ret, err);
}

static int match_tenant(void *to, const void *row)
{
	const struct tenant *t = row;
	struct wanted *w = to;

	w->found = slice_eq(slice_of(t->name), w->name);
	w->id = t->id;
	return w->found;
}

static int match_key(void *to, const void *row)
{
	const struct key *k = row;
	struct wanted *w = to;

	w->found = slice_eq(slice_of(k->prefix), w->name);
	w->id = k->id;
	return w->found;
}

static int find_one(struct api *a, enum op_id op, api_each *match, const char *what,
		    const char *word, struct id *ret, struct cay_err *err)
{
	struct wanted w = { .name = slice_of(word) };
	int r = api_list(a, op, NULL, match, &w, err);

	if (r < 0)
		return r;
	*ret = w.id;
	return w.found ? 0 : no_such(what, word, err);
}

int api_find_image(struct api *a, const char *word, struct id *ret, struct cay_err *err)
{
	if (id_parse(ID_IMAGE, slice_of(word), ret) == 0)
		return 0;
	return find_one(a, OP_IMAGE_LIST, match_image, "image", word, ret, err);
}

static int match_template(void *to, const void *row)
{
	const struct template *t = row;
	struct wanted *w = to;

	w->found = slice_eq(slice_of(t->name), w->name);
	w->id = t->id;
	return w->found;
}

int api_find_template(struct api *a, const char *word, struct id *ret, struct cay_err *err)
{
	if (id_parse(ID_TEMPLATE, slice_of(word), ret) == 0)
		return 0;
	return find_one(a, OP_TEMPLATE_LIST, match_template, "template", word, ret, err);
}

int api_find_tenant(struct api *a, const char *word, struct id *ret, struct cay_err *err)
{
	if (id_parse(ID_TENANT, slice_of(word), ret) == 0)
		return 0;
	return find_one(a, OP_TENANT_LIST, match_tenant, "tenant", word, ret, err);
}

int api_find_key(struct api *a, const char *word, struct id *ret, struct cay_err *err)
{
	if (id_parse(ID_KEY, slice_of(word), ret) == 0)
		return 0;
	return find_one(a, OP_KEY_LIST, match_key, "key", word, ret, err);
}
