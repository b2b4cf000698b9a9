/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/image/registry.h"
#include "cayd/core/handlers.h"

#include "base/path.h"
#include "cayd/core/node-key.h"
#include "cayd/image/image.h"
#include "text/base64.h"
#include "text/reference.h"

#define FILE_NAME "registries.json"
#define FILE_MAX MIB(8)
#define ROWS_MAX 1024    /* of all owners */
#define PAIR_MAX KIB(16) /* USER:PASSWORD, and room to open it in */
#define SEALED_MAX KIB(8)
#define PURPOSE_MAX KIB(1)
#define AUTHFILE_MAX KIB(24)

/* The secret is sealed, in memory as in the file. */
struct registry_credential {
	char *registry, *username, *sealed;
	struct id tenant; /* none: the node */
};

struct registries {
	struct registry_credential rows[ROWS_MAX];
	size_t n;
};

/* A row of the file: sealed, or with a password as older versions wrote it. */
struct registry_row {
	const char *registry, *username, *sealed, *password;
	struct id tenant;
};

struct registry_file {
	struct field_list rows;
};

#define TEXT_ROW(name_, member, max_, ...) \
	{ .name = (name_), \
	  .type = FIELD_TEXT, \
	  .offset = offsetof(struct registry_row, member), \
	  .min = 1, \
	  .max = (max_), \
	  __VA_ARGS__ }
static const struct field registry_row_fields[] = {
	TEXT_ROW("registry", registry, 255, .required = true, .check = CHECK_WORD),
	TEXT_ROW("username", username, 255, .required = true, .check = CHECK_WORD),
	TEXT_ROW("sealed", sealed, KIB(8), .check = CHECK_WORD),
	TEXT_ROW("password", password, 4096),
	{ .name = "tenant",
	  .type = FIELD_ID,
	  .offset = offsetof(struct registry_row, tenant),
	  .noun = ID_TENANT },
};
#undef TEXT_ROW
static const struct field_table registry_row_table = { "RegistryRow", "",
						       sizeof(struct registry_row),
						       registry_row_fields,
						       ARRAY_SIZE(registry_row_fields) };

static const struct field registry_file_fields[] = {
	{ .name = "registries",
	  .type = FIELD_LIST,
	  .required = true,
	  .max = ROWS_MAX,
	  .sub = &registry_row_table },
};
static const struct field_table registry_file_table = { "RegistryFile", "",
							sizeof(struct registry_file),
							registry_file_fields,
							ARRAY_SIZE(registry_file_fields) };

static void registry_credential_fini(struct registry_credential *l)
{
	free(l->registry);
	free(l->username);
	free(l->sealed);
	*l = (struct registry_credential){};
}

static bool registry_credential_is_of(const struct registry_credential *l, const struct id *owner)
{
	return l->tenant.noun == owner->noun &&
	       (owner->noun == ID_NONE || id_eq(&l->tenant, owner));
}

/* The owner's own, not the node's. */
static struct registry_credential *registry_credential_find(struct registries *all,
							    const struct id *owner,
							    struct slice host)
{
	for (size_t i = 0; i < all->n; i++)
		if (registry_credential_is_of(&all->rows[i], owner) &&
		    slice_eq(slice_of(all->rows[i].registry), host))
			return &all->rows[i];
	return NULL;
}

/* The seal binds these, so that no row opens under the name or tenant of another. */
static int registry_purpose_write(const char *registry, const char *username,
				  const struct id *tenant, struct buf *ret)
{
	char id[ID_TEXT_LEN + 1];

	if (tenant->noun == ID_NONE)
		return buf_printf(ret, "cay registry\n%s\n%s\n", registry, username);
	id_format(tenant, id);
	return buf_printf(ret, "cay registry of a tenant\n%s\n%s\n%s\n", id, registry, username);
}

/* Append USER:PASSWORD; the caller wipes it. */
static int registry_credential_unseal(const struct cayd *c, const struct registry_credential *l,
				      struct buf *ret)
{
	auto_buf purpose = BUF_INIT(PURPOSE_MAX);
	int r = registry_purpose_write(l->registry, l->username, &l->tenant, &purpose);

	if (r >= 0)
		r = buf_reserve(ret, strlen(l->username) + 1 + strlen(l->sealed));
	if (r >= 0)
		r = buf_printf(ret, "%s:", l->username);
	return r < 0 ? r
		     : node_key_unseal(c, (struct slice){ purpose.data, purpose.len },
				       slice_of(l->sealed), ret);
}

static bool registry_credential_opens(const struct cayd *c, const struct registry_credential *l)
{
	auto_buf pair = BUF_INIT(PAIR_MAX);
	int r = registry_credential_unseal(c, l, &pair);

	buf_wipe(&pair);
	return r >= 0;
}

static int registry_password_seal(const struct cayd *c, const struct registry_row *row,
				  struct buf *ret, struct cay_err *err)
{
	auto_buf purpose = BUF_INIT(PURPOSE_MAX);

	if (registry_purpose_write(row->registry, row->username, &row->tenant, &purpose) < 0)
		return cay_no_memory(err);
	return node_key_seal(c, (struct slice){ purpose.data, purpose.len },
			     slice_of(row->password), ret, err);
}

static int registries_check_room(const struct registries *all, const struct id *owner,
				 struct cay_err *err)
{
	size_t max = owner->noun == ID_NONE ? REGISTRIES_MAX : REGISTRIES_TENANT, n = 0;

	for (size_t i = 0; i < all->n; i++)
		n += registry_credential_is_of(&all->rows[i], owner);
	if (n >= max)
		return cay_fail(err, CAY_E_LIMIT, "there are credentials for %zu registries", max);
	if (all->n == ROWS_MAX)
		return cay_fail(err, CAY_E_LIMIT, "all tenants have %d credentials", ROWS_MAX);
	return 0;
}

/* Of a row that is sealed.  *ret_old is the previous value or NULL; the caller frees it. */
static int registry_credential_set(struct registries *all, const struct registry_row *row,
				   struct registry_credential *ret_old, struct cay_err *err)
{
	struct registry_credential *old =
		registry_credential_find(all, &row->tenant, slice_of(row->registry));
	struct registry_credential l = { strdup(row->registry), strdup(row->username),
					 strdup(row->sealed), row->tenant };
	int r;

	if (!l.registry || !l.username || !l.sealed) {
		registry_credential_fini(&l);
		return cay_no_memory(err);
	}
	r = old ? 0 : registries_check_room(all, &row->tenant, err);
	if (r < 0) {
		registry_credential_fini(&l);
		return r;
	}
	*ret_old = old ? *old : (struct registry_credential){};
	*(old ? old : &all->rows[all->n++]) = l;
	return 0;
}

/* Undo registry_credential_set(). */
static void registry_credential_restore(struct registries *all, const struct registry_row *row,
					struct registry_credential *old)
{
	struct registry_credential *l =
		registry_credential_find(all, &row->tenant, slice_of(row->registry));

	registry_credential_fini(l);
	*l = old->registry ? *old : all->rows[--all->n];
	*old = (struct registry_credential){};
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
		struct registry_row row = { .registry = l->registry,
					    .username = l->username,
					    .sealed = l->sealed,
					    .tenant = l->tenant };

		field_encode(&registry_row_table, NULL, &row, &w);
	}
	jw_end(&w);
	jw_end(&w);
	r = jw_finish(&w);
	if (r >= 0)
		r = path_write_atomic(c->db_dir, FILE_NAME, text.data, text.len, 0600);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "write db/" FILE_NAME) : 0;
}

/* A password of an older version is sealed; *ret_clear says that there was one. */
static int registry_row_load(struct cayd *c, const struct registry_row *row, bool *ret_clear,
			     struct cay_err *err)
{
	struct registry_credential old = {};
	struct registry_row sealed = *row;
	auto_buf text = BUF_INIT(SEALED_MAX);
	int r = 0;

	if (!row->sealed && !row->password)
		return cay_fail(err, CAY_E_INTERNAL, "'%s' has no credentials", row->registry);
	if (!row->sealed) {
		r = node_key_ensure(c, err); /* durable before anything is sealed with it */
		if (r >= 0)
			r = registry_password_seal(c, row, &text, err);
		*ret_clear = true;
		sealed.sealed = buf_str(&text);
		sealed.password = NULL;
	}
	if (r >= 0)
		r = registry_credential_set(c->registries, &sealed, &old, err);
	registry_credential_fini(&old);
	return r;
}

static void registries_report_closed(struct cayd *c)
{
	for (size_t i = 0; i < c->registries->n; i++) {
		const struct registry_credential *l = &c->registries->rows[i];

		if (!registry_credential_opens(c, l))
			log_error(&c->log,
				  "the credentials of registry '%s' cannot be opened: put "
				  "secret/node.key back and restart cayd, or run 'cay image login'",
				  l->registry);
	}
}

static int registries_load(struct cayd *c, struct slice text, struct cay_err *err)
{
	static const struct json_limits limits = { FILE_MAX, 8, 10000 };
	auto_arena arena = ARENA_INIT(FILE_MAX);
	struct registry_file f = {};
	bool clear = false;
	int r = field_decode_text(&registry_file_table, text, &limits, &arena, &f, err);
	struct registry_row *rows = f.rows.v;

	for (size_t i = 0; r >= 0 && i < f.rows.n; i++)
		r = registry_row_load(c, &rows[i], &clear, err);
	for (size_t i = 0; i < f.rows.n; i++)
		str_wipe(rows[i].password);
	if (r < 0)
		return cay_err_wrap(err, r, "db/" FILE_NAME);
	if (!clear)
		return 0;
	r = registries_save(c, err);
	if (r >= 0)
		log_info(&c->log, "sealed the passwords in db/" FILE_NAME);
	return r;
}

int registries_open(struct cayd *c, struct cay_err *err)
{
	auto_buf text = BUF_INIT(FILE_MAX);
	int r;

	c->registries = calloc(1, sizeof(*c->registries));
	if (!c->registries)
		return cay_no_memory(err);
	r = path_read(c->db_dir, FILE_NAME, &text);
	if (r == -ENOENT)
		r = 0;
	else if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "read db/" FILE_NAME);
	else
		r = registries_load(c, (struct slice){ buf_str(&text), text.len }, err);
	buf_wipe(&text);
	if (r < 0)
		return r;
	registries_report_closed(c);
	/* a key that was lost stays missing until a login: it may be put back */
	return c->registries->n || !node_key_is_missing(c) ? 0 : node_key_ensure(c, err);
}

bool registry_is_listed(const char *list, struct slice host)
{
	struct slice rest = slice_of(list);

	while (rest.n)
		if (slice_eq(slice_cut(&rest, ' '), host))
			return host.n > 0;
	return false;
}

bool registry_has_login(const struct cayd *c, const struct id *tenant, struct slice host)
{
	return registry_credential_find(c->registries, tenant, host);
}

/* Append USER:PASSWORD of the credentials that count, or nothing; the caller wipes it. */
static int registry_pair_write(const struct cayd *c, const struct id *owner,
			       const struct registry_auth *given, struct slice host,
			       struct buf *ret)
{
	const struct registry_credential *own =
		registry_credential_find(c->registries, owner, host);
	const struct registry_credential *l =
		own ? own : registry_credential_find(c->registries, &image_owner_node, host);

	if (!given)
		return l ? registry_credential_unseal(c, l, ret) : 0;
	/* reserved at once: a buffer that grows leaves a copy */
	if (buf_reserve(ret, strlen(given->username) + strlen(given->password) + 2) < 0)
		return -ENOMEM;
	return buf_printf(ret, "%s:%s", given->username, given->password);
}

/* {"auths": {"HOST": {"auth": base64 of USER:PASSWORD}}} */
int registry_authfile_write(const struct cayd *c, const struct id *owner,
			    const struct registry_auth *given, struct slice host, struct buf *ret,
			    struct cay_err *err)
{
	auto_buf pair = BUF_INIT(PAIR_MAX), auth = BUF_INIT(BASE64_TEXT(PAIR_MAX));
	auto_buf name = BUF_INIT(KIB(1));
	struct jw w = jw_to(ret);
	int r = registry_pair_write(c, owner, given, host, &pair);

	if (r == -ENOKEY || r == -EBADMSG)
		return cay_fail(err, CAY_E_UNAVAILABLE,
				"the credentials of registry '%.*s' cannot be opened; an operator "
				"stores them again with 'cay image login'",
				(int)host.n, host.p);
	if (r >= 0)
		r = buf_reserve(&auth, BASE64_TEXT(pair.len));
	if (r >= 0)
		r = buf_reserve(ret, AUTHFILE_MAX);
	if (r >= 0)
		r = buf_append(&name, host.p, host.n);
	if (r < 0) {
		buf_wipe(&pair);
		return cay_no_memory(err);
	}
	base64_encode((const uint8_t *)pair.data, pair.len, auth.data);
	jw_object_begin(&w, NULL);
	jw_object_begin(&w, "auths");
	if (pair.len) {
		jw_object_begin(&w, buf_str(&name));
		jw_slice(&w, "auth", (struct slice){ auth.data, BASE64_TEXT(pair.len) });
		jw_end(&w);
	}
	jw_end(&w);
	jw_end(&w);
	buf_wipe(&auth);
	buf_wipe(&pair);
	return jw_finish(&w) < 0 ? cay_no_memory(err) : 0;
}

void registry_auth_take(struct registry_auth *from, bool *has, struct registry_auth_copy *ret)
{
	*ret = (struct registry_auth_copy){};
	if (!*has)
		return;
	*has = false;
	/* the schema has their lengths */
	ret->given = strlen(from->username) < sizeof(ret->username) &&
		     strlen(from->password) < sizeof(ret->password);
	if (ret->given) {
		memcpy(ret->username, from->username, strlen(from->username));
		memcpy(ret->password, from->password, strlen(from->password));
	}
	str_wipe(from->password);
	ret->auth = (struct registry_auth){ ret->username, ret->password };
}

int registry_auth_check(const struct registry_auth_copy *a, struct cay_err *err)
{
	return strchr(a->username, ':')
		       ? cay_fail_field(err, CAY_E_INVALID, "registry_auth.username",
					"must not contain ':'")
		       : 0;
}

static struct registry registry_describe(const struct cayd *c, const struct registry_credential *l)
{
	return (struct registry){ .registry = l->registry,
				  .username = l->username,
				  .unreadable = !registry_credential_opens(c, l),
				  .tenant = l->tenant };
}

static void registry_reply(struct cayd *c, struct request *rq, const struct registry_credential *l)
{
	struct registry row = registry_describe(c, l);

	request_reply_json(rq, &registry_table, &row);
}

static int registry_login(struct cayd *c, const struct registry_login *q, struct cay_err *err)
{
	struct registry_row row = { .registry = q->registry,
				    .username = q->username,
				    .password = q->password,
				    .tenant = q->tenant };
	struct registry_credential old = {};
	auto_buf sealed = BUF_INIT(SEALED_MAX);
	int r = node_key_ensure(c, err);

	if (r >= 0)
		r = registry_password_seal(c, &row, &sealed, err);
	row.sealed = buf_str(&sealed);
	if (r >= 0)
		r = registry_credential_set(c->registries, &row, &old, err);
	if (r >= 0) {
		r = registries_save(c, err);
		if (r < 0)
			registry_credential_restore(c->registries, &row, &old);
	}
	registry_credential_fini(&old);
	return r;
}

void op_registry_login(struct cayd *c, struct request *rq)
{
	const struct registry_login *q = rq->body;
	struct cay_err err = {};

	if (!reference_is_host(slice_of(q->registry)))
		(void)cay_fail_field(&err, CAY_E_INVALID, "registry", "expected HOST[:PORT]");
	else if (strchr(q->username, ':'))
		(void)cay_fail_field(&err, CAY_E_INVALID, "username", "must not contain ':'");
	else if (q->tenant.noun != ID_NONE && !c->hooks->tenant_exists(c, &q->tenant))
		(void)cay_fail_field(&err, CAY_E_NOT_FOUND, "tenant", "there is no such tenant");
	else
		(void)registry_login(c, q, &err);
	str_wipe(q->password);
	if (err.code)
		request_fail(rq, &err);
	else
		registry_reply(
			c, rq,
			registry_credential_find(c->registries, &q->tenant, slice_of(q->registry)));
}

void op_registry_list(struct cayd *c, struct request *rq)
{
	struct registry *rows = arena_alloc(&rq->arena, c->registries->n + 1, sizeof(*rows));
	struct registry_list list = { .registries = { rows, c->registries->n } };

	if (!rows) {
		request_no_memory(rq);
		return;
	}
	for (size_t i = 0; i < c->registries->n; i++)
		rows[i] = registry_describe(c, &c->registries->rows[i]);
	request_reply_json(rq, &registry_list_table, &list);
}

void op_registry_logout(struct cayd *c, struct request *rq)
{
	const struct registry_query *q = rq->query;
	struct registries *all = c->registries;
	struct registry_credential *l =
		registry_credential_find(all, &q->tenant, slice_of(q->registry));
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
	registry_reply(c, rq, &gone);
	registry_credential_fini(&gone);
}

int registries_remove_of_deleted(struct cayd *c, struct cay_err *err)
{
	struct registries *all = c->registries;
	size_t kept = 0, n = all->n;

	for (size_t i = 0; i < n; i++) {
		if (all->rows[i].tenant.noun != ID_NONE &&
		    !c->hooks->tenant_exists(c, &all->rows[i].tenant))
			registry_credential_fini(&all->rows[i]);
		else
			all->rows[kept++] = all->rows[i];
	}
	all->n = kept;
	return kept == n ? 0 : registries_save(c, err);
}
