/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/sandbox/ended.h"

#include <assert.h>

#include "cayd/core/list.h"

/* What one record may take of memory; a larger one counts as several. */
#define RECORD_BYTES KIB(4)

struct ended_owner {
	struct ended_owner *next;
	struct id tenant;
	struct sandbox *oldest, **last;
	uint64_t weight;
};

static unsigned ended_weigh(const struct sandbox *sb)
{
	size_t bytes = sizeof(*sb) + arena_get_size(&sb->arena) + arena_get_size(&sb->labels_arena);

	return (unsigned)((bytes + RECORD_BYTES - 1) / RECORD_BYTES);
}

static struct ended_owner *ended_owner_find(const struct ended_records *all,
					    const struct id *tenant)
{
	struct ended_owner *o = all->owners;

	while (o && !id_eq(&o->tenant, tenant))
		o = o->next;
	return o;
}

void ended_add(struct ended_records *all, struct sandbox *sb)
{
	struct ended_owner *o = ended_owner_find(all, &sb->info.tenant);

	if (!o) {
		o = calloc(1, sizeof(*o));
		if (!o)
			abort(); /* a record that is not counted is never forgotten; restart */
		*o = (struct ended_owner){ .next = all->owners,
					   .tenant = sb->info.tenant,
					   .last = &o->oldest };
		all->owners = o;
	}
	sb->ended.weight = ended_weigh(sb);
	sb->ended.newer = NULL;
	sb->ended.at = o->last;
	*o->last = sb;
	o->last = &sb->ended.newer;
	o->weight += sb->ended.weight;
	all->weight += sb->ended.weight;
}

void ended_remove(struct ended_records *all, struct sandbox *sb)
{
	struct ended_owner *o = ended_owner_find(all, &sb->info.tenant);
	struct sandbox *newer = sb->ended.newer;

	assert(o && *sb->ended.at == sb);
	*sb->ended.at = newer;
	*(newer ? &newer->ended.at : &o->last) = sb->ended.at;
	o->weight -= sb->ended.weight;
	all->weight -= sb->ended.weight;
	if (o->oldest)
		return;
	LIST_UNLINK(all->owners, o, next);
	free(o);
}

struct sandbox *ended_find_excess(const struct ended_records *all, uint64_t max)
{
	const struct ended_owner *most = all->owners;
	struct sandbox *sb;

	if (all->weight <= max)
		return NULL;
	for (const struct ended_owner *o = most; o; o = o->next)
		if (o->weight > most->weight)
			most = o;
	for (sb = most->oldest; sb && sandbox_is_in_use(sb);)
		sb = sb->ended.newer;
	return sb;
}
