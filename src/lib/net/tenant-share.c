/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tenant-share.h"

#include <stdlib.h>
#include <sys/random.h>

#include "base/str.h"

#define BUCKETS 1024

struct tenant_shares {
	uint64_t seed;
	uint64_t now_ns; /* virtual time: where the request in progress started */
	size_t unread;
	struct tenant_share *busy;
	struct tenant_share *buckets[BUCKETS];
};

struct tenant_shares *tenant_shares_new(void)
{
	struct tenant_shares *all = calloc(1, sizeof(*all));

	if (all && getrandom(&all->seed, sizeof(all->seed), GRND_NONBLOCK) < 0)
		all->seed = (uint64_t)(uintptr_t)all;
	return all;
}

void tenant_shares_free(struct tenant_shares *all)
{
	for (unsigned i = 0; all && i < BUCKETS; i++)
		while (all->buckets[i]) {
			struct tenant_share *s = all->buckets[i];

			all->buckets[i] = s->next;
			free(s);
		}
	free(all);
}

/* Without a request and a debt there is nothing to remember. */
static bool tenant_share_is_idle(const struct tenant_share *s)
{
	return !s->requests && !s->unread && s->used_ns <= s->all->now_ns;
}

static struct tenant_share *tenant_share_create(struct tenant_shares *all, const struct id *tenant,
						struct tenant_share **bucket)
{
	struct tenant_share *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	*s = (struct tenant_share){ .all = all, .tenant = *tenant, .next = *bucket };
	s->waiting.last = &s->waiting.first;
	s->refusals.last = &s->refusals.first;
	*bucket = s;
	return s;
}

struct tenant_share *tenant_share_enter(struct tenant_shares *all, const struct id *tenant)
{
	uint64_t h = hash_bytes(all->seed, tenant, sizeof(*tenant));
	struct tenant_share **bucket = &all->buckets[(h ^ h >> 29) % BUCKETS];
	struct tenant_share *found = NULL;

	for (struct tenant_share **at = bucket; *at;) {
		struct tenant_share *s = *at;

		if (id_eq(&s->tenant, tenant)) {
			found = s;
		} else if (tenant_share_is_idle(s)) {
			*at = s->next;
			free(s);
			continue;
		}
		at = &s->next;
	}
	if (!found)
		found = tenant_share_create(all, tenant, bucket);
	if (found)
		found->requests++;
	return found;
}

void tenant_share_leave(struct tenant_share *s)
{
	s->requests--;
}

void tenant_share_charge(struct tenant_share *s, uint64_t used_ns)
{
	if (s->used_ns < s->all->now_ns)
		s->used_ns = s->all->now_ns;
	s->used_ns += used_ns;
}

static void tenant_turn_append(struct tenant_turns_list *list, struct tenant_turn *t)
{
	t->next = NULL;
	t->prev = list->last;
	*list->last = t;
	list->last = &t->next;
}

static void tenant_turn_remove(struct tenant_turns_list *list, struct tenant_turn *t)
{
	*t->prev = t->next;
	if (t->next)
		t->next->prev = t->prev;
	else
		list->last = t->prev;
	t->prev = NULL;
	t->next = NULL;
}

static void tenant_share_set_busy(struct tenant_share *s, bool busy)
{
	struct tenant_shares *all = s->all;

	if (busy == (s->busy != NULL))
		return;
	if (busy) {
		s->busy_next = all->busy;
		s->busy = &all->busy;
		if (s->busy_next)
			s->busy_next->busy = &s->busy_next;
		all->busy = s;
		return;
	}
	*s->busy = s->busy_next;
	if (s->busy_next)
		s->busy_next->busy = s->busy;
	s->busy = NULL;
}

void tenant_share_wait(struct tenant_share *s, struct tenant_turn *t, uint64_t now)
{
	t->since_ns = now;
	tenant_turn_append(&s->waiting, t);
	if (s->used_ns < s->all->now_ns)
		s->used_ns = s->all->now_ns;
	tenant_share_set_busy(s, true);
}

struct tenant_turn *tenant_shares_next(struct tenant_shares *all)
{
	struct tenant_share *least = all->busy;
	struct tenant_turn *t;

	for (struct tenant_share *s = all->busy; s; s = s->busy_next)
		if (s->used_ns < least->used_ns)
			least = s;
	if (!least)
		return NULL;
	t = least->waiting.first;
	all->now_ns = least->used_ns;
	tenant_share_forget(least, t);
	return t;
}

bool tenant_shares_wait(const struct tenant_shares *all)
{
	return all->busy;
}

void tenant_share_forget(struct tenant_share *s, struct tenant_turn *t)
{
	if (!t->prev)
		return;
	/* the last of a list is the one its tail points into */
	tenant_turn_remove(s->refusals.last == &t->next ? &s->refusals : &s->waiting, t);
	tenant_share_set_busy(s, s->waiting.first);
}

bool tenant_share_try_refuse(struct tenant_share *s, struct tenant_turn *t)
{
	if (s->refused++ < REFUSALS_TICK)
		return true;
	tenant_turn_append(&s->refusals, t);
	return false;
}

bool tenant_shares_tick(struct tenant_shares *all, void (*fn)(struct tenant_turn *t))
{
	bool more = false;

	for (unsigned i = 0; i < BUCKETS; i++)
		for (struct tenant_share *s = all->buckets[i]; s; s = s->next) {
			more |= s->refused > 0;
			s->requests++; /* refusing its last request must not free it */
			for (s->refused = 0; s->refusals.first && s->refused < REFUSALS_TICK;
			     s->refused++) {
				struct tenant_turn *t = s->refusals.first;

				tenant_turn_remove(&s->refusals, t);
				fn(t);
			}
			s->requests--;
		}
	return more;
}

void tenant_share_count_unread(struct tenant_share *s, size_t *counted, size_t now)
{
	s->unread += now - *counted;
	s->all->unread += now - *counted;
	*counted = now;
}

bool tenant_share_is_full(const struct tenant_share *s, size_t more)
{
	size_t most = s->all->unread + more > UNREAD_MAX ? UNREAD_FREE : UNREAD_TENANT_MAX;

	return s->unread + more > most;
}

bool tenant_shares_are_full(const struct tenant_share *s)
{
	return s->all->unread > UNREAD_HARD_MAX;
}
