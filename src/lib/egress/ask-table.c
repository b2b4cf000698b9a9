/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/ask-table.h"

#include <stdlib.h>
#include <string.h>

#include "base/siphash.h"

#define ID_HINT 4 /* bytes of an id that say where it was made */

struct id ask_id(const struct id *sandbox, const char *to, uint16_t port)
{
	struct {
		char to[ASK_TO_MAX + 1];
		uint16_t port, part;
	} of = { .port = port };
	struct id id = { .noun = ID_ASK };
	uint64_t hash[2];

	memcpy(of.to, to, strnlen(to, ASK_TO_MAX));
	for (size_t i = 0; i < ARRAY_SIZE(hash); i++) {
		of.part = (uint16_t)i;
		hash[i] = siphash((const uint8_t *)sandbox, &of, sizeof(of));
	}
	memcpy(id.bits, sandbox->bits, ID_HINT);
	memcpy(id.bits + ID_HINT, hash, sizeof(id.bits) - ID_HINT);
	return id;
}

static size_t ask_bucket(const struct id *id)
{
	return (id->bits[14] | (unsigned)id->bits[13] << 8) % ASK_BUCKETS;
}

struct ask *ask_find(const struct ask_table *t, const struct id *id)
{
	struct ask *a = t->by_id[ask_bucket(id)];

	while (a && !id_eq(&a->id, id))
		a = a->next;
	return a;
}

static struct ask_tenant *ask_tenant_find(const struct ask_table *t, const struct id *id)
{
	struct ask_tenant *n = t->tenants[ask_bucket(id)];

	while (n && !id_eq(&n->id, id))
		n = n->next;
	return n;
}

static struct ask_tenant *ask_tenant_get(struct ask_table *t, const struct id *id, uint64_t now_ns)
{
	struct ask_tenant *n = ask_tenant_find(t, id);
	struct ask_tenant **at = &t->tenants[ask_bucket(id)];

	if (n || !(n = calloc(1, sizeof(*n))))
		return n;
	n->id = *id;
	n->seq = now_ns / 1000000;
	n->next = *at;
	*at = n;
	return n;
}

static void ask_tenant_remove_if_empty(struct ask_table *t, struct ask_tenant *n)
{
	struct ask_tenant **at = &t->tenants[ask_bucket(&n->id)];

	if (n->n)
		return;
	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	free(n);
}

static void ask_unlink_order(struct ask *a)
{
	*(a->newer ? &a->newer->older : &a->of->newest) = a->older;
	*(a->older ? &a->older->newer : &a->of->oldest) = a->newer;
}

static void ask_link_order(struct ask *a)
{
	a->newer = NULL;
	a->older = a->of->newest;
	*(a->older ? &a->older->newer : &a->of->oldest) = a;
	a->of->newest = a;
}

void ask_remove(struct ask_table *t, struct ask *a)
{
	struct ask_tenant *of = a->of;
	struct ask **at = &t->by_id[ask_bucket(&a->id)];

	while (*at != a)
		at = &(*at)->next;
	*at = a->next;
	ask_unlink_order(a);
	of->n--;
	free(a);
	ask_tenant_remove_if_empty(t, of);
}

/* Drop a row that nothing waits for, if there are too many; false: all are needed. */
static bool ask_make_room(struct ask_table *t, const struct ask_tenant *of,
			  const struct id *sandbox)
{
	struct ask *oldest = NULL, *oldest_of_sandbox = NULL;
	size_t n = 0;

	for (struct ask *a = of->newest; a; a = a->older) {
		const bool same = id_eq(&a->sandbox, sandbox);

		n += same;
		if (a->state == ASK_WAITING)
			continue;
		oldest = a;
		if (same)
			oldest_of_sandbox = a;
	}
	if (n >= ASKS_OF_SANDBOX_MAX)
		oldest = oldest_of_sandbox;
	else if (of->n < ASKS_OF_TENANT_MAX)
		return true;
	if (oldest)
		ask_remove(t, oldest);
	return oldest;
}

static struct ask *ask_create(struct ask_table *t, const struct ask_target *target,
			      const struct id *id, uint64_t now_ns)
{
	struct ask_tenant *of = ask_tenant_get(t, target->tenant, now_ns);
	struct ask *a;

	if (of && of->n && !ask_make_room(t, of, target->sandbox))
		return NULL;
	of = ask_tenant_get(t, target->tenant, now_ns); /* it goes with its last row */
	a = of ? calloc(1, sizeof(*a)) : NULL;
	if (!a) {
		if (of)
			ask_tenant_remove_if_empty(t, of);
		return NULL;
	}
	*a = (struct ask){ .of = of,
			   .id = *id,
			   .sandbox = *target->sandbox,
			   .port = target->port,
			   .state = ASK_GONE,
			   .since_ns = now_ns,
			   .changed_ns = now_ns };
	memcpy(a->to, target->to, strnlen(target->to, ASK_TO_MAX));
	if (target->group)
		memcpy(a->group, target->group, strnlen(target->group, ASK_GROUP_MAX));
	a->next = t->by_id[ask_bucket(id)];
	t->by_id[ask_bucket(id)] = a;
	of->n++;
	ask_link_order(a);
	return a;
}

struct ask *ask_table_get(struct ask_table *t, const struct ask_target *target, uint64_t now_ns)
{
	const struct id id = ask_id(target->sandbox, target->to, target->port);
	struct ask *a = ask_find(t, &id);

	return a ? a : ask_create(t, target, &id, now_ns);
}

void ask_set_state(struct ask *a, enum ask_state state, uint64_t now_ns)
{
	a->state = state;
	a->changed_ns = now_ns;
	a->seq = ++a->of->seq;
	ask_unlink_order(a);
	ask_link_order(a);
}

void ask_count(struct ask *a, bool held, uint64_t now_ns)
{
	a->count++;
	a->waiting += held;
	if (held ? a->state != ASK_WAITING : !a->seq)
		ask_set_state(a, held ? ASK_WAITING : ASK_GONE, now_ns);
}

void ask_leave(struct ask *a, enum ask_state ended, uint64_t now_ns)
{
	a->waiting -= a->waiting > 0;
	if (!a->waiting && a->state == ASK_WAITING)
		ask_set_state(a, ended, now_ns);
}

struct ask *ask_find_after(const struct ask_table *t, const struct id *tenant, uint64_t after)
{
	const struct ask_tenant *of = ask_tenant_find(t, tenant);
	struct ask *found = NULL;

	for (struct ask *a = of ? of->newest : NULL; a && a->seq > after; a = a->older)
		found = a;
	return found;
}

uint64_t ask_last_seq(const struct ask_table *t, const struct id *tenant)
{
	const struct ask_tenant *of = ask_tenant_find(t, tenant);

	return of ? of->seq : 0;
}

void ask_remove_of_sandbox(struct ask_table *t, const struct id *tenant, const struct id *sandbox)
{
	const struct ask_tenant *of = ask_tenant_find(t, tenant);

	for (struct ask *a = of ? of->newest : NULL, *older; a; a = older) {
		older = a->older;
		if (id_eq(&a->sandbox, sandbox))
			ask_remove(t, a);
	}
}

void ask_table_fini(struct ask_table *t)
{
	for (size_t i = 0; i < ASK_BUCKETS; i++)
		for (struct ask *a = t->by_id[i], *next; a; a = next) {
			next = a->next;
			ask_remove(t, a);
		}
}
