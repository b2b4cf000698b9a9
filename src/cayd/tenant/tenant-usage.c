/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenant-usage - what the sandboxes of a tenant, or those with one value of a label, use together
 *
 * Each page sums up its rows from the last sample of each sandbox and from the records
 * of ended ones; the cursor is a position in the order of tenants, or of values.
 */
#include "cayd/core/cursor.h"
#include "cayd/core/handlers.h"
#include "cayd/core/list-page.h"
#include "cayd/sandbox/usage-sample.h"
#include "cayd/tenant/tenant.h"

#define SLOTS_MIN 64

/* Rows by tenant or value; slots is an open hash of positions, 0: free. */
struct usage_sums {
	struct usage_row *rows;
	size_t *slots;
	size_t n, n_slots;
	bool by_label;
};

static void usage_sums_fini(struct usage_sums *s)
{
	free(s->rows);
	free(s->slots);
}

static bool usage_row_is_of(const struct usage_sums *s, const struct usage_row *row,
			    const struct id *tenant, const char *value)
{
	if (!s->by_label)
		return id_eq(&row->tenant, tenant);
	return row->value == value || (row->value && value && str_eq(row->value, value));
}

static size_t *usage_sums_find_slot(const struct usage_sums *s, const struct id *tenant,
				    const char *value)
{
	uint64_t at = s->by_label ? hash_bytes(0, value ? value : "", value ? strlen(value) : 0)
				  : hash_bytes(0, tenant, sizeof(*tenant));
	size_t *slot;

	for (;; at++) {
		slot = &s->slots[at & (s->n_slots - 1)];
		if (!*slot || usage_row_is_of(s, &s->rows[*slot - 1], tenant, value))
			return slot;
	}
}

/* Twice the slots, and as many rows as half of them. */
static int usage_sums_grow(struct usage_sums *s)
{
	size_t n_slots = s->n_slots ? 2 * s->n_slots : SLOTS_MIN;
	struct usage_row *rows = realloc(s->rows, n_slots / 2 * sizeof(*rows));
	size_t *slots = calloc(n_slots, sizeof(*slots));

	if (rows)
		s->rows = rows;
	if (!rows || !slots) {
		free(slots);
		return -ENOMEM;
	}
	free(s->slots);
	s->slots = slots;
	s->n_slots = n_slots;
	for (size_t i = 0; i < s->n; i++)
		*usage_sums_find_slot(s, &rows[i].tenant, rows[i].value) = i + 1;
	return 0;
}

/* NULL when out of memory.  The value belongs to a sandbox. */
static struct usage_row *usage_sums_get(struct usage_sums *s, const struct id *tenant,
					const char *value)
{
	size_t *slot;

	if (s->n == s->n_slots / 2 && usage_sums_grow(s) < 0)
		return NULL;
	slot = usage_sums_find_slot(s, tenant, value);
	if (!*slot) {
		s->rows[s->n++] = (struct usage_row){ .tenant = *tenant, .value = value };
		*slot = s->n;
	}
	return &s->rows[*slot - 1];
}

static void usage_row_add_sandbox(struct usage_row *row, const struct sandbox *sb)
{
	bool up = sb->life.state == SB_RUNNING || sb->life.state == SB_PAUSED;

	if (life_is_finished(&sb->life)) {
		row->ended++;
		row->cpu_ms += sb->info.has_cpu ? sb->info.cpu_ms : 0;
		return;
	}
	row->sandboxes += sb->life.state < SB_ENDING;
	row->running += sb->life.state == SB_RUNNING;
	row->memory_limit_bytes += sb->count.granted.memory_bytes;
	row->pids_limit += sb->count.granted.pids;
	row->disk_limit_bytes += sb->count.granted.disk_bytes;
	row->cpu_ms += sb->info.has_cpu ? sb->info.cpu_ms : 0; /* of its earlier runs */
	if (sb->life.state == SB_STOPPED && sb->usage.disk_known) {
		row->has_disk = true;
		row->disk_bytes += sb->usage.disk_bytes;
	}
	if (!up || !sb->usage.known)
		return;
	row->cpu_ms += sb->usage.now.cpu_ns / NS_PER_MS;
	row->memory_bytes += sb->usage.now.memory_bytes;
	row->processes += sb->usage.now.processes;
	row->has_disk |= sb->usage.disk_known;
	row->disk_bytes += sb->usage.disk_known ? sb->usage.disk_bytes : 0;
}

static const char *labels_find_value(const struct field_map *labels, const char *name)
{
	for (size_t i = 0; i < labels->n; i++)
		if (str_eq(labels->keys[i], name))
			return labels->values[i];
	return NULL;
}

/* Tenants come in the order of their table, also those without a sandbox. */
static int usage_sums_add_tenants(struct usage_sums *s, const struct cayd *c,
				  const struct actor *who)
{
	for (size_t i = 0; i < tenants_count(c); i++) {
		const struct tenant_info *t = tenant_at(c, i);
		struct usage_row *row;

		if (!t || (who->scope != SCOPE_OPERATOR && !id_eq(&t->id, &who->tenant)))
			continue;
		row = usage_sums_get(s, &t->id, NULL);
		if (!row)
			return -ENOMEM;
		row->name = t->name;
	}
	return 0;
}

static int usage_sums_add_sandboxes(struct usage_sums *s, struct cayd *c, const struct actor *who,
				    const struct usage_list_query *q)
{
	bool all = who->scope == SCOPE_OPERATOR && !s->by_label;

	for (struct sandbox *sb = sandboxes_newest(c->sandboxes); sb; sb = sb->older) {
		const char *value =
			s->by_label ? labels_find_value(&sb->info.labels, q->label) : NULL;
		struct usage_row *row;

		if ((!all && !id_eq(&sb->info.tenant, &who->tenant)) || sb->life.claimed ||
		    (q->group && (!sb->info.group || !str_eq(sb->info.group, q->group))) ||
		    (all && !tenant_get_info(c, &sb->info.tenant))) /* warm, or of a build */
			continue;
		row = usage_sums_get(s, &sb->info.tenant, value);
		if (!row)
			return -ENOMEM;
		usage_row_add_sandbox(row, sb);
	}
	return 0;
}

/* By value; sandboxes without the label come last. */
static int usage_row_compare_value(const void *a, const void *b)
{
	const struct usage_row *x = a, *y = b;

	if (!x->value || !y->value)
		return !x->value - !y->value;
	return strcmp(x->value, y->value);
}

static void usage_sums_reply(const struct usage_sums *s, struct request *rq, uint64_t at)
{
	const struct usage_list_query *q = rq->query;
	struct list_page page;

	list_page_begin(&page, "usage");
	for (; at < s->n && page.rows < q->limit; at++)
		if (!list_page_add(&page, &usage_row_table, &s->rows[at]))
			break;
	list_page_finish(&page, at < s->n ? cursor_format(rq, at) : NULL);
	list_page_reply(&page, rq);
}

static bool usage_query_check(struct request *rq, uint64_t *ret_at)
{
	struct usage_list_query *q = rq->query;
	struct cay_err err = {};

	if (q->by == USAGE_BY_LABEL && !q->label)
		(void)cay_fail_field(&err, CAY_E_INVALID, "label",
				     "by=label needs the name of a label");
	else if (q->by != USAGE_BY_LABEL && q->label)
		(void)cay_fail_field(&err, CAY_E_INVALID, "label", "only by=label takes a label");
	if (err.code) {
		request_fail(rq, &err);
		return false;
	}
	return request_bind_group(rq, &q->group) && cursor_parse(rq, q->cursor, ret_at);
}

void op_tenant_usage(struct cayd *c, struct request *rq)
{
	const struct usage_list_query *q = rq->query;
	struct usage_sums s = { .by_label = q->by == USAGE_BY_LABEL };
	uint64_t at;
	int r;

	if (!usage_query_check(rq, &at) || !usage_sample_is_recent(c, rq))
		return;
	r = s.by_label ? 0 : usage_sums_add_tenants(&s, c, &rq->actor);
	if (r >= 0)
		r = usage_sums_add_sandboxes(&s, c, &rq->actor, q);
	if (s.by_label && s.n)
		qsort(s.rows, s.n, sizeof(*s.rows), usage_row_compare_value);
	if (r < 0)
		request_no_memory(rq);
	else
		usage_sums_reply(&s, rq, at);
	usage_sums_fini(&s);
}
