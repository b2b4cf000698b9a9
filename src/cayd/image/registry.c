/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/image/registry.h"
#include "cayd/core/handlers.h"

#include "base/path.h"
#include "text/base64.h"
#include "text/reference.h"

#define FILE_NAME "registries.json"
#define FILE_MAX MIB(1)
#define PAIR_MAX KIB(8) /* USER:PASSWORD */

struct registry_credential {
	char *registry, *username, *password;
};

struct registries {
	struct registry_credential rows[REGISTRIES_MAX];
	size_t n;
};

struct registry_file {
	struct field_list logins;
};

static const struct field registry_file_fields[] = {
	{ .name = "registries",
	  .type = FIELD_LIST,
	  .required = true,
	  .max = REGISTRIES_MAX,
	  .sub = &registry_login_table },
};
static const struct field_table registry_file_table = { "RegistryFile", "",
							sizeof(struct registry_file),
							registry_file_fields,
							ARRAY_SIZE(registry_file_fields) };

static void registry_credential_fini(struct registry_credential *l)
{
	if (l->password)
		explicit_bzero(l->password, strlen(l->password));
	free(l->registry);
	free(l->username);
	free(l->password);
	*l = (struct registry_credential){};
}

static struct registry_credential *registry_credential_find(struct registries *all,
							    struct slice host)
{
	for (size_t i = 0; i < all->n; i++)
		if (slice_eq(slice_of(all->rows[i].registry), host))
			return &all->rows[i];
	return NULL;
}

/* *ret_old is the previous value or NULL; the caller frees it. */
static int registry_credential_set(struct registries *all, const struct registry_login *q,
				   struct registry_credential *ret_old, struct cay_err *err)
{
	struct registry_credential *old = registry_credential_find(all, slice_of(q->registry));
	struct registry_credential l = { strdup(q->registry), strdup(q->username),
					 strdup(q->password) };

	if (!l.registry || !l.username || !l.password) {
		registry_credential_fini(&l);
		return cay_no_memory(err);
	}
	if (!old && all->n == REGISTRIES_MAX) {
		registry_credential_fini(&l);
		return cay_fail(err, CAY_E_LIMIT, "there are credentials for %d registries",
				REGISTRIES_MAX);
	}
	*ret_old = old ? *old : (struct registry_credential){};
	*(old ? old : &all->rows[all->n++]) = l;
	return 0;
}

/* Undo registry_credential_set(). */
static void registry_credential_restore(struct registries *all, const char *registry,
					struct registry_credential *old)
{
	struct registry_credential *l = registry_credential_find(all, slice_of(registry));

	registry_credential_fini(l);
	*l = old->registry ? *old : all->rows[--all->n];
	*old = (struct registry_credential){};
}

static void registry_buf_wipe(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->len);
}

static int registries_save(const struct cayd *c, struct cay_err *err)
{
	auto_buf text = BUF_INIT(FILE_MAX);
	struct jw w = jw_to(&text);
	int r;

	jw_object_begin(&w, NULL);
	jw_array_begin(&w, "registries");
	for (size_t i = 0; i < c->registries->n; i++) {
		const struct registry_credential *l = &c->registries->rows[i];
		struct registry_login row = { l->registry, l->username, l->password };

		field_encode(&registry_login_table, NULL, &row, &w);
	}
	jw_end(&w);
	jw_end(&w);
	r = jw_finish(&w);
	if (r >= 0)
		r = path_write_atomic(c->db_dir, FILE_NAME, text.data, text.len, 0600);
	registry_buf_wipe(&text);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "write db/" FILE_NAME) : 0;
}

int registries_open(struct cayd *c, struct cay_err *err)
{
	static const struct json_limits limits = { FILE_MAX, 8, 10000 };
	auto_buf text = BUF_INIT(FILE_MAX);
	auto_arena arena = ARENA_INIT(FILE_MAX);
	struct registry_file f = {};
	int r;

	c->registries = calloc(1, sizeof(*c->registries));
	if (!c->registries)
		return cay_no_memory(err);
	r = path_read(c->db_dir, FILE_NAME, &text);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "read db/" FILE_NAME);
	r = field_decode_text(&registry_file_table, (struct slice){ buf_str(&text), text.len },
			      &limits, &arena, &f, err);
	for (size_t i = 0; r >= 0 && i < f.logins.n; i++) {
		struct registry_credential old = {};

		r = registry_credential_set(
			c->registries, &((const struct registry_login *)f.logins.v)[i], &old, err);
		registry_credential_fini(&old);
	}
	return r < 0 ? cay_err_wrap(err, r, "db/" FILE_NAME) : 0;
}

bool registry_is_listed(const char *list, struct slice host)
{
	struct slice rest = slice_of(list);

	while (rest.n)
		if (slice_eq(slice_cut(&rest, ' '), host))
			return host.n > 0;
	return false;
}

static int registry_credential_encode(const struct registry_credential *l, struct buf *ret)
{
	auto_buf pair = BUF_INIT(PAIR_MAX);
	int r = buf_printf(&pair, "%s:%s", l->username, l->password);

	if (r >= 0)
		r = buf_reserve(ret, BASE64_TEXT(pair.len) + 1);
	if (r >= 0) {
		base64_encode((const uint8_t *)pair.data, pair.len, ret->data);
		ret->len = BASE64_TEXT(pair.len);
	}
	registry_buf_wipe(&pair);
	return r < 0 ? r : 0;
}

/* {"auths": {"HOST": {"auth": base64 of USER:PASSWORD}}} */
int registry_authfile_write(const struct cayd *c, struct slice host, struct buf *ret)
{
	const struct registry_credential *l = registry_credential_find(c->registries, host);
	auto_buf auth = BUF_INIT(BASE64_TEXT(PAIR_MAX) + 1);
	struct jw w = jw_to(ret);
	int r = l ? registry_credential_encode(l, &auth) : 0;

	if (r < 0)
		return r;
	jw_object_begin(&w, NULL);
	jw_object_begin(&w, "auths");
	if (l) {
		jw_object_begin(&w, l->registry);
		jw_slice(&w, "auth", (struct slice){ auth.data, auth.len });
		jw_end(&w);
		registry_buf_wipe(&auth);
	}
	jw_end(&w);
	jw_end(&w);
	return jw_finish(&w);
}

static void registry_reply(struct request *rq, const struct registry_credential *l)
{
	struct registry row = { l->registry, l->username };

	request_reply_json(rq, &registry_table, &row);
}

void op_registry_login(struct cayd *c, struct request *rq)
{
	const struct registry_login *q = rq->body;
	struct registry_credential old = {};
	struct cay_err err = {};

	if (!reference_is_host(slice_of(q->registry)))
		(void)cay_fail_field(&err, CAY_E_INVALID, "registry", "expected HOST[:PORT]");
	else if (strchr(q->username, ':'))
		(void)cay_fail_field(&err, CAY_E_INVALID, "username", "must not contain ':'");
	if (!err.code && registry_credential_set(c->registries, q, &old, &err) >= 0 &&
	    registries_save(c, &err) < 0)
		registry_credential_restore(c->registries, q->registry, &old);
	if (err.code)
		request_fail(rq, &err);
	else
		registry_reply(rq, registry_credential_find(c->registries, slice_of(q->registry)));
	registry_credential_fini(&old);
}

void op_registry_list(struct cayd *c, struct request *rq)
{
	struct registry rows[REGISTRIES_MAX];
	struct registry_list list = { .registries = { rows, c->registries->n } };

	for (size_t i = 0; i < c->registries->n; i++)
		rows[i] = (struct registry){ c->registries->rows[i].registry,
					     c->registries->rows[i].username };
	request_reply_json(rq, &registry_list_table, &list);
}

void op_registry_logout(struct cayd *c, struct request *rq)
{
	const struct registry_query *q = rq->query;
	struct registries *all = c->registries;
	struct registry_credential *l = registry_credential_find(all, slice_of(q->registry));
	struct cay_err err = {};
	struct registry_credential gone;

	if (!l) {
		request_refuse(rq, CAY_E_NOT_FOUND, "there are no credentials for this registry");
		return;
	}
	gone = *l;
	*l = all->rows[--all->n];
	if (registries_save(c, &err) < 0) {
		all->rows[all->n++] = *l;
		*l = gone;
		request_fail(rq, &err);
		return;
	}
	registry_reply(rq, &gone);
	registry_credential_fini(&gone);
}
