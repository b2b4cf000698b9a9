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
	char text[];
};

struct sandbox_counts {
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
}

/* The kinds it counts as, a bit each. */
static unsigned sandbox_count_kinds(const struct sandbox *sb)
{
	bool placed = sb->life.state < SB_ENDING;

	return (placed ? 1u << COUNT_TENANT : 0) |
	       (placed && sb->info.group ? 1u << COUNT_GROUP : 0) |
	       (!life_is_finished(&sb->life) && sb->info.template ? 1u << COUNT_TEMPLATE : 0);
}

static void sandbox_counts_set_kinds(struct sandbox_counts *t, struct sandbox *sb, unsigned to)
{
	static const struct id nobody;

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
