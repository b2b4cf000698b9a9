/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/observe/event-history.h"

#include <assert.h>

#include "cayd/core/list.h"

struct event_slot *event_slot_new(const struct event *e, uint64_t number, struct slice text)
{
	struct slice group = slice_of(e->group ? e->group : "");
	struct event_slot *k = calloc(1, sizeof(*k) + text.n + 1 + group.n + 1);

	if (!k)
		return NULL;
	k->number = number;
	k->seq = e->seq;
	k->sandbox = e->sandbox;
	k->group = k->text + text.n + 1;
	memcpy(k->text, text.p, text.n);
	if (group.n)
		memcpy(k->text + text.n + 1, group.p, group.n);
	return k;
}

static struct event_history **event_history_bucket(struct event_histories *all,
						   const struct id *tenant)
{
	return &all->by_tenant[hash_bytes(0, tenant, sizeof(*tenant)) % EVENT_BUCKETS];
}

struct event_history *event_history_find(struct event_histories *all, const struct id *tenant)
{
	struct event_history *h = *event_history_bucket(all, tenant);

	while (h && !id_eq(&h->tenant, tenant))
		h = h->next;
	return h;
}

struct event_history *event_history_find_or_create(struct event_histories *all,
						   const struct id *tenant)
{
	struct event_history *h = event_history_find(all, tenant);
	struct event_history **at = event_history_bucket(all, tenant);

	if (h || !(h = calloc(1, sizeof(*h))))
		return h;
	h->tenant = *tenant;
	h->next = *at;
	*at = h;
	return h;
}

void event_history_append(struct event_history *h, struct event_slot *slot)
{
	slot->older = h->newest;
	slot->newer = NULL;
	*(h->newest ? &h->newest->newer : &h->oldest) = slot;
	h->newest = slot;
	h->n++;
	if (h->last < slot->seq)
		h->last = slot->seq;
}

struct event_slot *event_history_pop_oldest(struct event_history *h)
{
	struct event_slot *k = h->oldest;

	if (!k)
		return NULL;
	h->oldest = k->newer;
	*(h->oldest ? &h->oldest->older : &h->newest) = NULL;
	h->n--;
	return k;
}

struct event_slot *event_history_find_after(const struct event_history *h, uint64_t after)
{
	struct event_slot *k = h->newest, *found = NULL;

	for (; k && k->seq > after; k = k->older)
		found = k;
	return found;
}

uint64_t event_history_resume(const struct event_history *h, uint64_t after, uint64_t *ret_missed)
{
	uint64_t first = h->oldest ? h->oldest->seq : 1;
	bool unknown = after > h->last;

	*ret_missed = unknown || after + 1 < first ? first : 0;
	return unknown ? 0 : after;
}

void event_history_remove(struct event_histories *all, struct event_history *h)
{
	assert(!h->oldest && !h->followers);
	LIST_UNLINK(*event_history_bucket(all, &h->tenant), h, next);
	free(h);
}
