/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/tenant.h"

#include "cayd/box.h"
#include "cayd/event.h"
#include "cayd/key.h"
#include "cayd/later.h"
#include "cayd/layer.h"
#include "cayd/page.h"
#include "cayd/upload.h"

#define NAME_MAX_LEN 63
#define TEXT_MAX KIB(1)

struct row {
	struct tenant info; /* its name is the one below */
	char name[NAME_MAX_LEN + 1];
	bool saved, leaving;
};

struct tenants {
	struct row *rows[TENANTS_MAX];
	size_t n;
};

const struct id default_tenant = { .noun = ID_TENANT };
const struct id warm_tenant = { .noun = ID_TENANT, .bits = { [14] = 1 } };
const struct id build_tenant = { .noun = ID_TENANT, .bits = { [14] = 2 } };

static struct row *find(const struct tenants *all, const struct id *id)
{
	for (size_t i = 0; i < all->n; i++)
		if (id_eq(&all->rows[i]->info.id, id))
			return all->rows[i];
	return NULL;
}

static bool is_there(const struct row *r)
{
	return r && r->saved && !r->leaving;
}

bool tenant_known(const struct cayd *c, const struct id *id)
{
	return is_there(find(c->tenants, id));
}

/* NULL also for a name that no schema lets through. */
static struct row *add(struct tenants *all, const struct tenant *info)
{
	size_t name = strlen(info->name);
	bool fits = name <= NAME_MAX_LEN && all->n < TENANTS_MAX;
	struct row *r = fits ? calloc(1, sizeof(*r)) : NULL;

	if (!r)
		return NULL;
	r->info = *info;
	memcpy(r->name, info->name, name);
	r->info.name = r->name;
	all->rows[all->n++] = r;
	return r;
}

static void take_out(struct tenants *all, const struct id *id)
{
	for (size_t i = 0; i < all->n; i++)
		if (id_eq(&all->rows[i]->info.id, id)) {
			free(all->rows[i]);
			memmove(&all->rows[i], &all->rows[i + 1],
				(--all->n - i) * sizeof(all->rows[0]));
			return;
		}
}

int tenants_open(struct cayd *c, struct cay_err *err)
{
	struct tenant first = { .id = default_tenant, .name = "default" };
	struct row *r;

	c->tenants = calloc(1, sizeof(*c->tenants));
	r = c->tenants ? add(c->tenants, &first) : NULL;
	if (!r)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	r->saved = true;
	return 0;
}

int tenant_restore(struct cayd *c, const struct db_entry *e, struct cay_err *err)
{
	auto_pool pool = POOL_INIT(KIB(4));
	struct tenant info = {};
	struct row *r;
	int e2 = field_read(&tenant_table, e->text, &json_control_limits, &pool, &info, err);

	if (e2 < 0)
		return e2;
	if (!id_eq(&info.id, &e->id) || find(c->tenants, &e->id))
		return cay_fail(err, CAY_E_INVALID, "a tenant of the journal makes no sense");
	r = add(c->tenants, &info);
	if (!r)
		return cay_fail(err, CAY_E_NO_MEMORY, "no room for a tenant");
	r->saved = true;
	return 0;
}

static void on_created(struct later *l, const struct cay_err *outcome)
{
	struct row *r = find(l->cayd->tenants, &l->id);

	if (outcome->code) {
		/* a write that failed may still be there */
		db_drop_entry(l->cayd->db, &l->id, NULL, NULL);
		take_out(l->cayd->tenants, &l->id);
		if (l->rq)
			request_fail(l->rq, outcome);
		return;
	}
	r->saved = true;
	if (l->rq)
		request_reply_json(l->rq, &tenant_table, &r->info);
}

static int admit(const struct tenants *all, const char *name, struct cay_err *err)
{
	for (size_t i = 0; i < all->n; i++)
		if (str_eq(all->rows[i]->name, name))
			return cay_fail_field(err, CAY_E_CONFLICT, "name",
					      "there is a tenant '%s' already", name);
	if (all->n == TENANTS_MAX)
		return cay_fail(err, CAY_E_LIMIT, "there are %d tenants already", TENANTS_MAX);
	return 0;
}

void tenant_create(struct cayd *c, struct request *rq)
{
	const struct tenant_create *q = rq->body;
	struct tenant info = { .name = q->name, .created_ns = clk_wall_ns(c->clk) };
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct jw w = jw_to(&text);
	struct cay_err err = {};
	struct db_entry entry;
	struct later *l;

	if (admit(c->tenants, q->name, &err) >= 0 && id_new(ID_TENANT, 0, 0, &info.id) < 0)
		(void)cay_fail(&err, CAY_E_INTERNAL, "no chance left");
	field_encode(&tenant_table, NULL, &info, &w);
	if (!err.code && (jw_done(&w) < 0 || !add(c->tenants, &info)))
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
	if (err.code) {
		request_fail(rq, &err);
		return;
	}
	l = later_new(c, rq, &info.id, on_created);
	if (!l) {
		take_out(c->tenants, &info.id);
		return;
	}
	entry = (struct db_entry){ info.id, { text.data, text.len } };
	db_put_entry(c->db, &entry, later_told, l);
}

void tenant_list(struct cayd *c, struct request *rq)
{
	const struct page_query *q = rq->query;
	const struct tenants *all = c->tenants;
	struct tenant *rows = pool_take(&rq->pool, q->limit, sizeof(*rows));
	struct tenant_list list = { .tenants = { rows, 0 } };
	uint64_t at;

	if (!page_begins(rq, q->cursor, rows, &at))
		return;
	for (; at < all->n && list.tenants.n < q->limit; at++)
		if (is_there(all->rows[at]))
			rows[list.tenants.n++] = all->rows[at]->info;
	if (at < all->n)
		list.next_cursor = page_cursor(rq, at);
	request_reply_json(rq, &tenant_list_table, &list);
}

static void on_uploads_gone(void *arg, const struct cay_err *outcome)
{
	struct cayd *c = arg;

	if (outcome->code) /* the next start does it */
		log_warn(&c->log, "uploads of a tenant that is gone are left: %s", outcome->msg);
}

static void on_deleted(struct later *l, const struct cay_err *outcome)
{
	struct row *r = find(l->cayd->tenants, &l->id);
	struct tenant info = r->info;
	char name[sizeof(r->name)];

	memcpy(name, r->name, sizeof(name));
	info.name = name;
	if (outcome->code)
		r->leaving = false;
	else
		take_out(l->cayd->tenants, &l->id);
	if (!outcome->code) {
		layers_forget(l->cayd, &l->id);
		uploads_forget(l->cayd, &l->id, NULL, on_uploads_gone, l->cayd);
	}
	if (l->rq && outcome->code)
		request_fail(l->rq, outcome);
	else if (l->rq)
		request_reply_json(l->rq, &tenant_table, &info);
}

/* What it has keeps it. */
static int may_leave(const struct cayd *c, const struct row *r, struct cay_err *err)
{
	unsigned boxes, keys;

	if (!is_there(r))
		return cay_fail(err, CAY_E_NOT_FOUND, "there is no such tenant");
	if (id_eq(&r->info.id, &default_tenant))
		return cay_fail(err, CAY_E_CONFLICT, "the default tenant stays");
	boxes = boxes_live_of(c->boxes, &r->info.id);
	keys = keys_good_of(c, &r->info.id);
	if (boxes || keys)
		return cay_fail(err, CAY_E_CONFLICT, "it has %u live sandboxes and %u good keys",
				boxes, keys);
	return 0;
}

void tenant_delete(struct cayd *c, struct request *rq)
{
	struct row *r = find(c->tenants, &rq->match.params[0]);
	struct cay_err err = {};
	struct later *l;

	if (may_leave(c, r, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	l = later_new(c, rq, &r->info.id, on_deleted);
	if (!l)
		return;
	r->leaving = true; /* nothing is made in it from now on */
	keys_forget(c, &r->info.id);
	events_sweep(c);
	db_drop_entry(c->db, &r->info.id, later_told, l);
}
