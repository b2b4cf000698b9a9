/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/tenant/tenant.h"
#include "cayd/core/handlers.h"

#include "cayd/core/cursor.h"
#include "cayd/core/deferred-reply.h"
#include "cayd/core/keeper-link.h"
#include "cayd/core/list-page.h"
#include "cayd/sandbox/sandbox.h"
#include "cayd/tenant/api-key.h"
#include "cayd/tenant/quota.h"

#define NAME_MAX_LEN 63
#define TEXT_MAX KIB(4)

struct tenant_row {
	struct tenant_info info; /* its name is the member below */
	char name[NAME_MAX_LEN + 1];
	bool saved, deleting;
	uint64_t next_create_ns; /* grant_take_turn() */
	bool updating;
	struct tenant_info before; /* what the journal has while updating */
};

struct tenants {
	struct tenant_row *rows[TENANTS_MAX];
	size_t n;
};

const struct id default_tenant = { .noun = ID_TENANT };
const struct id warm_tenant = { .noun = ID_TENANT, .bits = { [14] = 1 } };
const struct id build_tenant = { .noun = ID_TENANT, .bits = { [14] = 2 } };

static struct tenant_row *tenant_find(const struct tenants *all, const struct id *id)
{
	for (size_t i = 0; i < all->n; i++)
		if (id_eq(&all->rows[i]->info.id, id))
			return all->rows[i];
	return NULL;
}

static bool tenant_is_active(const struct tenant_row *r)
{
	return r && r->saved && !r->deleting;
}

bool tenant_is_for_builds(const struct id *tenant)
{
	return id_eq(tenant, &build_tenant);
}

const struct tenant_info *tenant_get_info(const struct cayd *c, const struct id *id)
{
	const struct tenant_row *r = tenant_find(c->tenants, id);

	return r ? &r->info : NULL;
}

bool tenant_take_create(struct cayd *c, const struct id *id)
{
	struct tenant_row *r = tenant_find(c->tenants, id);
	struct quotas q = quota_get(c, id);

	return !r || !q.has_creates ||
	       grant_take_turn(&r->next_create_ns, q.creates_per_s, clk_boot_ns(c->clk));
}

bool tenant_exists(const struct cayd *c, const struct id *id)
{
	return tenant_is_active(tenant_find(c->tenants, id));
}

const struct tenant_info *tenant_at(const struct cayd *c, size_t i)
{
	const struct tenant_row *r = c->tenants->rows[i];

	return tenant_is_active(r) ? &r->info : NULL;
}

size_t tenants_count(const struct cayd *c)
{
	return c->tenants->n;
}

int tenants_require_disk_quota(const struct cayd *c, size_t n_tenants, struct cay_err *err)
{
	if (n_tenants < 2 || c->settings.unlimited_disk || !keeper_is_up(c->keeper) ||
	    keeper_disk_kind(c->keeper) != VERB_DISK_NONE)
		return 0;
	return cay_fail(
		err, CAY_E_UNSUPPORTED,
		"one tenant's sandbox could fill the disk of all tenants, because paths.state "
		"has no quotas; run 'cay setup' as root, or set node.unlimited_disk");
}

/* NULL also for a name that no schema accepts. */
static struct tenant_row *tenant_row_add(struct tenants *all, const struct tenant_info *info)
{
	size_t name = strlen(info->name);
	bool fits = name <= NAME_MAX_LEN && all->n < TENANTS_MAX;
	struct tenant_row *r = fits ? calloc(1, sizeof(*r)) : NULL;

	if (!r)
		return NULL;
	r->info = *info;
	memcpy(r->name, info->name, name);
	r->info.name = r->name;
	all->rows[all->n++] = r;
	return r;
}

static void tenant_row_remove(struct tenants *all, const struct id *id)
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
	struct tenant_info first = { .id = default_tenant, .name = "default" };
	struct tenant_row *r;

	c->tenants = calloc(1, sizeof(*c->tenants));
	r = c->tenants ? tenant_row_add(c->tenants, &first) : NULL;
	if (!r)
		return cay_no_memory(err);
	r->saved = true;
	return 0;
}

int tenant_restore(struct cayd *c, const struct db_entry *e, struct cay_err *err)
{
	auto_arena arena = ARENA_INIT(KIB(16));
	struct tenant_info info = {};
	struct tenant_row *r;
	int e2 = field_decode_text(&tenant_info_table, e->text, &json_control_limits, &arena, &info,
				   err);

	if (e2 < 0)
		return e2;
	if (!id_eq(&info.id, &e->id) || tenant_find(c->tenants, &e->id))
		return cay_fail(err, CAY_E_INVALID, "the journal has an invalid tenant");
	r = tenant_row_add(c->tenants, &info);
	if (!r)
		return cay_fail(err, CAY_E_NO_MEMORY, "cannot add a tenant");
	r->saved = true;
	return 0;
}

static void on_tenant_created(struct deferred_reply *l, const struct cay_err *outcome)
{
	struct tenant_row *r = tenant_find(l->cayd->tenants, &l->id);

	if (outcome->code) {
		/* a failed write may have reached the disk */
		db_entry_delete(l->cayd->db, &l->id, NULL, NULL);
		tenant_row_remove(l->cayd->tenants, &l->id);
		if (l->rq)
			request_fail(l->rq, outcome);
		return;
	}
	r->saved = true;
	if (l->rq)
		request_reply_json(l->rq, &tenant_info_table, &r->info);
}

static int tenant_check_create(const struct tenants *all, const char *name, struct cay_err *err)
{
	for (size_t i = 0; i < all->n; i++)
		if (str_eq(all->rows[i]->name, name))
			return cay_fail_field(err, CAY_E_CONFLICT, "name",
					      "there is a tenant '%s' already", name);
	if (all->n == TENANTS_MAX)
		return cay_fail(err, CAY_E_LIMIT, "there are %d tenants already", TENANTS_MAX);
	return 0;
}

void op_tenant_create(struct cayd *c, struct request *rq)
{
	const struct tenant_create *q = rq->body;
	struct tenant_info info = { .name = q->name, .created_ns = clk_wall_ns(c->clk) };
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct jw w = jw_to(&text);
	struct cay_err err = {};
	struct db_entry entry;
	struct deferred_reply *l;

	if (tenant_check_create(c->tenants, q->name, &err) >= 0 &&
	    tenants_require_disk_quota(c, c->tenants->n + 1, &err) >= 0 &&
	    id_generate(ID_TENANT, 0, 0, &info.id) < 0)
		(void)cay_fail(&err, CAY_E_INTERNAL, "cannot get random bytes");
	field_encode(&tenant_info_table, NULL, &info, &w);
	if (!err.code && (jw_finish(&w) < 0 || !tenant_row_add(c->tenants, &info)))
		(void)cay_no_memory(&err);
	if (err.code) {
		request_fail(rq, &err);
		return;
	}
	l = deferred_reply_create(c, rq, &info.id, on_tenant_created);
	if (!l) {
		tenant_row_remove(c->tenants, &info.id);
		return;
	}
	entry = (struct db_entry){ info.id, { text.data, text.len } };
	db_entry_put(c->db, &entry, deferred_reply_finish, l);
}

void op_tenant_list(struct cayd *c, struct request *rq)
{
	const struct page_query *q = rq->query;
	const struct tenants *all = c->tenants;
	struct list_page page;
	uint64_t at;

	if (!cursor_parse(rq, q->cursor, &at))
		return;
	list_page_begin(&page, "tenants");
	for (; at < all->n && page.rows < q->limit; at++)
		if (tenant_is_active(all->rows[at]) &&
		    !list_page_add(&page, &tenant_info_table, &all->rows[at]->info))
			break;
	list_page_finish(&page, at < all->n ? cursor_format(rq, at) : NULL);
	list_page_reply(&page, rq);
}

static void tenant_reply_status(const struct cayd *c, struct request *rq,
				const struct tenant_row *r)
{
	struct tenant_status status = {};

	if (!tenant_is_active(r)) {
		request_refuse(rq, CAY_E_NOT_FOUND, "there is no such tenant");
		return;
	}
	status.tenant = r->info;
	quota_describe(c, &r->info.id, &status);
	request_reply_json(rq, &tenant_status_table, &status);
}

void op_tenant_get(struct cayd *c, struct request *rq)
{
	tenant_reply_status(c, rq, tenant_find(c->tenants, &rq->match.params[0]));
}

void op_tenant_self(struct cayd *c, struct request *rq)
{
	tenant_reply_status(c, rq, tenant_find(c->tenants, &rq->actor.tenant));
}

/* Members that are there; all rows of these tables are numbers with a flag. */
static void tenant_merge_numbers(const struct field_table *t, const void *from, void *to)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct field *f = &t->rows[i];

		if (!*((const bool *)from + (f->has - 1)))
			continue;
		*((bool *)to + (f->has - 1)) = true;
		memcpy((char *)to + f->offset, (const char *)from + f->offset, sizeof(uint64_t));
	}
}

static struct tenant_info tenant_merge_update(const struct tenant_row *r,
					      const struct tenant_update *q)
{
	struct tenant_info next = r->info;

	if (q->reset) {
		next.quotas = (struct quotas){};
		next.ceilings = (struct ceilings){};
		next.has_quotas = next.has_ceilings = false;
	}
	if (q->has_quotas)
		tenant_merge_numbers(&quotas_table, &q->quotas, &next.quotas);
	if (q->has_ceilings)
		tenant_merge_numbers(&ceilings_table, &q->ceilings, &next.ceilings);
	next.has_quotas |= q->has_quotas;
	next.has_ceilings |= q->has_ceilings;
	return next;
}

static void on_tenant_updated(struct deferred_reply *l, const struct cay_err *outcome)
{
	struct tenant_row *r = tenant_find(l->cayd->tenants, &l->id);

	r->updating = false;
	if (outcome->code)
		r->info = r->before;
	request_reply_outcome(l->rq, outcome, &tenant_info_table, &r->info);
}

/* The row counts at once, as a lower quota must.  A write that fails brings back the row before. */
void op_tenant_update(struct cayd *c, struct request *rq)
{
	struct tenant_row *r = tenant_find(c->tenants, &rq->match.params[0]);
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct jw w = jw_to(&text);
	struct tenant_info next;
	struct db_entry entry;
	struct deferred_reply *l;

	if (!tenant_is_active(r)) {
		request_refuse(rq, CAY_E_NOT_FOUND, "there is no such tenant");
		return;
	}
	if (id_eq(&r->info.id, &default_tenant)) {
		request_refuse(rq, CAY_E_CONFLICT,
			       "the default tenant has the quotas of cay.conf, section tenant");
		return;
	}
	if (r->updating) {
		request_refuse(rq, CAY_E_CONFLICT, "its quotas are being changed");
		return;
	}
	next = tenant_merge_update(r, rq->body);
	field_encode(&tenant_info_table, NULL, &next, &w);
	if (jw_finish(&w) < 0) {
		request_no_memory(rq);
		return;
	}
	l = deferred_reply_create(c, rq, &r->info.id, on_tenant_updated);
	if (!l)
		return;
	r->before = r->info;
	r->info = next;
	r->updating = true;
	entry = (struct db_entry){ r->info.id, { text.data, text.len } };
	db_entry_put(c->db, &entry, deferred_reply_finish, l);
}

static void on_tenant_deleted(struct deferred_reply *l, const struct cay_err *outcome)
{
	struct tenant_row *r = tenant_find(l->cayd->tenants, &l->id);
	struct tenant_info info = r->info;
	char name[sizeof(r->name)];

	memcpy(name, r->name, sizeof(name));
	info.name = name;
	if (outcome->code)
		r->deleting = false;
	else
		tenant_row_remove(l->cayd->tenants, &l->id);
	if (!outcome->code)
		l->cayd->hooks->tenant_deleted(l->cayd, &l->id);
	request_reply_outcome(l->rq, outcome, &tenant_info_table, &info);
}

/* A tenant with sandboxes or keys stays. */
static int tenant_check_delete(const struct cayd *c, const struct tenant_row *r,
			       struct cay_err *err)
{
	unsigned sandboxes, keys;

	if (!tenant_is_active(r))
		return cay_fail(err, CAY_E_NOT_FOUND, "there is no such tenant");
	if (id_eq(&r->info.id, &default_tenant))
		return cay_fail(err, CAY_E_CONFLICT, "the default tenant cannot be deleted");
	if (r->updating)
		return cay_fail(err, CAY_E_CONFLICT, "its quotas are being changed");
	sandboxes = sandboxes_count_live_of(c->sandboxes, &r->info.id);
	keys = keys_count_usable(c, &r->info.id);
	if (sandboxes || keys)
		return cay_fail(err, CAY_E_CONFLICT,
				"the tenant still has %u sandbox%s and %u active key%s", sandboxes,
				sandboxes == 1 ? "" : "es", keys, keys == 1 ? "" : "s");
	return 0;
}

void op_tenant_delete(struct cayd *c, struct request *rq)
{
	struct tenant_row *r = tenant_find(c->tenants, &rq->match.params[0]);
	struct cay_err err = {};
	struct deferred_reply *l;

	if (tenant_check_delete(c, r, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	l = deferred_reply_create(c, rq, &r->info.id, on_tenant_deleted);
	if (!l)
		return;
	r->deleting = true; /* no sandbox and no key can be created in it from now on */
	keys_remove_of_tenant(c, &r->info.id);
	c->hooks->access_revoked(c);
	db_entry_delete(c->db, &r->info.id, deferred_reply_finish, l);
}
