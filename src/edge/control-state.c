/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/control-state.h"

#include <assert.h>

#include "auth/export-token.h"
#include "ops/op.h"

static_assert(PUSH_DOZING == SB_NUM_STATES && PUSH_STATES == SB_NUM_STATES + 1);
static_assert(PUSH_SCOPES == SCOPE_NUM);
static_assert(PUSH_EXPORT_TAG == EXPORT_TAG_LEN);

#define BUCKETS 16384

struct control_state {
	struct control_state_sandbox *sandboxes[BUCKETS], *named[BUCKETS];
	struct control_state_key *keys[BUCKETS];
	struct control_state_sandbox *changed; /* to be reported to control */
	struct control_state_signer signers[CONTROL_STATE_SIGNERS];
	uint32_t epoch, last_generation;
	unsigned n_sandboxes, n_keys;
	struct id used[CONTROL_STATE_USED_KEYS];
	unsigned n_used;
	bool syncing, ready;
};

/* The last bytes of ids and hashes are random. */
static unsigned control_state_bucket(const uint8_t random[static 2])
{
	return (unsigned)(random[1] | random[0] << 8) % BUCKETS;
}

static struct control_state_sandbox **control_state_sandbox_slot(struct control_state *t,
								 const struct id *id)
{
	struct control_state_sandbox **at = &t->sandboxes[control_state_bucket(&id->bits[13])];

	while (*at && !id_eq(&(*at)->id, id))
		at = &(*at)->next;
	return at;
}

struct control_state *control_state_new(void)
{
	return calloc(1, sizeof(struct control_state));
}

static void control_state_unmark_changed(struct control_state *t, struct control_state_sandbox *s)
{
	if (!s->changed)
		return;
	s->changed = false;
	*(s->prev_changed ? &s->prev_changed->next_changed : &t->changed) = s->next_changed;
	if (s->next_changed)
		s->next_changed->prev_changed = s->prev_changed;
	s->prev_changed = s->next_changed = NULL;
}

static void control_state_mark_changed(struct control_state *t, struct control_state_sandbox *s)
{
	if (s->changed)
		return;
	s->changed = true;
	s->next_changed = t->changed;
	if (t->changed)
		t->changed->prev_changed = s;
	t->changed = s;
}

/* Its place among those with a name; NULL at the place: it has none. */
static struct control_state_sandbox **control_state_name_slot(struct control_state *t,
							      const struct control_state_sandbox *s)
{
	struct control_state_sandbox **at = &t->named[control_state_bucket(s->name_tag)];

	while (*at && *at != s)
		at = &(*at)->next_named;
	return at;
}

/* One in a pool gets its name when it is claimed. */
static void control_state_set_name(struct control_state *t, struct control_state_sandbox *s,
				   const uint8_t tag[static PUSH_NAME_TAG])
{
	static const uint8_t none[PUSH_NAME_TAG];
	struct control_state_sandbox **at = control_state_name_slot(t, s);

	if (memcmp(s->name_tag, tag, PUSH_NAME_TAG) == 0)
		return;
	if (*at)
		*at = s->next_named;
	memcpy(s->name_tag, tag, PUSH_NAME_TAG);
	if (memcmp(tag, none, PUSH_NAME_TAG) == 0)
		return;
	at = &t->named[control_state_bucket(tag)];
	s->next_named = *at;
	*at = s;
}

/* Requests in progress keep it alive; true when it was freed. */
static bool control_state_remove_sandbox(struct control_state *t, struct control_state_sandbox **at)
{
	struct control_state_sandbox *s = *at;

	if (!s)
		return false;
	control_state_unmark_changed(t, s);
	s->gone = true;
	if (s->n_requests)
		return false;
	*at = s->next;
	control_state_set_name(t, s, (const uint8_t[PUSH_NAME_TAG]){});
	t->n_sandboxes--;
	free(s->revoked);
	free(s->exports);
	free(s);
	return true;
}

static void control_state_remove_key(struct control_state *t, struct control_state_key **at)
{
	struct control_state_key *k = *at;

	*at = k->next;
	t->n_keys--;
	explicit_bzero(k, sizeof(*k));
	free(k);
}

void control_state_free(struct control_state *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < BUCKETS; i++) {
		for (struct control_state_sandbox *s; (s = t->sandboxes[i]);) {
			s->n_requests = 0;
			(void)control_state_remove_sandbox(t, &t->sandboxes[i]);
		}
		while (t->keys[i])
			control_state_remove_key(t, &t->keys[i]);
	}
	explicit_bzero(t, sizeof(*t));
	free(t);
}

static int control_state_update_sandbox(struct control_state *t, const struct push *p)
{
	struct control_state_sandbox **at = control_state_sandbox_slot(t, &p->id), *s = *at;

	if (p->value == SB_TERMINATED || p->value == SB_FAILED) {
		(void)control_state_remove_sandbox(t, at);
		return 0;
	}
	if (!s) {
		if (t->n_sandboxes >= CONTROL_STATE_SANDBOXES)
			return -ENOSPC;
		s = calloc(1, sizeof(*s));
		if (!s)
			return -ENOMEM;
		s->id = p->id;
		*at = s;
		t->n_sandboxes++;
	}
	s->tenant = p->tenant;
	s->dozes = p->value == PUSH_DOZING;
	s->state = s->dozes ? SB_PAUSED : p->value;
	s->app_port = (uint16_t)p->number;
	s->public_ports = p->number & PUSH_PUBLIC_PORTS;
	s->epoch = p->time;
	memcpy(s->group_tag, p->secret, sizeof(s->group_tag));
	control_state_set_name(t, s, p->secret + PUSH_GROUP_TAG);
	s->gone = false;
	s->seen = true;
	return 0;
}

/* Control reuses a slot only after the token in it has expired. */
static int control_state_add_revoked(struct control_state *t, const struct push *p)
{
	struct control_state_sandbox *s = *control_state_sandbox_slot(t, &p->id);

	if (!s)
		return 0;
	if (!s->revoked)
		s->revoked = calloc(PUSH_REVOKED_MAX, sizeof(*s->revoked));
	if (!s->revoked)
		return -ENOMEM;
	memcpy(s->revoked[p->value], p->secret, sizeof(*s->revoked));
	return 0;
}

/* Only the last record changes their number: until then those of before are valid, less the ones
 * that are overwritten. */
static int control_state_set_exports(struct control_state *t, const struct push *p)
{
	struct control_state_sandbox *s = *control_state_sandbox_slot(t, &p->id);

	if (!s)
		return 0;
	s->exports_seen = true;
	if (!p->number) {
		s->n_exports = 0;
		return 0;
	}
	if (!s->exports)
		s->exports = calloc(PUSH_EXPORTS_MAX, sizeof(*s->exports));
	if (!s->exports)
		return -ENOMEM;
	memcpy(s->exports[(size_t)2 * p->value], p->secret, 2 * sizeof(*s->exports));
	if (p->value == (p->number - 1) / 2)
		s->n_exports = p->number;
	return 0;
}

/* Keys are looked up by hash, but removed by id. */
static void control_state_remove_key_by_id(struct control_state *t, const struct id *id)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct control_state_key **at = &t->keys[i]; *at;)
			if (id_eq(&(*at)->id, id))
				control_state_remove_key(t, at);
			else
				at = &(*at)->next;
}

/* Constant time. */
static bool control_state_hash_equals(const uint8_t a[static 32], const uint8_t b[static 32])
{
	volatile uint8_t differ = 0;

	for (size_t i = 0; i < 32; i++)
		differ = (uint8_t)(differ | (a[i] ^ b[i]));
	return !differ;
}

static struct control_state_key **control_state_key_slot(struct control_state *t,
							 const uint8_t hash[static 32])
{
	struct control_state_key **at = &t->keys[control_state_bucket(&hash[30])];

	while (*at && !control_state_hash_equals((*at)->hash, hash))
		at = &(*at)->next;
	return at;
}

/* Of both secrets of a key, during a rotation. */
static void control_state_set_key_group(struct control_state *t, const struct push *p)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct control_state_key *k = t->keys[i]; k; k = k->next)
			if (id_eq(&k->id, &p->id))
				memcpy(k->group, p->secret, sizeof(p->secret));
}

static int control_state_update_key(struct control_state *t, const struct push *p)
{
	struct control_state_key **at = control_state_key_slot(t, p->secret), *k = *at;

	if (!k) {
		if (t->n_keys >= CONTROL_STATE_KEYS)
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
	k->bound = p->number;
	k->seen = true;
	return 0;
}

static void control_state_begin_sync(struct control_state *t)
{
	t->syncing = true;
	for (size_t i = 0; i < CONTROL_STATE_SIGNERS; i++)
		t->signers[i].seen = false;
	for (size_t i = 0; i < BUCKETS; i++) {
		for (struct control_state_sandbox *s = t->sandboxes[i]; s; s = s->next)
			s->seen = s->exports_seen = false;
		for (struct control_state_key *k = t->keys[i]; k; k = k->next)
			k->seen = false;
	}
}

static void control_state_finish_sync(struct control_state *t)
{
	for (size_t i = 0; i < BUCKETS; i++) {
		for (struct control_state_sandbox *s = t->sandboxes[i]; s; s = s->next)
			if (!s->exports_seen)
				s->n_exports = 0;
		for (struct control_state_sandbox **at = &t->sandboxes[i]; *at;)
			if ((*at)->seen || (*at)->gone || !control_state_remove_sandbox(t, at))
				at = &(*at)->next;
		for (struct control_state_key **at = &t->keys[i]; *at;)
			if (!(*at)->seen)
				control_state_remove_key(t, at);
			else
				at = &(*at)->next;
	}
	for (size_t i = 0; i < CONTROL_STATE_SIGNERS; i++)
		if (!t->signers[i].seen)
			explicit_bzero(&t->signers[i], sizeof(t->signers[i]));
	t->syncing = false;
	t->ready = true;
}

static int control_state_update_signer(struct control_state *t, const struct push *p)
{
	struct control_state_signer *s = &t->signers[p->value % CONTROL_STATE_SIGNERS];

	if (!s->present || s->number != p->value || !control_state_hash_equals(s->key, p->secret))
		s->generation = ++t->last_generation;
	s->present = s->seen = true;
	s->number = p->value;
	s->until = p->time;
	memcpy(s->key, p->secret, sizeof(s->key));
	t->epoch = p->number;
	return 0;
}

int control_state_apply(struct control_state *t, const struct push *p)
{
	switch (p->kind) {
	case PUSH_ALL:
		control_state_begin_sync(t);
		return 0;
	case PUSH_SANDBOX:
		return control_state_update_sandbox(t, p);
	case PUSH_REVOKED:
		return control_state_add_revoked(t, p);
	case PUSH_EXPORTS:
		return control_state_set_exports(t, p);
	case PUSH_KEY:
		return control_state_update_key(t, p);
	case PUSH_KEY_GROUP:
		control_state_set_key_group(t, p);
		return 0;
	case PUSH_KEY_REMOVED:
		control_state_remove_key_by_id(t, &p->id);
		return 0;
	case PUSH_TOKEN_KEY:
		return control_state_update_signer(t, p);
	case PUSH_END:
		if (!t->syncing)
			return -EPROTO;
		control_state_finish_sync(t);
		return 0;
	case PUSH_HEARTBEAT:
		return 0;
	case PUSH_NONE:
	case PUSH_HELLO:
	case PUSH_BUSY:
	case PUSH_KEY_USED:
	case PUSH_REFUSED:
	case PUSH_COUNT:
	case PUSH_KINDS:
		break;
	}
	return -EPROTO;
}

bool control_state_is_ready(const struct control_state *t)
{
	return t->ready;
}

struct control_state_sandbox *control_state_find_sandbox(struct control_state *t,
							 const struct id *id)
{
	struct control_state_sandbox *s = *control_state_sandbox_slot(t, id);

	return s && !s->gone ? s : NULL;
}

const struct control_state_sandbox *control_state_find_named(
	struct control_state *t, const struct id *tenant,
	const uint8_t name_tag[static PUSH_NAME_TAG])
{
	const struct control_state_sandbox *s = t->named[control_state_bucket(name_tag)];

	while (s &&
	       (s->gone || s->state >= SB_ENDING ||
		memcmp(s->name_tag, name_tag, PUSH_NAME_TAG) != 0 || !id_eq(&s->tenant, tenant)))
		s = s->next_named;
	return s;
}

struct control_state_key *control_state_find_key(struct control_state *t,
						 const uint8_t hash[static 32])
{
	return *control_state_key_slot(t, hash);
}

const struct control_state_signer *control_state_find_signer(struct control_state *t, unsigned i)
{
	return i < CONTROL_STATE_SIGNERS && t->signers[i].present ? &t->signers[i] : NULL;
}

uint32_t control_state_epoch(const struct control_state *t)
{
	return t->epoch;
}

bool control_state_token_is_revoked(struct control_state *t, const struct id *sandbox,
				    uint32_t epoch, const uint8_t nonce[static 8])
{
	const struct control_state_sandbox *s = *control_state_sandbox_slot(t, sandbox);

	if (s && epoch < s->epoch)
		return true;
	for (size_t i = 0; s && s->revoked && i < PUSH_REVOKED_MAX; i++)
		if (memcmp(s->revoked[i], nonce, sizeof(s->revoked[i])) == 0)
			return true;
	return false;
}

bool control_state_has_export(struct control_state *t, const struct id *sandbox,
			      const uint8_t tag[static PUSH_EXPORT_TAG])
{
	const struct control_state_sandbox *s = control_state_find_sandbox(t, sandbox);
	bool found = false;

	for (uint32_t i = 0; s && i < s->n_exports; i++)
		found |= export_tag_equals(s->exports[i], tag);
	return found;
}

void control_state_enter_sandbox(struct control_state *t, struct control_state_sandbox *s)
{
	s->n_requests++;
	if (!s->gone)
		control_state_mark_changed(t, s);
}

void control_state_leave_sandbox(struct control_state *t, struct control_state_sandbox *s)
{
	assert(s->n_requests);
	s->n_requests--;
	if (!s->gone)
		control_state_mark_changed(t, s);
	else if (!s->n_requests)
		(void)control_state_remove_sandbox(t, control_state_sandbox_slot(t, &s->id));
}

void control_state_mark_key_used(struct control_state *t, struct control_state_key *k,
				 uint64_t now_s)
{
	if (t->n_used == CONTROL_STATE_USED_KEYS || now_s - k->used_s < CONTROL_STATE_USED_S)
		return;
	k->used_s = now_s;
	t->used[t->n_used++] = k->id;
}

bool control_state_next_report(struct control_state *t, struct push *ret)
{
	struct control_state_sandbox *s = t->changed;

	if (t->n_used) {
		*ret = (struct push){ .kind = PUSH_KEY_USED, .id = t->used[--t->n_used] };
		return true;
	}
	if (!s)
		return false;
	*ret = (struct push){ .kind = PUSH_BUSY, .number = s->n_requests, .id = s->id };
	control_state_unmark_changed(t, s);
	return true;
}

void control_state_mark_unreported(struct control_state *t)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct control_state_sandbox *s = t->sandboxes[i]; s; s = s->next)
			if (s->n_requests && !s->gone)
				control_state_mark_changed(t, s);
}

unsigned control_state_count_sandboxes(const struct control_state *t)
{
	return t->n_sandboxes;
}

unsigned control_state_count_keys(const struct control_state *t)
{
	return t->n_keys;
}
