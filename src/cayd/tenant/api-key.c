/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/tenant/api-key.h"
#include "cayd/core/handlers.h"

#include <sys/random.h>

#include "cayd/core/cursor.h"
#include "cayd/core/deferred-reply.h"
#include "cayd/core/list-page.h"
#include "cayd/tenant/tenant.h"
#include "text/hex.h"

#define NAME_MAX_LEN 63
#define GROUP_MAX_LEN 32 /* fits into one record of wire/push.h */
#define TEXT_MAX KIB(2)
/* Resolution of last_used_at in the journal. */
#define USED_NS (UINT64_C(60) * NS_PER_S)

struct key_row {
	struct key_info info; /* its texts are the members below */
	char name[NAME_MAX_LEN + 1], prefix[KEY_PREFIX_LEN + 1], group[GROUP_MAX_LEN + 1];
	uint8_t hash[KEY_HASH_LEN];
	uint8_t old_hash[KEY_HASH_LEN]; /* while info.old_until_ns is not 0 */
	bool saved, rotating;
};

struct api_keys {
	struct key_row *rows[KEYS_MAX];
	size_t n;
};

static struct key_row *key_find(const struct api_keys *all, const struct id *id)
{
	for (size_t i = 0; i < all->n; i++)
		if (id_eq(&all->rows[i]->info.id, id))
			return all->rows[i];
	return NULL;
}

static struct key_row *key_find_by_prefix(const struct api_keys *all, const char *prefix)
{
	for (size_t i = 0; i < all->n; i++)
		if (str_eq(all->rows[i]->prefix, prefix))
			return all->rows[i];
	return NULL;
}

static bool key_is_usable(const struct key_row *r, uint64_t now)
{
	return r->saved && !r->info.revoked && (!r->info.has_expires || now < r->info.expires_ns);
}

int keys_open(struct cayd *c, struct cay_err *err)
{
	c->keys = calloc(1, sizeof(*c->keys));
	return c->keys ? 0 : cay_no_memory(err);
}

bool keys_is_empty(const struct cayd *c)
{
	return !c->keys->n;
}

/* NULL also for texts that no schema accepts. */
static struct key_row *key_row_add(struct api_keys *all, const struct key_info *info)
{
	size_t name = strlen(info->name), prefix = strlen(info->prefix);
	size_t group = info->group ? strlen(info->group) : 0;
	bool fits = name <= NAME_MAX_LEN && prefix == KEY_PREFIX_LEN && group <= GROUP_MAX_LEN &&
		    all->n < KEYS_MAX;
	struct key_row *r = fits ? calloc(1, sizeof(*r)) : NULL;

	if (!r)
		return NULL;
	r->info = *info;
	memcpy(r->name, info->name, name);
	memcpy(r->prefix, info->prefix, prefix);
	if (group)
		memcpy(r->group, info->group, group);
	r->info.name = r->name;
	r->info.prefix = r->prefix;
	r->info.group = group ? r->group : NULL;
	all->rows[all->n++] = r;
	return r;
}

static void key_row_remove_at(struct api_keys *all, size_t i)
{
	explicit_bzero(all->rows[i], sizeof(*all->rows[i]));
	free(all->rows[i]);
	memmove(&all->rows[i], &all->rows[i + 1], (--all->n - i) * sizeof(all->rows[0]));
}

static void key_remove(struct cayd *c, const struct id *id)
{
	struct id gone = *id; /* id may point into the row */

	for (size_t i = 0; i < c->keys->n; i++)
		if (id_eq(&c->keys->rows[i]->info.id, &gone)) {
			db_entry_delete(c->db, &gone, NULL, NULL);
			key_row_remove_at(c->keys, i);
			c->hooks->key_changed(c, &gone);
			return;
		}
}

void keys_remove_of_tenant(struct cayd *c, const struct id *tenant)
{
	for (size_t i = c->keys->n; i-- > 0;)
		if (id_eq(&c->keys->rows[i]->info.tenant, tenant))
			key_remove(c, &c->keys->rows[i]->info.id);
}

/* The journal */

int key_restore(struct cayd *c, const struct db_entry *e, struct cay_err *err)
{
	auto_arena arena = ARENA_INIT(KIB(4));
	struct key_record in = {};
	uint8_t hash[KEY_HASH_LEN], old[KEY_HASH_LEN] = {};
	struct key_row *row;
	int r = field_decode_text(&key_record_table, e->text, &json_control_limits, &arena, &in,
				  err);

	if (r < 0)
		return r;
	if (!id_eq(&in.key.id, &e->id) || key_find_by_prefix(c->keys, in.key.prefix) ||
	    hex_decode(in.hash, strlen(in.hash), hash, sizeof(hash)) < 0 ||
	    (in.old_hash && hex_decode(in.old_hash, strlen(in.old_hash), old, sizeof(old)) < 0) ||
	    (in.key.old_until_ns && !in.old_hash))
		return cay_fail(err, CAY_E_INVALID, "the journal has an invalid key");
	row = key_row_add(c->keys, &in.key);
	if (!row)
		return cay_fail(err, CAY_E_NO_MEMORY, "cannot add a key");
	memcpy(row->hash, hash, sizeof(hash));
	memcpy(row->old_hash, old, sizeof(old));
	row->saved = true;
	return 0;
}

static void key_save(struct cayd *c, const struct key_row *r, db_fn *fn, void *arg)
{
	char hash[2 * KEY_HASH_LEN + 1], old[2 * KEY_HASH_LEN + 1];
	struct key_record out = { .key = r->info, .hash = hash };
	auto_buf text = BUF_INIT(TEXT_MAX);
	struct jw w = jw_to(&text);
	struct db_entry entry = { .id = r->info.id };

	hex_encode(r->hash, sizeof(r->hash), hash);
	hex_encode(r->old_hash, sizeof(r->old_hash), old);
	if (r->info.old_until_ns)
		out.old_hash = old;
	field_encode(&key_record_table, NULL, &out, &w);
	if (jw_finish(&w) >= 0)
		entry.text = (struct slice){ text.data, text.len };
	else
		entry.id =
			(struct id){}; /* the journal refuses the empty id, which is the outcome */
	db_entry_put(c->db, &entry, fn, arg);
}

/* Create */

int key_generate(const struct cayd *c, char *ret, struct cay_err *err)
{
	uint8_t chance[KEY_PREFIX_BYTES + KEY_SECRET_BYTES];
	char prefix[KEY_PREFIX_LEN + 1];

	do {
		if (getrandom(chance, sizeof(chance), 0) != sizeof(chance))
			return cay_fail(err, CAY_E_INTERNAL, "cannot get random bytes");
		key_prefix_format(chance, prefix);
	} while (key_find_by_prefix(c->keys, prefix));
	key_format(prefix, chance + KEY_PREFIX_BYTES, ret);
	explicit_bzero(chance, sizeof(chance));
	return 0;
}

/* Remove the oldest revoked or expired keys if the table is full. */
static void keys_evict_unusable(struct cayd *c)
{
	uint64_t now = clk_wall_ns(c->clk);

	for (size_t i = 0; c->keys->n == KEYS_MAX && i < c->keys->n; i++)
		if (c->keys->rows[i]->saved && !key_is_usable(c->keys->rows[i], now))
			key_remove(c, &c->keys->rows[i]->info.id);
}

int key_add(struct cayd *c, const struct key_create *spec, struct slice text, struct id *ret,
	    db_fn *fn, void *arg, struct cay_err *err)
{
	char prefix[KEY_PREFIX_LEN + 1];
	struct key_info info = { .tenant = spec->tenant,
				 .name = spec->name,
				 .prefix = prefix,
				 .scope = spec->scope,
				 .group = spec->group,
				 .created_ns = clk_wall_ns(c->clk),
				 .has_expires = spec->has_ttl };
	struct key_row *r;

	if (key_parse(text, prefix) < 0 || key_find_by_prefix(c->keys, prefix))
		return cay_fail(err, CAY_E_INVALID, "not a valid key, or it exists already");
	if (id_generate(ID_KEY, 0, 0, &info.id) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "cannot get random bytes");
	if (spec->has_ttl)
		info.expires_ns = info.created_ns + spec->ttl_ms * NS_PER_MS;
	keys_evict_unusable(c);
	if (c->keys->n == KEYS_MAX)
		return cay_fail(err, CAY_E_LIMIT, "there are %d valid keys already", KEYS_MAX);
	r = key_row_add(c->keys, &info);
	if (!r)
		return cay_no_memory(err);
	key_hash(text, r->hash);
	*ret = info.id;
	key_save(c, r, fn, arg);
	return 0;
}

static void key_reply_with_secret(struct deferred_reply *l, const struct key_row *r)
{
	struct key_made made = { r->info, l->secret };

	if (l->rq)
		request_reply_json(l->rq, &key_made_table, &made);
}

void key_add_finish(struct cayd *c, const struct id *id, const struct cay_err *outcome)
{
	struct key_row *r = key_find(c->keys, id);

	if (r && outcome->code)
		key_remove(c, id); /* a failed write may have reached the disk */
	else if (r) {
		r->saved = true;
		c->hooks->key_changed(c, id);
	}
}

static void on_key_created(struct deferred_reply *l, const struct cay_err *outcome)
{
	const struct key_row *r;

	key_add_finish(l->cayd, &l->id, outcome);
	r = outcome->code ? NULL : key_find(l->cayd->keys, &l->id);
	if (r)
		key_reply_with_secret(l, r);
	else if (l->rq)
		request_fail(l->rq, outcome);
}

void op_key_create(struct cayd *c, struct request *rq)
{
	const struct key_create *q = rq->body;
	struct deferred_reply *l = deferred_reply_create(c, rq, &(struct id){}, on_key_created);
	struct cay_err err = {};

	if (!l)
		return;
	if (!tenant_exists(c, &q->tenant))
		(void)cay_fail_field(&err, CAY_E_NOT_FOUND, "tenant", "there is no such tenant");
	else if (q->group && q->scope == KEY_OPERATOR)
		(void)cay_fail_field(&err, CAY_E_INVALID, "group",
				     "an operator's key cannot be bound to a group");
	if (err.code || key_generate(c, l->secret, &err) < 0 ||
	    key_add(c, q, slice_of(l->secret), &l->id, deferred_reply_finish, l, &err) < 0)
		deferred_reply_finish(l, &err);
}

void op_key_list(struct cayd *c, struct request *rq)
{
	const struct page_query *q = rq->query;
	const struct api_keys *all = c->keys;
	uint64_t at, now = clk_wall_ns(c->clk);
	struct list_page page;

	if (!cursor_parse(rq, q->cursor, &at))
		return;
	list_page_begin(&page, "keys");
	for (; at < all->n && page.rows < q->limit; at++) {
		struct key_info k = all->rows[at]->info;

		if (k.old_until_ns <= now)
			k.old_until_ns = 0;
		if (all->rows[at]->saved && !list_page_add(&page, &key_info_table, &k))
			break;
	}
	list_page_finish(&page, at < all->n ? cursor_format(rq, at) : NULL);
	list_page_reply(&page, rq);
}

/* The key in the path; NULL if the request was answered. */
static struct key_row *key_find_of_request(struct cayd *c, struct request *rq)
{
	struct key_row *r = key_find(c->keys, &rq->match.params[0]);

	if (r && r->saved)
		return r;
	request_failf(rq, CAY_E_NOT_FOUND, "there is no such key");
	return NULL;
}

static void on_key_revoked(struct deferred_reply *l, const struct cay_err *outcome)
{
	const struct key_row *r = key_find(l->cayd->keys, &l->id);
	struct cay_err err = *outcome;

	if (!err.code && !r)
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "there is no such key");
	request_reply_outcome(l->rq, &err, &key_info_table, r ? &r->info : NULL);
}

/* Takes effect at once, even if the journal cannot write it; then the client has to repeat it. */
void op_key_revoke(struct cayd *c, struct request *rq)
{
	struct key_row *r = key_find_of_request(c, rq);
	struct deferred_reply *l =
		r ? deferred_reply_create(c, rq, &r->info.id, on_key_revoked) : NULL;

	if (!l)
		return;
	r->info.revoked = true;
	r->info.old_until_ns = 0;
	c->hooks->key_changed(c, &r->info.id);
	c->hooks->access_revoked(c);
	key_save(c, r, deferred_reply_finish, l);
}

static void on_key_rotated(struct deferred_reply *l, const struct cay_err *outcome)
{
	struct key_row *r = key_find(l->cayd->keys, &l->id);
	struct cay_err err = *outcome;

	if (!err.code && !r)
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "there is no such key");
	if (r && l->secret[0]) /* else this rotation never began */
		r->rotating = false;
	if (err.code && r && key_matches_hash(slice_of(l->secret), r->hash)) {
		/* no client got the new secret: the old one stays valid */
		memcpy(r->hash, r->old_hash, sizeof(r->hash));
		memcpy(r->old_hash, l->hash, sizeof(r->old_hash));
		r->info.old_until_ns = l->old_until_ns;
		key_save(l->cayd, r, NULL, NULL);
	}
	if (r)
		l->cayd->hooks->key_changed(l->cayd, &l->id);
	if (!err.code && r)
		key_reply_with_secret(l, r);
	else if (l->rq)
		request_fail(l->rq, &err);
}

static int key_secret_generate(const struct key_row *r, char *ret, struct cay_err *err)
{
	uint8_t chance[KEY_SECRET_BYTES];

	if (getrandom(chance, sizeof(chance), 0) != sizeof(chance))
		return cay_fail(err, CAY_E_INTERNAL, "cannot get random bytes");
	key_format(r->prefix, chance, ret);
	explicit_bzero(chance, sizeof(chance));
	return 0;
}

void op_key_rotate(struct cayd *c, struct request *rq)
{
	const struct key_rotate *q = rq->body;
	uint64_t now = clk_wall_ns(c->clk);
	struct key_row *r = key_find_of_request(c, rq);
	struct deferred_reply *l =
		r ? deferred_reply_create(c, rq, &r->info.id, on_key_rotated) : NULL;
	struct cay_err err = {};

	if (!l)
		return;
	if (!key_is_usable(r, now))
		(void)cay_fail(&err, CAY_E_CONFLICT, "the key was revoked or has expired");
	else if (r->rotating)
		(void)cay_fail(&err, CAY_E_CONFLICT, "the key is being rotated");
	if (err.code || key_secret_generate(r, l->secret, &err) < 0) {
		l->secret[0] = 0;
		deferred_reply_finish(l, &err);
		return;
	}
	memcpy(l->hash, r->old_hash, sizeof(l->hash));
	l->old_until_ns = r->info.old_until_ns;
	memcpy(r->old_hash, r->hash, sizeof(r->old_hash));
	r->info.old_until_ns = q->overlap_ms ? now + q->overlap_ms * NS_PER_MS : 0;
	key_hash(slice_of(l->secret), r->hash);
	r->rotating = true;
	key_save(c, r, deferred_reply_finish, l);
}

/* Use */

unsigned keys_count_usable(const struct cayd *c, const struct id *tenant)
{
	uint64_t now = clk_wall_ns(c->clk);
	unsigned n = 0;

	for (size_t i = 0; i < c->keys->n; i++) {
		const struct key_row *r = c->keys->rows[i];

		/* a key that is being saved counts */
		n += id_eq(&r->info.tenant, tenant) && (!r->saved || key_is_usable(r, now));
	}
	return n;
}

static enum op_scope key_row_scope(const struct key_row *r)
{
	return (enum op_scope)(SCOPE_READ + r->info.scope);
}

bool key_allows_actor(const struct cayd *c, const struct actor *a)
{
	const struct key_row *r = key_find(c->keys, &a->key);

	if (a->key.noun == ID_NONE)
		return true;
	return r && key_is_usable(r, clk_wall_ns(c->clk)) && id_eq(&r->info.tenant, &a->tenant) &&
	       a->scope <= key_row_scope(r) && (!r->group[0] || str_eq(a->group, r->group));
}

bool actor_is_still_valid(const struct cayd *c, const struct actor *a)
{
	return a->scope == SCOPE_PUBLIC || (tenant_exists(c, &a->tenant) && key_allows_actor(c, a));
}

bool key_find_owner(const struct cayd *c, const struct id *id, struct id *ret)
{
	const struct key_row *r = key_find(c->keys, id);

	if (r)
		*ret = r->info.tenant;
	return r;
}

bool key_secret_matches(const struct cayd *c, const struct id *id, struct slice text)
{
	const struct key_row *r = key_find(c->keys, id);

	/* during a rotation the old secret is valid until the new one is durable */
	return r && (key_matches_hash(text, r->hash) ||
		     ((r->rotating || r->info.old_until_ns > clk_wall_ns(c->clk)) &&
		      key_matches_hash(text, r->old_hash)));
}

/* The earlier of two times, in ms; 0 means never. */
static uint64_t key_earlier_expiry_ms(uint64_t a_ns, uint64_t b_ns)
{
	uint64_t ns = !a_ns || (b_ns && b_ns < a_ns) ? b_ns : a_ns;

	return ns ? ns / NS_PER_MS : PUSH_NEVER;
}

void key_emit_push_records(const struct cayd *c, const struct id *id, key_push_fn *fn, void *arg)
{
	uint64_t now = clk_wall_ns(c->clk);

	for (size_t i = 0; i < c->keys->n; i++) {
		const struct key_row *r = c->keys->rows[i];
		uint64_t expires = r->info.has_expires ? r->info.expires_ns : 0;
		struct push p = { .kind = PUSH_KEY,
				  .value = (uint8_t)key_row_scope(r),
				  .number = r->group[0] != 0,
				  .id = r->info.id,
				  .tenant = r->info.tenant,
				  .time = key_earlier_expiry_ms(expires, 0) };

		if ((id && !id_eq(id, &r->info.id)) || !key_is_usable(r, now))
			continue;
		memcpy(p.secret, r->hash, sizeof(p.secret));
		fn(arg, &p);
		if (r->info.old_until_ns > now) {
			p.time = key_earlier_expiry_ms(expires, r->info.old_until_ns);
			memcpy(p.secret, r->old_hash, sizeof(p.secret));
			fn(arg, &p);
		}
		if (r->group[0]) {
			p = (struct push){ .kind = PUSH_KEY_GROUP, .id = r->info.id };
			memcpy(p.secret, r->group, GROUP_MAX_LEN);
			fn(arg, &p);
		}
		explicit_bzero(&p, sizeof(p));
	}
}

void key_mark_used(struct cayd *c, const struct id *id)
{
	uint64_t now = clk_wall_ns(c->clk);
	struct key_row *r = key_find(c->keys, id);

	if (!r || !r->saved || (now >= r->info.used_ns && now - r->info.used_ns <= USED_NS))
		return;
	r->info.used_ns = now;
	key_save(c, r, NULL, NULL);
}
