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

#define TEXT_MAX KIB(64) /* of a row in the journal, what json_control_limits can read */
#define ROW_ARENA_MAX KIB(512)

/* Texts live in the arena. */
struct tenant_version {
	struct tenant_info info;
	struct arena arena;
};

struct tenant_row {
	struct tenant_info info;
	struct arena arena;
	bool saved, deleting;
	uint64_t next_create_ns, next_credential_ns; /* grant_take_turn() */
	bool updating, policy_changes;
	struct tenant_version before; /* what the journal has while it is written */
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

bool tenant_take_credential(struct cayd *c, const struct id *id)
{
	struct tenant_row *r = tenant_find(c->tenants, id);

	return !r ||
	       grant_take_turn(&r->next_credential_ns, CREDENTIALS_PER_S, clk_boot_ns(c->clk));
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

/* What the journal gets, and read again as the next start does: the caller frees the arena. */
static int tenant_version_create(const struct tenant_info *info, struct buf *text,
				 struct tenant_version *ret, struct cay_err *err)
{
	struct jw w = jw_to(text);
	int r;

	*ret = (struct tenant_version){ .arena = ARENA_INIT_SMALL(ROW_ARENA_MAX) };
	field_encode(&tenant_info_table, NULL, info, &w);
	r = jw_finish(&w);
	if (r >= 0)
		r = field_decode_text(&tenant_info_table, (struct slice){ text->data, text->len },
				      &json_control_limits, &ret->arena, &ret->info, NULL);
	if (r < 0)
		arena_fini(&ret->arena);
	if (r == -ENOMEM)
		return cay_no_memory(err);
	return r < 0 ? cay_fail(err, CAY_E_TOO_LARGE,
				"the policies are more than the journal keeps of one tenant")
		     : 0;
}

static void tenant_row_free(struct tenant_row *r)
{
	arena_fini(&r->arena);
	arena_fini(&r->before.arena);
	free(r);
}

/* Takes the arena of the version. */
static struct tenant_row *tenant_row_add(struct tenants *all, struct tenant_version *v)
{
	struct tenant_row *r = all->n < TENANTS_MAX ? calloc(1, sizeof(*r)) : NULL;

	if (!r) {
		arena_fini(&v->arena);
		return NULL;
	}
	r->info = v->info;
	r->arena = v->arena;
	all->rows[all->n++] = r;
	return r;
}

/* Its caller frees it. */
static void tenant_row_remove(struct tenants *all, const struct tenant_row *r)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->rows[i] == r) {
			memmove(&all->rows[i], &all->rows[i + 1],
				(--all->n - i) * sizeof(all->rows[0]));
			return;
		}
}

static void tenant_row_delete(struct tenants *all, struct tenant_row *r)
{
	tenant_row_remove(all, r);
	tenant_row_free(r);
}

int tenants_open(struct cayd *c, struct cay_err *err)
{
	struct tenant_version first = { .info = { .id = default_tenant, .name = "default" } };
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
	struct tenant_version v = { .arena = ARENA_INIT_SMALL(ROW_ARENA_MAX) };
	struct tenant_row *r;
	int e2 = field_decode_text(&tenant_info_table, e->text, &json_control_limits, &v.arena,
				   &v.info, err);

	if (e2 >= 0 && (!id_eq(&v.info.id, &e->id) || tenant_find(c->tenants, &e->id)))
		e2 = cay_fail(err, CAY_E_INVALID, "the journal has an invalid tenant");
	if (e2 < 0) {
		arena_fini(&v.arena);
		return e2;
	}
	r = tenant_row_add(c->tenants, &v);
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
		tenant_row_delete(l->cayd->tenants, r);
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
		if (str_eq(all->rows[i]->info.name, name))
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
	struct tenant_version v = {};
	struct cay_err err = {};
	struct db_entry entry;
	struct deferred_reply *l;

	if (tenant_check_create(c->tenants, q->name, &err) >= 0 &&
	    tenants_require_disk_quota(c, c->tenants->n + 1, &err) >= 0 &&
	    id_generate(ID_TENANT, 0, 0, &info.id) < 0)
		(void)cay_fail(&err, CAY_E_INTERNAL, "cannot get random bytes");
	if (!err.code && tenant_version_create(&info, &text, &v, &err) >= 0 &&
	    !tenant_row_add(c->tenants, &v))
		(void)cay_no_memory(&err);
	if (err.code) {
		request_fail(rq, &err);
		return;
	}
	l = deferred_reply_create(c, rq, &info.id, on_tenant_created);
	if (!l) {
		tenant_row_delete(c->tenants, tenant_find(c->tenants, &info.id));
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
		next.has_egress_default = next.has_egress_max = false;
	}
	if (q->has_quotas)
		tenant_merge_numbers(&quotas_table, &q->quotas, &next.quotas);
	if (q->has_ceilings)
		tenant_merge_numbers(&ceilings_table, &q->ceilings, &next.ceilings);
	next.has_quotas |= q->has_quotas;
	next.has_ceilings |= q->has_ceilings;
	if (q->has_egress_default)
		next.egress_default = q->egress_default;
	if (q->has_egress_max)
		next.egress_max = q->egress_max;
	next.has_egress_default |= q->has_egress_default;
	next.has_egress_max |= q->has_egress_max;
	return next;
}

static void tenant_row_swap(struct tenant_row *r, struct tenant_version *v)
{
	struct tenant_version was = { r->info, r->arena };

	r->info = v->info;
	r->arena = v->arena;
	*v = was;
}

static void on_tenant_updated(struct deferred_reply *l, const struct cay_err *outcome)
{
	struct tenant_row *r = tenant_find(l->cayd->tenants, &l->id);

	r->updating = false;
	request_reply_outcome(l->rq, outcome, &tenant_info_table, &r->info);
}

/* After a failure too: a sandbox may have got the policy that is now taken back. */
static void on_tenant_update_saved(void *arg, const struct cay_err *outcome)
{
	struct deferred_reply *l = arg;
	struct tenant_row *r = tenant_find(l->cayd->tenants, &l->id);
	bool waits = r->policy_changes && !outcome->code;

	if (outcome->code)
		tenant_row_swap(r, &r->before);
	arena_fini(&r->before.arena);
	if (r->policy_changes)
		l->cayd->hooks->tenant_policy_changed(
			l->cayd, &l->id, waits ? deferred_reply_finish : NULL, waits ? l : NULL);
	if (!waits)
		deferred_reply_finish(l, outcome);
}

static int tenant_check_update(const struct tenant_row *r, struct cay_err *err)
{
	if (!tenant_is_active(r))
		return cay_fail(err, CAY_E_NOT_FOUND, "there is no such tenant");
	if (id_eq(&r->info.id, &default_tenant))
		return cay_fail(err, CAY_E_CONFLICT,
				"the default tenant has the quotas of cay.conf, section tenant, "
				"and the egress policies of section egress");
	return r->updating ? cay_fail(err, CAY_E_CONFLICT, "its quotas are being changed") : 0;
}

/* The row counts at once, as a lower quota must.  A write that fails brings back the row before. */
void op_tenant_update(struct cayd *c, struct request *rq)
{
	struct tenant_row *r = tenant_find(c->tenants, &rq->match.params[0]);
	const struct tenant_update *q = rq->body;
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct tenant_version next = {};
	struct cay_err err = {};
	struct db_entry entry;
	struct deferred_reply *l;

	if (tenant_check_update(r, &err) >= 0) {
		struct tenant_info merged = tenant_merge_update(r, q);

		if (c->hooks->tenant_policies_check(c, &merged, &err) >= 0)
			(void)tenant_version_create(&merged, &text, &next, &err);
	}
	if (err.code) {
		request_fail(rq, &err);
		return;
	}
	l = deferred_reply_create(c, rq, &r->info.id, on_tenant_updated);
	if (!l) {
		arena_fini(&next.arena);
		return;
	}
	r->policy_changes = q->has_egress_max || (q->reset && r->info.has_egress_max);
	tenant_row_swap(r, &next);
	r->before = next;
	r->updating = true;
	entry = (struct db_entry){ r->info.id, { text.data, text.len } };
	db_entry_put(c->db, &entry, on_tenant_update_saved, l);
}

static void on_tenant_deleted(struct deferred_reply *l, const struct cay_err *outcome)
{
	struct tenant_row *r = tenant_find(l->cayd->tenants, &l->id);

	if (outcome->code) {
		r->deleting = false;
	} else {
		tenant_row_remove(l->cayd->tenants, r);
		l->cayd->hooks->tenant_deleted(l->cayd, &l->id);
	}
	request_reply_outcome(l->rq, outcome, &tenant_info_table, &r->info);
	if (!outcome->code)
		tenant_row_free(r);
}

/* A tenant with sandboxes or keys stays, and one whose files a template has. */
static int tenant_check_delete(const struct cayd *c, const struct tenant_row *r,
			       struct cay_err *err)
{
	const char *template;
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
	template = c->hooks->template_naming(c, &r->info.id);
	if (template)
		return cay_fail(err, CAY_E_CONFLICT,
				"template '%s' starts sandboxes from a snapshot of the tenant",
				template);
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
