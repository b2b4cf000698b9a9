/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/sandbox/kept-keys.h"

#include "cayd/core/list.h"

#define BUCKETS 16384
#define TEXT_MAX KIB(1)
#define EXPIRE_EVERY_NS (UINT64_C(1) * NS_PER_S)

struct kept_key {
	struct kept_key *next;  /* of its bucket */
	struct kept_key *newer; /* of its owner */
	struct kept_key_owner *owner;
	struct id sandbox;
	uint64_t created_ns;
	char body_hash[17];
	char text[];
};

struct kept_key_owner {
	struct kept_key_owner *next;
	struct id tenant;
	struct kept_key *oldest, **last;
	size_t n;
};

struct kept_keys {
	struct kept_key *by_text[BUCKETS];
	struct kept_key_owner *owners;
	uint64_t expire_ns;
};

int kept_keys_open(struct cayd *c, struct cay_err *err)
{
	c->kept_keys = calloc(1, sizeof(*c->kept_keys));
	return c->kept_keys ? 0 : cay_no_memory(err);
}

static struct kept_key **kept_key_bucket(struct kept_keys *all, struct slice text)
{
	return &all->by_text[hash_bytes(0, text.p, text.n) % BUCKETS];
}

static struct kept_key_owner *kept_key_owner_find_or_create(struct kept_keys *all,
							    const struct id *tenant)
{
	struct kept_key_owner *o = all->owners;

	while (o && !id_eq(&o->tenant, tenant))
		o = o->next;
	if (o || !(o = calloc(1, sizeof(*o))))
		return o;
	*o = (struct kept_key_owner){ .next = all->owners, .tenant = *tenant, .last = &o->oldest };
	all->owners = o;
	return o;
}

/* The oldest of an owner, in memory and in the journal. */
static void kept_key_remove_oldest(struct cayd *c, struct kept_key_owner *o)
{
	struct kept_key *k = o->oldest;

	LIST_UNLINK(*kept_key_bucket(c->kept_keys, slice_of(k->text)), k, next);
	o->oldest = k->newer;
	if (!o->oldest)
		o->last = &o->oldest;
	o->n--;
	db_entry_delete(c->db, &k->sandbox, NULL, NULL);
	free(k);
}

/* -ENOMEM: it is not kept. */
static int kept_key_insert(struct cayd *c, const struct kept_key_row *row)
{
	struct slice text = slice_of(row->key);
	struct kept_key_owner *o = kept_key_owner_find_or_create(c->kept_keys, &row->tenant);
	struct kept_key *k = o ? calloc(1, sizeof(*k) + text.n + 1) : NULL;
	struct kept_key **at = kept_key_bucket(c->kept_keys, text);

	if (!k)
		return -ENOMEM;
	k->owner = o;
	k->sandbox = row->sandbox;
	k->created_ns = row->created_ns;
	memcpy(k->body_hash, row->body, strnlen(row->body, sizeof(k->body_hash) - 1));
	memcpy(k->text, text.p, text.n);
	k->next = *at;
	*at = k;
	*o->last = k;
	o->last = &k->newer;
	o->n++;
	return 0;
}

static bool kept_key_is_expired(const struct cayd *c, uint64_t created_ns)
{
	return clk_wall_ns(c->clk) > created_ns + c->settings.idempotency_ttl_ms * NS_PER_MS;
}

void kept_key_add(struct sandbox *sb)
{
	struct cayd *c = sb->cayd;
	struct kept_key_row row = { .sandbox = sb->info.id,
				    .tenant = sb->info.tenant,
				    .key = sb->idempotency_key,
				    .body = sb->idempotency_hash,
				    .created_ns = sb->info.created_ns };
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct jw w = jw_to(&text);
	struct kept_key_owner *o;

	if (!row.key || kept_key_is_expired(c, row.created_ns))
		return;
	field_encode(&kept_key_row_table, NULL, &row, &w);
	if (jw_finish(&w) < 0 || kept_key_insert(c, &row) < 0) {
		log_error(&c->log, "no memory to keep an idempotency key");
		return;
	}
	db_entry_put(c->db, &(struct db_entry){ row.sandbox, { text.data, text.len } }, NULL, NULL);
	o = kept_key_owner_find_or_create(c->kept_keys, &row.tenant);
	if (o && o->n > KEPT_KEYS_MAX)
		kept_key_remove_oldest(c, o);
}

int kept_key_check(const struct cayd *c, const struct id *tenant, const struct idempotency_key *key,
		   struct cay_err *err)
{
	const struct kept_key *k = key->key.n ? *kept_key_bucket(c->kept_keys, key->key) : NULL;
	char id[ID_TEXT_LEN + 1];

	while (k && (!id_eq(&k->owner->tenant, tenant) || !slice_eq(slice_of(k->text), key->key)))
		k = k->next;
	if (!k || kept_key_is_expired(c, k->created_ns))
		return 0;
	if (!str_eq(k->body_hash, key->body_hash))
		return cay_fail(err, CAY_E_KEY_REUSED,
				"this idempotency key was used for another request");
	id_format(&k->sandbox, id);
	return cay_fail(err, CAY_E_CONFLICT,
			"the request with this idempotency key has created %s, which has ended; "
			"use a new key to create another",
			id);
}

int kept_key_restore(struct cayd *c, const struct db_entry *e, struct cay_err *err)
{
	auto_arena arena = ARENA_INIT(KIB(4));
	struct kept_key_row row = {};
	int r = field_decode_text(&kept_key_row_table, e->text, &json_control_limits, &arena, &row,
				  err);

	if (r < 0)
		return r;
	if (!id_eq(&row.sandbox, &e->id))
		return cay_fail(err, CAY_E_INVALID, "the journal has an invalid idempotency key");
	return kept_key_insert(c, &row) < 0 ? cay_no_memory(err) : 0;
}

void kept_keys_remove_of_tenant(struct cayd *c, const struct id *tenant)
{
	for (struct kept_key_owner *o = c->kept_keys->owners; o; o = o->next)
		while (id_eq(&o->tenant, tenant) && o->oldest)
			kept_key_remove_oldest(c, o);
}

/* Keys of an owner are in the order they came here, nearly that of their creates: one that is kept
 * a little longer does no harm. */
void kept_keys_expire(struct cayd *c, uint64_t now_boot_ns)
{
	struct kept_keys *all = c->kept_keys;
	struct kept_key_owner **at = &all->owners, *o;

	if (now_boot_ns < all->expire_ns)
		return;
	all->expire_ns = now_boot_ns + EXPIRE_EVERY_NS;
	while ((o = *at)) {
		while (o->oldest && kept_key_is_expired(c, o->oldest->created_ns))
			kept_key_remove_oldest(c, o);
		if (o->oldest) {
			at = &o->next;
			continue;
		}
		*at = o->next;
		free(o);
	}
}
