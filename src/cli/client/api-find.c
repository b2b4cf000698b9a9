/* SPDX-License-Identifier: Apache-2.0 */
/* api-find - resolve names and ids of the command line */
#include <limits.h>
#include <stdio.h>

#include "cli/client/api.h"
#include "cli/core/options.h"
#include "text/distance.h"

#define NEAR_ROWS_MAX 500

struct api_match {
	struct slice name;
	struct id id;
	bool found;
	bool include_ended; /* match ended sandboxes as well */
	const struct api_find_row *row;
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
	unsigned d = s->name ? str_edit_distance(n->word, slice_of(s->name)) : UINT_MAX;

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

/* Lists whose rows are found by a text of theirs; each row begins with its id. */
static const struct api_find_row {
	enum op_id op;
	const char *what;
	size_t text, other; /* offsets of the texts; their pointers may be NULL */
	size_t owner; /* offset of a tenant's id; a row that has one is found by id only; 0: none */
} api_find_rows[] = {
	[ID_IMAGE] = { OP_IMAGE_LIST, "image", offsetof(struct image_info, name),
		       offsetof(struct image_info, digest), offsetof(struct image_info, tenant) },
	[ID_TEMPLATE] = { OP_TEMPLATE_LIST, "template", offsetof(struct template_info, name),
			  offsetof(struct template_info, name) },
	[ID_SNAPSHOT] = { OP_SNAPSHOT_LIST, "snapshot", offsetof(struct snapshot_info, name),
			  offsetof(struct snapshot_info, name) },
	[ID_VOLUME] = { OP_VOLUME_LIST, "volume", offsetof(struct volume_info, name),
			offsetof(struct volume_info, name) },
	[ID_TENANT] = { OP_TENANT_LIST, "tenant", offsetof(struct tenant_info, name),
			offsetof(struct tenant_info, name) },
	[ID_KEY] = { OP_KEY_LIST, "key", offsetof(struct key_info, prefix),
		     offsetof(struct key_info, prefix) },
};

static int api_match_row(void *to, const void *row)
{
	struct api_match *w = to;
	const char *text, *other;
	struct id owner = {};

	memcpy(&text, (const char *)row + w->row->text, sizeof(text));
	memcpy(&other, (const char *)row + w->row->other, sizeof(other));
	memcpy(&w->id, row, sizeof(w->id));
	if (w->row->owner)
		memcpy(&owner, (const char *)row + w->row->owner, sizeof(owner));
	w->found = owner.noun == ID_NONE && ((text && slice_eq(slice_of(text), w->name)) ||
					     (other && slice_eq(slice_of(other), w->name)));
	return w->found;
}

static int api_find_in_list(struct api *a, enum id_noun noun, const char *word, struct id *ret,
			    struct cay_err *err)
{
	struct api_match w = { .name = slice_of(word), .row = &api_find_rows[noun] };
	int r = id_parse(noun, w.name, ret);

	if (r == 0)
		return 0;
	r = api_list_each(a, w.row->op, NULL, api_match_row, &w, err);
	if (r < 0)
		return r;
	*ret = w.id;
	return w.found ? 0 : api_fail_not_found(w.row->what, word, err);
}

int api_find_image(struct api *a, const char *word, struct id *ret, struct cay_err *err)
{
	return api_find_in_list(a, ID_IMAGE, word, ret, err);
}

int api_find_template(struct api *a, const char *word, struct id *ret, struct cay_err *err)
{
	return api_find_in_list(a, ID_TEMPLATE, word, ret, err);
}

int api_find_snapshot(struct api *a, const char *word, struct id *ret, struct cay_err *err)
{
	return api_find_in_list(a, ID_SNAPSHOT, word, ret, err);
}

int api_find_volume(struct api *a, const char *word, struct id *ret, struct cay_err *err)
{
	return api_find_in_list(a, ID_VOLUME, word, ret, err);
}

int api_find_tenant(struct api *a, const char *word, struct id *ret, struct cay_err *err)
{
	return api_find_in_list(a, ID_TENANT, word, ret, err);
}

int api_find_key(struct api *a, const char *word, struct id *ret, struct cay_err *err)
{
	return api_find_in_list(a, ID_KEY, word, ret, err);
}

/* Names need not be unique. */
int api_find_kernel(struct api *a, const struct id *sandbox, const char *word, struct id *ret,
		    struct cay_err *err)
{
	struct api_call call = { .op = OP_KERNEL_LIST, .ids = { *sandbox } };
	struct kernel_list all = {};
	const struct kernel_info *rows;
	size_t found = 0;
	int r;

	if (id_parse(ID_KERNEL, slice_of(word), ret) == 0)
		return 0;
	r = api_call(a, &call, &all, err);
	rows = all.kernels.v;
	for (size_t i = 0; r >= 0 && i < all.kernels.n; i++)
		if (rows[i].name && str_eq(rows[i].name, word)) {
			*ret = rows[i].id;
			found++;
		}
	if (r < 0)
		return r;
	if (found > 1)
		return cay_fail(err, CAY_E_CONFLICT, "%zu kernels have the name '%s': use an id",
				found, word);
	return found ? 0 : api_fail_not_found("kernel", word, err);
}
