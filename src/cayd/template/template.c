/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/template/template.h"
#include "cayd/core/handlers.h"

#include "cayd/core/cursor.h"
#include "cayd/core/deferred-reply.h"
#include "cayd/core/list-page.h"
#include "cayd/egress/credential-policy.h"
#include "cayd/egress/policy.h"
#include "cayd/image/image.h"
#include "cayd/sandbox/services-check.h"
#include "cayd/sandbox/spec.h"
#include "cayd/snapshot/snapshot.h"
#include "cayd/template/pool.h"
#include "cayd/tenant/quota.h"
#include "cayd/volume/volume.h"

#define TEXT_MAX KIB(128)
/* Limits of the schema (src/lib/ops/schemas.def). */
#define LABELS_MAX 64
#define ENV_MAX 256
#define POOL_MAX KIB(512)

struct templates {
	struct template *rows[TEMPLATES_MAX];
	size_t n;
};

int templates_open(struct cayd *c, struct cay_err *err)
{
	c->templates = calloc(1, sizeof(*c->templates));
	return c->templates ? 0 : cay_no_memory(err);
}

void template_free(struct template *t)
{
	if (!t)
		return;
	template_free(t->next_version);
	arena_fini(&t->arena);
	free(t);
}

static struct template **template_find_slot(struct templates *all, const struct id *id)
{
	for (size_t i = 0; i < all->n; i++)
		if (id_eq(&all->rows[i]->info.id, id))
			return &all->rows[i];
	return NULL;
}

struct template *template_find_by_id(struct cayd *c, const struct id *id)
{
	struct template **at = template_find_slot(c->templates, id);

	return at ? *at : NULL;
}

static struct template **template_find_slot_by_name(struct templates *all, const char *name)
{
	for (size_t i = 0; i < all->n; i++)
		if (str_eq(all->rows[i]->info.name, name))
			return &all->rows[i];
	return NULL;
}

static bool template_is_visible(const struct template *t)
{
	return t->saved && !t->deleting;
}

struct template *template_find_any_state(struct cayd *c, const char *name)
{
	struct template **at = template_find_slot_by_name(c->templates, name);

	return at ? *at : NULL;
}

bool templates_use_image(const struct cayd *c, const struct image *image)
{
	for (size_t i = 0; i < c->templates->n; i++) {
		const char *name = c->templates->rows[i]->info.defaults.image;
		const char *layer = c->templates->rows[i]->info.layer;
		const struct image *row =
			name ? image_find(c->images, &image_owner_node, name) : NULL;

		if (layer && str_eq(layer, image->info.digest))
			return true;

		if (row && memcmp(row->digest, image->digest, sizeof(row->digest)) == 0)
			return true;
	}
	return false;
}

const char *templates_find_naming(const struct cayd *c, const struct id *owned)
{
	for (size_t i = 0; i < c->templates->n; i++)
		if (template_names(c, c->templates->rows[i], owned))
			return c->templates->rows[i]->info.name;
	return NULL;
}

const struct template *template_find_by_name(const struct cayd *c, const char *name)
{
	struct template **at = template_find_slot_by_name(c->templates, name);

	return at && template_is_visible(*at) ? *at : NULL;
}

size_t templates_count(const struct cayd *c)
{
	return c->templates->n;
}

const struct template *template_at(const struct cayd *c, size_t at)
{
	const struct templates *all = c->templates;

	return at < all->n && template_is_visible(all->rows[at]) ? all->rows[at] : NULL;
}

/* Its public form, with counts of its pool. */
static struct template_info template_describe_with_pool(const struct cayd *c,
							const struct template *t)
{
	struct template_info ret;

	(void)template_describe(t, &ret);
	ret.has_now = ret.has_pool;
	if (ret.has_now)
		ret.now = pools_count(c, ret.name);
	return ret;
}

static void template_reply(const struct cayd *c, struct request *rq, const struct template *t)
{
	struct template_info told = template_describe_with_pool(c, t);

	request_reply_json(rq, &template_info_table, &told);
}

static void template_remove_slot(struct templates *all, struct template **at)
{
	template_free(*at);
	memmove(at, at + 1, (size_t)(&all->rows[--all->n] - at) * sizeof(all->rows[0]));
}

/* A row from its text in the journal. */
struct template *template_parse(struct slice text, struct cay_err *err)
{
	struct template *t = calloc(1, sizeof(*t));
	struct json_limits limits = json_control_limits;

	if (!t) {
		(void)cay_no_memory(err);
		return NULL;
	}
	t->arena = ARENA_INIT(POOL_MAX);
	limits.bytes = TEXT_MAX;
	if (field_decode_text(&template_info_table, text, &limits, &t->arena, &t->info, err) < 0) {
		template_free(t);
		return NULL;
	}
	t->info.defaults.layer = t->info.layer; /* for a caller without a request */
	return t;
}

int template_restore(struct cayd *c, const struct db_entry *e, struct cay_err *err)
{
	struct templates *all = c->templates;
	struct template *t = template_parse(e->text, err);

	if (!t)
		return -EINVAL;
	if (!id_eq(&t->info.id, &e->id) || template_find_slot_by_name(all, t->info.name) ||
	    all->n == TEMPLATES_MAX) {
		template_free(t);
		return cay_fail(err, CAY_E_INVALID, "the journal has an invalid template");
	}
	if (t->info.state == TEMPLATE_BUILDING) {
		t->info.state = TEMPLATE_FAILED;
		t->info.error = "a restart interrupted the build; create the template again";
	}
	t->saved = true;
	all->rows[all->n++] = t;
	return 0;
}

/* A request that sets one of two exclusive members drops the template's other one. */
static void template_drop_overridden(const struct sandbox_create *asked, struct sandbox_create *ret)
{
	if (asked->image_entrypoint && !asked->has_entrypoint) {
		ret->has_entrypoint = false;
		ret->entrypoint = (struct field_texts){};
	} else if (asked->has_entrypoint && !asked->image_entrypoint) {
		ret->image_entrypoint = false;
	}
	if (asked->has_stop_after && !asked->has_idle)
		ret->has_idle = false;
	else if (asked->has_idle && !asked->has_stop_after)
		ret->has_stop_after = false;
	if (!asked->has_pause_after && rest_spec_never_dozes(ret))
		ret->has_pause_after = false;
	if (ret->storage == STORAGE_DISK && !asked->has_writable) {
		ret->has_writable = false;
		ret->writable = (struct field_texts){};
	}
}

int template_apply(const struct cayd *c, const struct actor *actor,
		   const struct sandbox_create *asked, struct arena *arena,
		   struct sandbox_create *ret, struct cay_err *err)
{
	const struct image *row =
		asked->image ? image_find(c->images, &actor->tenant, asked->image) : NULL;
	const struct template *t;

	*ret = *asked;
	if (volume_mounts_check(c, actor, asked, err) < 0)
		return -EINVAL;
	if (asked->snapshot.noun != ID_NONE && snapshot_apply(c, actor, ret, err) < 0)
		return -EINVAL;
	if (row && image_is_hidden(row, actor))
		return cay_fail_field(err, CAY_E_NOT_FOUND, "image", "there is no image '%s'",
				      asked->image);
	if (asked->template && asked->image)
		return cay_fail_field(err, CAY_E_INVALID, "image",
				      "give either 'template' or 'image'");
	if (asked->template) {
		t = template_find_by_name(c, asked->template);
		if (!t || !template_may_be_used_by(c, t, actor))
			return cay_fail_field(err, CAY_E_NOT_FOUND, "template",
					      t && actor->scope == SCOPE_OPERATOR
						      ? "the snapshot of template '%s' is not of "
							"this tenant, or is gone"
						      : "there is no template '%s'",
					      asked->template);
		if (t->info.state == TEMPLATE_BUILDING)
			return cay_fail_field(err, CAY_E_UNAVAILABLE, "template",
					      "the template '%s' is being built", asked->template);
		if (t->info.state == TEMPLATE_FAILED)
			return cay_fail_field(err, CAY_E_BUILD, "template",
					      "the build of template '%s' failed: %.150s",
					      asked->template, t->info.error ? t->info.error : "");
		if (!ret->layered)
			ret->layer = t->info.layer;
		if (field_merge(&sandbox_create_table, &t->info.defaults, ret, arena) < 0)
			return cay_no_memory(err);
		/* a layer of its own, which the request can only narrow */
		ret->has_egress = asked->has_egress;
		ret->template_egress =
			t->info.defaults.has_egress ? &t->info.defaults.egress : NULL;
		if (template_give_files(c, t, ret, err) < 0)
			return -EINVAL;
	}
	if (egress_apply_default(c, &actor->tenant, ret, arena) < 0 ||
	    credential_placeholders_apply(c, &actor->tenant, ret, arena) < 0)
		return cay_no_memory(err);
	template_drop_overridden(asked, ret);
	if (!ret->image)
		return cay_fail_field(err, CAY_E_INVALID, "image", "'image' is missing");
	if (ret->labels.n > LABELS_MAX || ret->env.n > ENV_MAX)
		return cay_fail_field(err, CAY_E_INVALID, ret->env.n > ENV_MAX ? "env" : "labels",
				      "more than %d together with the template's",
				      ret->env.n > ENV_MAX ? ENV_MAX : LABELS_MAX);
	if (quota_bound_create(c, &actor->tenant, ret, err) < 0)
		return -EINVAL;
	ret->limits.given = 0; /* all of them are set from now on */
	if (!ret->has_ttl) {
		ret->has_ttl = true;
		ret->ttl_ms = c->settings.default_ttl_ms;
	}
	return 0;
}

/* Members that only one sandbox can have are no defaults. */
int template_check_defaults(const struct cayd *c, const struct sandbox_create *d,
			    struct cay_err *err)
{
	if (!d->image && d->snapshot.noun == ID_NONE)
		return cay_fail_field(err, CAY_E_INVALID, "defaults.image", "'image' is missing");
	if (d->name || d->template || d->volumes.n)
		return cay_fail_field(err, CAY_E_INVALID,
				      d->name       ? "defaults.name"
				      : d->template ? "defaults.template"
						    : "defaults.volumes",
				      "a template cannot set this for every sandbox");
	if (d->has_registry_auth) /* it would be stored */
		return cay_fail_field(err, CAY_E_INVALID, "defaults.registry_auth",
				      "a template has no credentials; pull its image before");
	if (d->image && !image_find(c->images, &image_owner_node, d->image))
		return cay_fail_field(err, CAY_E_NOT_FOUND, "defaults.image",
				      "there is no image '%s'", d->image);
	if (d->has_egress && egress_policy_check_spec(c, &d->egress, "defaults.egress", err) < 0)
		return -EINVAL;
	if (warm_kernels_check(&d->kernels, "defaults.kernels", err) < 0)
		return -EINVAL;
	return services_check(&d->services, "defaults.services", err);
}

/* No other change is possible during a build. */
static enum template_change template_change_kind(const struct template *was,
						 const struct template_info *now)
{
	if (was->building_hash[0] && was->saved)
		return now->error ? TEMPLATE_UNBUILT : TEMPLATE_BUILT;
	return now->created_ns == was->info.created_ns ? TEMPLATE_POOLED : TEMPLATE_CHANGED;
}

static void on_template_saved(struct deferred_reply *l, const struct cay_err *outcome)
{
	struct templates *all = l->cayd->templates;
	struct template **at = template_find_slot(all, &l->id), *next;
	enum template_change change = TEMPLATE_CREATED;

	if (!outcome->code && (*at)->next_version) {
		next = cay_take((*at)->next_version);
		change = template_change_kind(*at, &next->info);
		template_free(*at);
		*at = next;
	} else if (outcome->code && !(*at)->next_version) {
		/* a failed write may have reached the disk */
		db_entry_delete(l->cayd->db, &l->id, NULL, NULL);
		template_remove_slot(all, at);
		at = NULL;
	} else if (outcome->code) {
		template_free(cay_take((*at)->next_version));
		if (!l->rq) /* the result of its build is lost */
			(*at)->building_hash[0] = 0;
	}
	if (at)
		(*at)->saved = true;
	pools_schedule_refill(l->cayd);
	if (!outcome->code)
		l->cayd->hooks->template_changed(l->cayd, &(*at)->info, change);
	if (l->rq && outcome->code)
		request_fail(l->rq, outcome);
	else if (l->rq)
		template_reply(l->cayd, l->rq, *at);
}

/* Insert it in place of the template of its name, or last. */
static int template_insert(struct templates *all, struct template *t, struct cay_err *err)
{
	struct template **at = template_find_slot_by_name(all, t->info.name);

	if (at && ((*at)->next_version || !template_is_visible(*at)))
		return cay_fail(err, CAY_E_CONFLICT, "'%s' is being changed", t->info.name);
	if (!at && all->n == TEMPLATES_MAX)
		return cay_fail(err, CAY_E_LIMIT, "there are %d templates already", TEMPLATES_MAX);
	if (at)
		(*at)->next_version = t;
	else
		all->rows[all->n++] = t;
	return 0;
}

static struct template *template_insert_new(struct cayd *c, const struct template_info *want,
					    struct buf *text, struct cay_err *err)
{
	struct template **old = template_find_slot_by_name(c->templates, want->name), *t;
	struct template_info info = *want;
	struct jw w = jw_to(text);

	if (info.pool.max && info.pool.min > info.pool.max) {
		(void)cay_fail_field(err, CAY_E_INVALID, "min", "'min' is more than 'max'");
		return NULL;
	}
	if (old)
		info.id = (*old)->info.id;
	else if (id_generate(ID_TEMPLATE, 0, 0, &info.id) < 0)
		(void)cay_fail(err, CAY_E_INTERNAL, "cannot get random bytes");
	field_encode(&template_info_table, NULL, &info, &w);
	if (jw_finish(&w) < 0)
		(void)cay_no_memory(err);
	if (err->code)
		return NULL;
	t = template_parse((struct slice){ buf_str(text), text->len }, err);
	if (t && template_insert(c->templates, t, err) < 0) {
		template_free(t);
		return NULL;
	}
	return t;
}

struct template *template_save(struct cayd *c, struct request *rq, const struct template_info *want,
			       struct cay_err *err)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct template *t = template_insert_new(c, want, &text, err), **at;
	struct db_entry entry;
	struct deferred_reply *l;

	if (!t)
		return NULL;
	l = deferred_reply_create(c, rq, &t->info.id, on_template_saved);
	if (!l) {
		at = template_find_slot(c->templates, &t->info.id);
		if ((*at)->next_version)
			template_free(cay_take((*at)->next_version));
		else
			template_remove_slot(c->templates, at);
		if (!rq)
			(void)cay_no_memory(err);
		return NULL;
	}
	entry = (struct db_entry){ t->info.id, { text.data, text.len } };
	db_entry_put(c->db, &entry, deferred_reply_finish, l);
	return t;
}

struct template_info template_from_request(const struct cayd *c, const struct template_create *q)
{
	const struct template *old = template_find_by_name(c, q->name);
	struct template_info want = { .name = q->name,
				      .created_ns = clk_wall_ns(c->clk),
				      .defaults = q->defaults,
				      .pool = q->pool,
				      .has_pool = q->has_pool };

	if (!q->has_pool && old) {
		want.pool = old->info.pool;
		want.has_pool = old->info.has_pool;
	}
	return want;
}

void op_template_create(struct cayd *c, struct request *rq)
{
	const struct template_create *q = rq->body;
	const struct template *old = template_find_any_state(c, q->name), *t;
	struct template_info want = template_from_request(c, q);
	struct layer_spec spec = { .files = q->files,
				   .packages = q->packages,
				   .setup = q->setup,
				   .has_setup = q->has_setup };
	struct cay_err err = {};

	if (old && old->building_hash[0]) {
		request_refuse(rq, CAY_E_CONFLICT, "the template is being built");
		return;
	}
	if (template_check_snapshot(c, &rq->actor, q, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	if (layer_spec_has_steps(&spec)) {
		template_build_start(c, rq, &spec);
		return;
	}
	t = template_check_defaults(c, &q->defaults, &err) < 0 ? NULL
							       : template_save(c, rq, &want, &err);
	if (t)
		rq->target = t->info.id;
	else if (err.code)
		request_fail(rq, &err);
}

void op_template_list(struct cayd *c, struct request *rq)
{
	const struct page_query *q = rq->query;
	const struct templates *all = c->templates;
	struct list_page page;
	uint64_t at;

	if (!cursor_parse(rq, q->cursor, &at))
		return;
	list_page_begin(&page, "templates");
	for (; at < all->n && page.rows < q->limit; at++) {
		struct template_info row;

		if (!template_is_visible(all->rows[at]) ||
		    !template_is_visible_to(c, all->rows[at], &rq->actor))
			continue;
		row = template_describe_with_pool(c, all->rows[at]);
		if (!list_page_add(&page, &template_info_table, &row))
			break;
	}
	list_page_finish(&page, at < all->n ? cursor_format(rq, at) : NULL);
	list_page_reply(&page, rq);
}

static struct template *template_find_or_refuse(struct cayd *c, struct request *rq)
{
	struct template **at = template_find_slot(c->templates, &rq->match.params[0]);

	if (at && template_is_visible(*at) && template_is_visible_to(c, *at, &rq->actor))
		return *at;
	request_refuse(rq, CAY_E_NOT_FOUND, "there is no such template");
	return NULL;
}

void op_template_get(struct cayd *c, struct request *rq)
{
	const struct template *t = template_find_or_refuse(c, rq);

	if (t)
		template_reply(c, rq, t);
}

void op_template_pool(struct cayd *c, struct request *rq)
{
	const struct template *t = template_find_or_refuse(c, rq);
	struct cay_err err = {};
	struct template_info info;

	if (!t)
		return;
	if (t->building_hash[0]) {
		request_refuse(rq, CAY_E_CONFLICT, "the template is being built");
		return;
	}
	info = t->info;
	info.pool = *(const struct pool_conf *)rq->body;
	info.has_pool = true;
	if (!template_save(c, rq, &info, &err) && err.code)
		request_fail(rq, &err);
}

static void on_template_deleted(struct deferred_reply *l, const struct cay_err *outcome)
{
	struct template **at = template_find_slot(l->cayd->templates, &l->id);

	request_reply_outcome(l->rq, outcome, &template_info_table, &(*at)->info);
	if (outcome->code) {
		(*at)->deleting = false;
	} else {
		l->cayd->hooks->template_changed(l->cayd, &(*at)->info, TEMPLATE_REMOVED);
		template_remove_slot(l->cayd->templates, at);
	}
	pools_schedule_refill(l->cayd);
}

void op_template_delete(struct cayd *c, struct request *rq)
{
	struct template *t = template_find_or_refuse(c, rq);
	struct deferred_reply *l;

	if (!t)
		return;
	if (t->next_version) {
		request_refuse(rq, CAY_E_CONFLICT, "the template is being changed");
		return;
	}
	l = deferred_reply_create(c, rq, &t->info.id, on_template_deleted);
	if (!l)
		return;
	t->deleting = true;
	db_entry_delete(c->db, &t->info.id, deferred_reply_finish, l);
}
