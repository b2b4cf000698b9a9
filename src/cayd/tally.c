/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/tally.h"

#include <assert.h>

#include "cayd/box.h"

#define BUCKETS 4096

struct count {
	struct count *next;
	enum tally_kind kind;
	struct id tenant; /* zeros for a template */
	unsigned n;
	char text[];
};

struct tally {
	struct count *of[BUCKETS];
};

struct tally *tally_new(void)
{
	return calloc(1, sizeof(struct tally));
}

void tally_free(struct tally *t)
{
	for (size_t i = 0; t && i < BUCKETS; i++)
		while (t->of[i]) {
			struct count *c = t->of[i];

			t->of[i] = c->next;
			free(c);
		}
	free(t);
}

static uint32_t mix(uint32_t h, const void *p, size_t n)
{
	const uint8_t *at = p;

	for (size_t i = 0; i < n; i++)
		h = (h ^ at[i]) * 16777619;
	return h;
}

/* Where it is, or would be. */
static struct count *const *find(const struct tally *t, enum tally_kind kind,
				 const struct id *tenant, const char *text)
{
	uint32_t h = mix(2166136261u + kind, tenant, sizeof(*tenant));
	struct count *const *at = &t->of[mix(h, text, strlen(text)) % BUCKETS];

	while (*at && ((*at)->kind != kind || !id_eq(&(*at)->tenant, tenant) ||
		       !str_eq((*at)->text, text)))
		at = &(*at)->next;
	return at;
}

static void add(struct tally *t, enum tally_kind kind, const struct id *tenant, const char *text)
{
	struct count **at = (struct count **)find(t, kind, tenant, text);

	if (!*at) {
		*at = calloc(1, sizeof(**at) + strlen(text) + 1);
		if (!*at)
			abort(); /* nobody may have more than a quota for that; a restart counts */
		(*at)->kind = kind;
		(*at)->tenant = *tenant;
		memcpy((*at)->text, text, strlen(text));
	}
	(*at)->n++;
}

static void take(struct tally *t, enum tally_kind kind, const struct id *tenant, const char *text)
{
	struct count **at = (struct count **)find(t, kind, tenant, text), *c = *at;

	assert(c && c->n);
	if (--c->n)
		return;
	*at = c->next;
	free(c);
}

/* What it counts as, a bit for each kind. */
static unsigned counts_as(const struct box *b)
{
	bool placed = b->life.state < SB_ENDING;

	return (placed ? 1u << TALLY_TENANT : 0) |
	       (placed && b->info.group ? 1u << TALLY_GROUP : 0) |
	       (!life_over(&b->life) && b->info.template ? 1u << TALLY_TEMPLATE : 0);
}

static void change(struct tally *t, struct box *b, unsigned to)
{
	static const struct id nobody;

	for (unsigned kind = 0; kind < TALLY_KINDS; kind++) {
		const struct id *tenant = kind == TALLY_TEMPLATE ? &nobody : &b->info.tenant;
		const char *text = kind == TALLY_GROUP      ? b->info.group
				   : kind == TALLY_TEMPLATE ? b->info.template
							    : "";

		if (to & ~b->tallied & 1u << kind)
			add(t, kind, tenant, text);
		else if (b->tallied & ~to & 1u << kind)
			take(t, kind, tenant, text);
	}
	b->tallied = to;
}

void tally_in(struct tally *t, struct box *b)
{
	change(t, b, counts_as(b));
}

void tally_out(struct tally *t, struct box *b)
{
	change(t, b, 0);
}

unsigned tally_of(const struct tally *t, enum tally_kind kind, const struct id *tenant,
		  const char *text)
{
	static const struct id nobody;
	const struct count *c =
		*find(t, kind, kind == TALLY_TEMPLATE ? &nobody : tenant, text ? text : "");

	return c ? c->n : 0;
}
