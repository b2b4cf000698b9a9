/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/sandbox/count.h"

#include <assert.h>

#include "cayd/sandbox/sandbox.h"

#define BUCKETS 4096

struct sandbox_count {
	struct sandbox_count *next;
	enum count_kind kind;
	struct id tenant; /* zeros for a template */
	unsigned n;
	unsigned groups;  /* of a tenant: rows of COUNT_GROUP */
	struct grant sum; /* of a tenant */
	char text[];
};

struct sandbox_counts {
	struct grant total;
	struct sandbox_count *of[BUCKETS];
};

struct sandbox_counts *sandbox_counts_create(void)
{
	return calloc(1, sizeof(struct sandbox_counts));
}

/* The row, or where it would be linked. */
static struct sandbox_count *const *sandbox_counts_find(const struct sandbox_counts *t,
							enum count_kind kind,
							const struct id *tenant, const char *text)
{
	uint64_t h = hash_bytes(kind, tenant, sizeof(*tenant));
	struct sandbox_count *const *at = &t->of[hash_bytes(h, text, strlen(text)) % BUCKETS];

	while (*at && ((*at)->kind != kind || !id_eq(&(*at)->tenant, tenant) ||
		       !str_eq((*at)->text, text)))
		at = &(*at)->next;
	return at;
}

static struct sandbox_count *sandbox_counts_find_tenant(const struct sandbox_counts *t,
							const struct id *tenant)
{
	return *sandbox_counts_find(t, COUNT_TENANT, tenant, "");
}

static void sandbox_counts_increment(struct sandbox_counts *t, enum count_kind kind,
				     const struct id *tenant, const char *text)
{
	struct sandbox_count **at =
		(struct sandbox_count **)sandbox_counts_find(t, kind, tenant, text);

	if (!*at) {
		*at = calloc(1, sizeof(**at) + strlen(text) + 1);
		if (!*at)
			abort(); /* an uncounted sandbox could exceed a quota; a restart counts
				    again */
		(*at)->kind = kind;
		(*at)->tenant = *tenant;
		memcpy((*at)->text, text, strlen(text));
		if (kind == COUNT_GROUP) /* its tenant is counted first */
			sandbox_counts_find_tenant(t, tenant)->groups++;
	}
	(*at)->n++;
}

static void sandbox_counts_decrement(struct sandbox_counts *t, enum count_kind kind,
				     const struct id *tenant, const char *text)
{
	struct sandbox_count **at = (struct sandbox_count **)sandbox_counts_find(t, kind, tenant,
										 text),
			     *c = *at;

	assert(c && c->n);
	if (--c->n)
		return;
	*at = c->next;
	free(c);
	c = kind == COUNT_GROUP ? sandbox_counts_find_tenant(t, tenant) : NULL;
	if (c)
		c->groups--;
}

/* Replace its counted grant in the sums of its tenant and of the node. */
static void sandbox_counts_set_grant(struct sandbox_counts *t, struct sandbox *sb,
				     const struct grant *to)
{
	struct sandbox_count *c = sandbox_counts_find_tenant(t, &sb->info.tenant);

	if (!(sb->count.kinds & 1u << COUNT_TENANT))
		return;
	assert(c);
	c->sum = grant_replace(&c->sum, &sb->count.granted, to);
	t->total = grant_replace(&t->total, &sb->count.granted, to);
	sb->count.granted = *to;
}

/* The kinds it counts as, a bit each. */
static unsigned sandbox_count_kinds(const struct sandbox *sb)
{
	bool placed = sb->life.state < SB_ENDING;
	bool rests = life_is_at_rest(&sb->life); /* also while it starts: that may fail */

	return (placed ? 1u << COUNT_TENANT : 0) | (rests ? 1u << COUNT_STOPPED : 0) |
	       (placed && sb->info.group ? 1u << COUNT_GROUP : 0) |
	       (!life_is_finished(&sb->life) && sb->info.template ? 1u << COUNT_TEMPLATE : 0);
}

static void sandbox_counts_set_kinds(struct sandbox_counts *t, struct sandbox *sb, unsigned to)
{
	static const struct id nobody;
	struct grant granted = grant_of_limits(&sb->info.limits,
					       sb->resize.has_wanted ? &sb->resize.wanted : NULL);

	if (sb->life.state == SB_STOPPED) /* it has files and no process */
		granted = (struct grant){ .disk_bytes = granted.disk_bytes };
	sandbox_counts_set_grant(t, sb, &(struct grant){});
	for (unsigned kind = 0; kind < COUNT_KINDS; kind++) {
		const struct id *tenant = kind == COUNT_TEMPLATE ? &nobody : &sb->info.tenant;
		const char *text = kind == COUNT_GROUP      ? sb->info.group
				   : kind == COUNT_TEMPLATE ? sb->info.template
							    : "";

		if (to & ~sb->count.kinds & 1u << kind)
			sandbox_counts_increment(t, kind, tenant, text);
		else if (sb->count.kinds & ~to & 1u << kind)
			sandbox_counts_decrement(t, kind, tenant, text);
	}
	sb->count.kinds = to;
	sandbox_counts_set_grant(t, sb, &granted);
}

void sandbox_counts_update(struct sandbox_counts *t, struct sandbox *sb)
{
	sandbox_counts_set_kinds(t, sb, sandbox_count_kinds(sb));
}

void sandbox_counts_remove(struct sandbox_counts *t, struct sandbox *sb)
{
	sandbox_counts_set_kinds(t, sb, 0);
}

unsigned sandbox_counts_get(const struct sandbox_counts *t, enum count_kind kind,
			    const struct id *tenant, const char *text)
{
	static const struct id nobody;
	const struct sandbox_count *c = *sandbox_counts_find(
		t, kind, kind == COUNT_TEMPLATE ? &nobody : tenant, text ? text : "");

	return c ? c->n : 0;
}

struct tenant_usage sandbox_counts_get_usage(const struct sandbox_counts *t,
					     const struct id *tenant)
{
	const struct sandbox_count *c = sandbox_counts_find_tenant(t, tenant);

	return c ? (struct tenant_usage){ .sandboxes = c->n,
					  .groups = c->groups,
					  .memory_bytes = c->sum.memory_bytes,
					  .cpu_milli = c->sum.cpu_milli,
					  .pids = c->sum.pids,
					  .disk_bytes = c->sum.disk_bytes }
		 : (struct tenant_usage){};
}

bool sandbox_may_stop(const struct sandbox *sb)
{
	return life_is_at_rest(&sb->life) ||
	       (sb->info.storage != STORAGE_MEMORY &&
		sandbox_counts_get(sandboxes_get_counts(sb->cayd->sandboxes), COUNT_STOPPED,
				   &sb->info.tenant, "") < sb->cayd->settings.max_stopped);
}

struct grant sandbox_counts_get_total(const struct sandbox_counts *t)
{
	return t->total;
}
