/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/template.h"

#include "cayd/event.h"
#include "cayd/image.h"
#include "cayd/later.h"
#include "cayd/page.h"
#include "cayd/services.h"
#include "cayd/stock.h"

#define TEXT_MAX KIB(128)
/* As many as the journal takes (src/ops/schemas.def). */
#define LABELS_MAX 64
#define ENV_MAX 256
#define POOL_MAX KIB(512)

struct templates {
	struct template_row *rows[TEMPLATES_MAX];
	size_t n;
};

int templates_open(struct cayd *c, struct cay_err *err)
{
	c->templates = calloc(1, sizeof(*c->templates));
	return c->templates ? 0 : cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
}

void template_free(struct template_row *t)
{
	if (!t)
		return;
	template_free(t->next);
	pool_fini(&t->pool);
	free(t);
}

static struct template_row **find(struct templates *all, const struct id *id)
{
	for (size_t i = 0; i < all->n; i++)
		if (id_eq(&all->rows[i]->info.id, id))
			return &all->rows[i];
	return NULL;
}

struct template_row *template_by_id(struct cayd *c, const struct id *id)
{
	struct template_row **at = find(c->templates, id);

	return at ? *at : NULL;
}

static struct template_row **find_name(struct templates *all, const char *name)
{
	for (size_t i = 0; i < all->n; i++)
		if (str_eq(all->rows[i]->info.name, name))
			return &all->rows[i];
	return NULL;
}

static bool is_there(const struct template_row *t)
{
	return t->saved && !t->leaving;
}

struct template_row *template_any(struct cayd *c, const char *name)
{
	struct template_row **at = find_name(c->templates, name);

	return at ? *at : NULL;
}

bool templates_use(const struct cayd *c, const struct image_row *image)
{
	for (size_t i = 0; i < c->templates->n; i++) {
		const char *name = c->templates->rows[i]->info.defaults.image;
		const char *layer = c->templates->rows[i]->info.layer;
		const struct image_row *row = name ? image_find(c->images, name) : NULL;

		if (layer && str_eq(layer, image->info.digest))
			return true;

		if (row && memcmp(row->digest, image->digest, sizeof(row->digest)) == 0)
			return true;
	}
	return false;
}

const struct template_row *template_named(const struct cayd *c, const char *name)
{
	struct template_row **at = find_name(c->templates, name);

	return at && is_there(*at) ? *at : NULL;
}

size_t templates_n(const struct cayd *c)
{
	return c->templates->n;
}

const struct template_row *template_at(const struct cayd *c, size_t at)
{
	const struct templates *all = c->templates;

	return at < all->n && is_there(all->rows[at]) ? all->rows[at] : NULL;
}

/* As clients see it: with what there is of its pool. */
static struct template seen(const struct cayd *c, const struct template_row *t)
{
	struct template ret;

	(void)template_look(t, &ret);
	ret.has_now = ret.has_pool;
	if (ret.has_now)
		ret.now = stock_count(c, ret.name);
	return ret;
}

static void reply(const struct cayd *c, struct request *rq, const struct template_row *t)
{
	struct template told = seen(c, t);

	request_reply_json(rq, &template_table, &told);
}

static void take_out(struct templates *all, struct template_row **at)
{
	template_free(*at);
	memmove(at, at + 1, (size_t)(&all->rows[--all->n] - at) * sizeof(all->rows[0]));
}

/* A row of its own from the text that the journal has, or will have. */
struct template_row *template_read(struct slice text, struct cay_err *err)
{
	struct template_row *t = calloc(1, sizeof(*t));
	struct json_limits limits = json_control_limits;

	if (!t) {
		(void)cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
		return NULL;
	}
	t->pool = POOL_INIT(POOL_MAX);
	limits.bytes = TEXT_MAX;
	if (field_read(&template_table, text, &limits, &t->pool, &t->info, err) < 0) {
		template_free(t);
		return NULL;
	}
	t->info.defaults.layer = t->info.layer; /* for who makes one without a request */
	return t;
}

int template_restore(struct cayd *c, const struct db_entry *e, struct cay_err *err)
{
	struct templates *all = c->templates;
	struct template_row *t = template_read(e->text, err);

	if (!t)
		return -EINVAL;
	if (!id_eq(&t->info.id, &e->id) || find_name(all, t->info.name) ||
	    all->n == TEMPLATES_MAX) {
		template_free(t);
		return cay_fail(err, CAY_E_INVALID, "a template of the journal makes no sense");
	}
	if (t->info.state == TEMPLATE_BUILDING) {
		t->info.state = TEMPLATE_FAILED;
		t->info.error = "a restart cut the build off: make the template again";
	}
	t->saved = true;
	all->rows[all->n++] = t;
	return 0;
}

/* Who says one of two things has said the other, too. */
static void choose(const struct sandbox_create *asked, struct sandbox_create *ret)
{
	if (asked->image_entrypoint && !asked->has_entrypoint) {
		ret->has_entrypoint = false;
		ret->entrypoint = (struct field_texts){};
	} else if (asked->has_entrypoint && !asked->image_entrypoint) {
		ret->image_entrypoint = false;
	}
	if (ret->storage == STORAGE_DISK && !asked->has_writable) {
		ret->has_writable = false;
		ret->writable = (struct field_texts){};
	}
}

int template_apply(const struct cayd *c, struct request *rq, struct sandbox_create *ret,
		   struct cay_err *err)
{
	const struct sandbox_create *asked = rq->body;
	const struct image_row *row = asked->image ? image_find(c->images, asked->image) : NULL;
	const struct template_row *t;

	*ret = *asked;
	if (row && image_hidden(row, &rq->actor))
		return cay_fail_field(err, CAY_E_NOT_FOUND, "image", "there is no image '%s'",
				      asked->image);
	if (asked->template && asked->image)
		return cay_fail_field(err, CAY_E_INVALID, "image",
				      "'image' is the template's to say: give one of the two");
	if (asked->template) {
		t = template_named(c, asked->template);
		if (!t)
			return cay_fail_field(err, CAY_E_NOT_FOUND, "template",
					      "there is no template '%s'", asked->template);
		if (t->info.state == TEMPLATE_BUILDING)
			return cay_fail_field(err, CAY_E_UNAVAILABLE, "template",
					      "the template '%s' is being built", asked->template);
		if (t->info.state == TEMPLATE_FAILED)
			return cay_fail_field(err, CAY_E_BUILD, "template",
					      "the template '%s' was not built: %.150s",
					      asked->template, t->info.error ? t->info.error : "");
		if (!ret->layered)
			ret->layer = t->info.layer;
		if (field_merge(&sandbox_create_table, &t->info.defaults, ret, &rq->pool) < 0)
			return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	}
	choose(asked, ret);
	if (!ret->image)
		return cay_fail_field(err, CAY_E_INVALID, "image", "'image' is missing");
	if (ret->labels.n > LABELS_MAX || ret->env.n > ENV_MAX)
		return cay_fail_field(err, CAY_E_INVALID, ret->env.n > ENV_MAX ? "env" : "labels",
				      "with the template's there are more than %d",
				      ret->env.n > ENV_MAX ? ENV_MAX : LABELS_MAX);
	ret->limits.given = 0; /* from now on all of them are said */
	return 0;
}

/* What only one sandbox can have is no default. */
int template_check(const struct cayd *c, const struct sandbox_create *d, struct cay_err *err)
{
	if (!d->image)
		return cay_fail_field(err, CAY_E_INVALID, "defaults.image", "'image' is missing");
	if (d->name || d->template)
		return cay_fail_field(err, CAY_E_INVALID,
				      d->name ? "defaults.name" : "defaults.template",
				      "a template cannot say this for every sandbox");
	if (!image_find(c->images, d->image))
		return cay_fail_field(err, CAY_E_NOT_FOUND, "defaults.image",
				      "there is no image '%s'", d->image);
	return services_check(&d->services, "defaults.services", err);
}

/* While something is built nobody else changes it. */
static enum template_change what_changed(const struct template_row *was, const struct template *now)
{
	if (was->building[0] && was->saved)
		return now->error ? TEMPLATE_UNBUILT : TEMPLATE_BUILT;
	return now->created_ns == was->info.created_ns ? TEMPLATE_POOLED : TEMPLATE_CHANGED;
}

static void on_created(struct later *l, const struct cay_err *outcome)
{
	struct templates *all = l->cayd->templates;
	struct template_row **at = find(all, &l->id), *next;
	enum template_change change = TEMPLATE_CREATED;

	if (!outcome->code && (*at)->next) {
		next = cay_take((*at)->next);
		change = what_changed(*at, &next->info);
		template_free(*at);
		*at = next;
	} else if (outcome->code && !(*at)->next) {
		/* a write that failed may still be there */
		db_drop_entry(l->cayd->db, &l->id, NULL, NULL);
		take_out(all, at);
		at = NULL;
	} else if (outcome->code) {
		template_free(cay_take((*at)->next));
		if (!l->rq) /* what was built for it is not its own */
			(*at)->building[0] = 0;
	}
	if (at)
		(*at)->saved = true;
	stocks_soon(l->cayd);
	if (!outcome->code)
		event_template(l->cayd, &(*at)->info, change);
	if (l->rq && outcome->code)
		request_fail(l->rq, outcome);
	else if (l->rq)
		reply(l->cayd, l->rq, *at);
}

/* Where it will be: in place of the one of its name, or behind the others. */
static int place(struct templates *all, struct template_row *t, struct cay_err *err)
{
	struct template_row **at = find_name(all, t->info.name);

	if (at && ((*at)->next || !is_there(*at)))
		return cay_fail(err, CAY_E_CONFLICT, "'%s' is being changed", t->info.name);
	if (!at && all->n == TEMPLATES_MAX)
		return cay_fail(err, CAY_E_LIMIT, "there are %d templates already", TEMPLATES_MAX);
	if (at)
		(*at)->next = t;
	else
		all->rows[all->n++] = t;
	return 0;
}

static int check_pool(const struct pool_conf *p, struct cay_err *err)
{
	if (p->max && p->min > p->max)
		return cay_fail_field(err, CAY_E_INVALID, "min", "'min' is more than 'max'");
	return 0;
}

static struct template_row *make(struct cayd *c, const struct template *want, struct buf *text,
				 struct cay_err *err)
{
	struct template_row **old = find_name(c->templates, want->name), *t;
	struct template info = *want;
	struct jw w = jw_to(text);

	if (check_pool(&info.pool, err) < 0)
		return NULL;
	if (old)
		info.id = (*old)->info.id;
	else if (id_new(ID_TEMPLATE, 0, 0, &info.id) < 0)
		(void)cay_fail(err, CAY_E_INTERNAL, "no chance left");
	field_encode(&template_table, NULL, &info, &w);
	if (jw_done(&w) < 0)
		(void)cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	if (err->code)
		return NULL;
	t = template_read((struct slice){ buf_str(text), text->len }, err);
	if (t && place(c->templates, t, err) < 0) {
		template_free(t);
		return NULL;
	}
	return t;
}

/* Somebody waits for it, or a build is over and nobody does. */
static struct later *later_for(struct cayd *c, struct request *rq, const struct id *id)
{
	struct later *l;

	if (rq)
		return later_new(c, rq, id, on_created);
	l = calloc(1, sizeof(*l));
	if (l)
		*l = (struct later){ .cayd = c, .id = *id, .done = on_created };
	return l;
}

struct template_row *template_put(struct cayd *c, struct request *rq, const struct template *want,
				  struct cay_err *err)
{
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct template_row *t = make(c, want, &text, err), **at;
	struct db_entry entry;
	struct later *l;

	if (!t)
		return NULL;
	l = later_for(c, rq, &t->info.id);
	if (!l) {
		at = find(c->templates, &t->info.id);
		if ((*at)->next)
			template_free(cay_take((*at)->next));
		else
			take_out(c->templates, at);
		if (!rq)
			(void)cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
		return NULL;
	}
	entry = (struct db_entry){ t->info.id, { text.data, text.len } };
	db_put_entry(c->db, &entry, later_told, l);
	return t;
}

struct template template_wanted(const struct cayd *c, const struct template_create *q)
{
	const struct template_row *old = template_named(c, q->name);
	struct template want = { .name = q->name,
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

void template_create(struct cayd *c, struct request *rq)
{
	const struct template_create *q = rq->body;
	const struct template_row *old = template_any(c, q->name), *t;
	struct template want = template_wanted(c, q);
	struct layer_spec spec = { .files = q->files,
				   .packages = q->packages,
				   .setup = q->setup,
				   .has_setup = q->has_setup };
	struct cay_err err = {};

	if (old && old->building[0]) {
		request_refuse(rq, CAY_E_CONFLICT, "it is being built");
		return;
	}
	if (build_any(&spec)) {
		template_build(c, rq, &spec);
		return;
	}
	t = template_check(c, &q->defaults, &err) < 0 ? NULL : template_put(c, rq, &want, &err);
	if (t)
		rq->target = t->info.id;
	else if (err.code)
		request_fail(rq, &err);
}

void template_list(struct cayd *c, struct request *rq)
{
	const struct page_query *q = rq->query;
	const struct templates *all = c->templates;
	struct template *rows = pool_take(&rq->pool, q->limit, sizeof(*rows));
	struct template_list list = { .templates = { rows, 0 } };
	uint64_t at;

	if (!page_begins(rq, q->cursor, rows, &at))
		return;
	for (; at < all->n && list.templates.n < q->limit; at++)
		if (is_there(all->rows[at]))
			rows[list.templates.n++] = seen(c, all->rows[at]);
	if (at < all->n)
		list.next_cursor = page_cursor(rq, at);
	request_reply_json(rq, &template_list_table, &list);
}

static struct template_row *wanted(struct cayd *c, struct request *rq)
{
	struct template_row **at = find(c->templates, &rq->match.params[0]);

	if (at && is_there(*at))
		return *at;
	request_refuse(rq, CAY_E_NOT_FOUND, "there is no such template");
	return NULL;
}

void template_get(struct cayd *c, struct request *rq)
{
	const struct template_row *t = wanted(c, rq);

	if (t)
		reply(c, rq, t);
}

void template_pool(struct cayd *c, struct request *rq)
{
	const struct template_row *t = wanted(c, rq);
	struct cay_err err = {};
	struct template info;

	if (!t)
		return;
	if (t->building[0]) {
		request_refuse(rq, CAY_E_CONFLICT, "it is being built");
		return;
	}
	info = t->info;
	info.pool = *(const struct pool_conf *)rq->body;
	info.has_pool = true;
	if (!template_put(c, rq, &info, &err) && err.code)
		request_fail(rq, &err);
}

static void on_deleted(struct later *l, const struct cay_err *outcome)
{
	struct template_row **at = find(l->cayd->templates, &l->id);

	if (l->rq && outcome->code)
		request_fail(l->rq, outcome);
	else if (l->rq)
		request_reply_json(l->rq, &template_table, &(*at)->info);
	if (outcome->code) {
		(*at)->leaving = false;
	} else {
		event_template(l->cayd, &(*at)->info, TEMPLATE_REMOVED);
		take_out(l->cayd->templates, at);
	}
	stocks_soon(l->cayd);
}

void template_delete(struct cayd *c, struct request *rq)
{
	struct template_row *t = wanted(c, rq);
	struct later *l;

	if (!t)
		return;
	if (t->next) {
		request_refuse(rq, CAY_E_CONFLICT, "it is being changed");
		return;
	}
	l = later_new(c, rq, &t->info.id, on_deleted);
	if (!l)
		return;
	t->leaving = true;
	db_drop_entry(c->db, &t->info.id, later_told, l);
}
