/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ops/op.h"

static_assert(PUSH_STATES == SB_NUM_STATES);
static_assert(PUSH_SCOPES == SCOPE_NUM);

#define BUCKETS 16384

struct table {
	struct table_sandbox *sandboxes[BUCKETS];
	struct table_key *keys[BUCKETS];
	struct table_sandbox *touched; /* control has yet to hear of them */
	struct table_sign signs[TABLE_SIGNS];
	uint32_t epoch, born;
	unsigned n_sandboxes, n_keys;
	struct id used[TABLE_USED];
	unsigned n_used;
	bool filling, ready;
};

/* Ids and hashes are random where it counts: their last bytes will do. */
static unsigned bucket(const void *end)
{
	const uint8_t *p = end;

	return (unsigned)(p[-1] | p[-2] << 8) % BUCKETS;
}

static struct table_sandbox **sandbox_at(struct table *t, const struct id *id)
{
	struct table_sandbox **at = &t->sandboxes[bucket(id + 1)];

	while (*at && !id_eq(&(*at)->id, id))
		at = &(*at)->next;
	return at;
}

struct table *table_new(void)
{
	return calloc(1, sizeof(struct table));
}

static void untouch(struct table *t, struct table_sandbox *s)
{
	if (!s->touched)
		return;
	s->touched = false;
	*(s->prev_touched ? &s->prev_touched->next_touched : &t->touched) = s->next_touched;
	if (s->next_touched)
		s->next_touched->prev_touched = s->prev_touched;
	s->prev_touched = s->next_touched = NULL;
}

static void touch(struct table *t, struct table_sandbox *s)
{
	if (s->touched)
		return;
	s->touched = true;
	s->next_touched = t->touched;
	if (t->touched)
		t->touched->prev_touched = s;
	t->touched = s;
}

/* Who is inside keeps it until it leaves; true when it is no more. */
static bool drop_sandbox(struct table *t, struct table_sandbox **at)
{
	struct table_sandbox *s = *at;

	if (!s)
		return false;
	untouch(t, s);
	s->gone = true;
	if (s->busy)
		return false;
	*at = s->next;
	t->n_sandboxes--;
	free(s->revoked);
	free(s);
	return true;
}

static void drop_key(struct table *t, struct table_key **at)
{
	struct table_key *k = *at;

	*at = k->next;
	t->n_keys--;
	explicit_bzero(k, sizeof(*k));
	free(k);
}

void table_free(struct table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < BUCKETS; i++) {
		for (struct table_sandbox *s; (s = t->sandboxes[i]);) {
			s->busy = 0;
			(void)drop_sandbox(t, &t->sandboxes[i]);
		}
		while (t->keys[i])
			drop_key(t, &t->keys[i]);
	}
	explicit_bzero(t, sizeof(*t));
	free(t);
}

static int put_sandbox(struct table *t, const struct push *p)
{
	struct table_sandbox **at = sandbox_at(t, &p->id), *s = *at;

	if (p->value >= SB_TERMINATED) {
		if (s)
			(void)drop_sandbox(t, at);
		return 0;
	}
	if (!s) {
		if (t->n_sandboxes >= TABLE_SANDBOXES)
			return -ENOSPC;
		s = calloc(1, sizeof(*s));
		if (!s)
			return -ENOMEM;
		s->id = p->id;
		*at = s;
		t->n_sandboxes++;
	}
	s->tenant = p->tenant;
	s->state = p->value;
	s->app_port = (uint16_t)p->number;
	s->epoch = p->time;
	s->gone = false;
	s->seen = true;
	return 0;
}

/* What was in that place is over by itself: control gives it to nobody before. */
static int put_revoked(struct table *t, const struct push *p)
{
	struct table_sandbox *s = *sandbox_at(t, &p->id);

	if (!s)
		return 0;
	if (!s->revoked)
		s->revoked = calloc(PUSH_REVOKED_MAX, sizeof(*s->revoked));
	if (!s->revoked)
		return -ENOMEM;
	memcpy(s->revoked[p->value], p->secret, sizeof(*s->revoked));
	return 0;
}

/* A key is found by its hash, and forgotten by its id. */
static void forget_key(struct table *t, const struct id *id)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct table_key **at = &t->keys[i]; *at;)
			if (id_eq(&(*at)->id, id))
				drop_key(t, at);
			else
				at = &(*at)->next;
}

/* How long it takes says nothing about where they differ. */
static bool same_hash(const uint8_t a[static 32], const uint8_t b[static 32])
{
	volatile uint8_t differ = 0;

	for (size_t i = 0; i < 32; i++)
		differ = (uint8_t)(differ | (a[i] ^ b[i]));
	return !differ;
}

static struct table_key **key_at(struct table *t, const uint8_t hash[static 32])
{
	struct table_key **at = &t->keys[bucket(hash + 32)];

	while (*at && !same_hash((*at)->hash, hash))
		at = &(*at)->next;
	return at;
}

static int put_key(struct table *t, const struct push *p)
{
	struct table_key **at = key_at(t, p->secret), *k = *at;

	if (!k) {
		if (t->n_keys >= TABLE_KEYS)
			return -ENOSPC;
		k = calloc(1, sizeof(*k));
		if (!k)
			return -ENOMEM;
		memcpy(k->hash, p->secret, sizeof(k->hash));
		*at = k;
		t->n_keys++;
	}
	k->id = p->id;
	k->tenant = p->tenant;
	k->scope = p->value;
	k->until = p->time;
	k->seen = true;
	return 0;
}

static void begin_all(struct table *t)
{
	t->filling = true;
	for (size_t i = 0; i < TABLE_SIGNS; i++)
		t->signs[i].seen = false;
	for (size_t i = 0; i < BUCKETS; i++) {
		for (struct table_sandbox *s = t->sandboxes[i]; s; s = s->next)
			s->seen = false;
		for (struct table_key *k = t->keys[i]; k; k = k->next)
			k->seen = false;
	}
}

static void end_all(struct table *t)
{
	for (size_t i = 0; i < BUCKETS; i++) {
		for (struct table_sandbox **at = &t->sandboxes[i]; *at;)
			if ((*at)->seen || (*at)->gone || !drop_sandbox(t, at))
				at = &(*at)->next;
		for (struct table_key **at = &t->keys[i]; *at;)
			if (!(*at)->seen)
				drop_key(t, at);
			else
				at = &(*at)->next;
	}
	for (size_t i = 0; i < TABLE_SIGNS; i++)
		if (!t->signs[i].seen)
			explicit_bzero(&t->signs[i], sizeof(t->signs[i]));
	t->filling = false;
	t->ready = true;
}

static int put_sign(struct table *t, const struct push *p)
{
	struct table_sign *s = &t->signs[p->value % TABLE_SIGNS];

	if (!s->there || s->number != p->value || !same_hash(s->key, p->secret))
		s->born = ++t->born;
	s->there = s->seen = true;
	s->number = p->value;
	s->until = p->time;
	memcpy(s->key, p->secret, sizeof(s->key));
	t->epoch = p->number;
	return 0;
}

int table_apply(struct table *t, const struct push *p)
{
	switch (p->kind) {
	case PUSH_ALL:
		begin_all(t);
		return 0;
	case PUSH_SANDBOX:
		return put_sandbox(t, p);
	case PUSH_REVOKED:
		return put_revoked(t, p);
	case PUSH_KEY:
		return put_key(t, p);
	case PUSH_NO_KEY:
		forget_key(t, &p->id);
		return 0;
	case PUSH_SIGN:
		return put_sign(t, p);
	case PUSH_END:
		if (!t->filling)
			return -EPROTO;
		end_all(t);
		return 0;
	case PUSH_TICK:
		return 0;
	case PUSH_NONE:
	case PUSH_HELLO:
	case PUSH_BUSY:
	case PUSH_USED:
	case PUSH_REFUSED:
	case PUSH_COUNT:
	case PUSH_KINDS:
		break;
	}
	return -EPROTO;
}

bool table_ready(const struct table *t)
{
	return t->ready;
}

struct table_sandbox *table_sandbox(struct table *t, const struct id *id)
{
	struct table_sandbox *s = *sandbox_at(t, id);

	return s && !s->gone ? s : NULL;
}

struct table_key *table_key(const struct table *t, const uint8_t hash[static 32])
{
	struct table_key *k = t->keys[bucket(hash + 32)];

	while (k && !same_hash(k->hash, hash))
		k = k->next;
	return k;
}

const struct table_sign *table_sign(const struct table *t, unsigned which)
{
	return which < TABLE_SIGNS && t->signs[which].there ? &t->signs[which] : NULL;
}

uint32_t table_epoch(const struct table *t)
{
	return t->epoch;
}

bool table_revoked(struct table *t, const struct id *sandbox, uint32_t epoch,
		   const uint8_t nonce[static 8])
{
	const struct table_sandbox *s = *sandbox_at(t, sandbox);

	if (s && epoch < s->epoch)
		return true;
	for (size_t i = 0; s && s->revoked && i < PUSH_REVOKED_MAX; i++)
		if (memcmp(s->revoked[i], nonce, sizeof(s->revoked[i])) == 0)
			return true;
	return false;
}

void table_enter(struct table *t, struct table_sandbox *s)
{
	s->busy++;
	if (!s->gone)
		touch(t, s);
}

void table_leave(struct table *t, struct table_sandbox *s)
{
	assert(s->busy);
	s->busy--;
	if (!s->gone)
		touch(t, s);
	else if (!s->busy)
		(void)drop_sandbox(t, sandbox_at(t, &s->id));
}

void table_used(struct table *t, struct table_key *k, uint64_t now_s)
{
	if (t->n_used == TABLE_USED || now_s - k->used_s < TABLE_USED_S)
		return;
	k->used_s = now_s;
	t->used[t->n_used++] = k->id;
}

bool table_news(struct table *t, struct push *ret)
{
	struct table_sandbox *s = t->touched;

	if (t->n_used) {
		*ret = (struct push){ .kind = PUSH_USED, .id = t->used[--t->n_used] };
		return true;
	}
	if (!s)
		return false;
	*ret = (struct push){ .kind = PUSH_BUSY, .number = s->busy, .id = s->id };
	untouch(t, s);
	return true;
}

void table_untold(struct table *t)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct table_sandbox *s = t->sandboxes[i]; s; s = s->next)
			if (s->busy && !s->gone)
				touch(t, s);
}

unsigned table_sandboxes(const struct table *t)
{
	return t->n_sandboxes;
}

unsigned table_keys(const struct table *t)
{
	return t->n_keys;
}
