/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/egress/credential-store.h"

#include "base/path.h"
#include "cayd/egress/broker-link.h"
#include "text/base64.h"

#define FILE_NAME "credentials.json"
#define FILE_MAX MIB(16)
#define ROWS_MAX 1024 /* of all tenants */

struct credential_store {
	size_t n;
	struct credential_row *v[ROWS_MAX];
};

size_t credential_store_count(const struct cayd *c)
{
	return c->credentials->n;
}

struct credential_row *credential_store_get(const struct cayd *c, size_t i)
{
	return c->credentials->v[i];
}

struct credential_row *credential_store_find(const struct cayd *c, const struct id *tenant,
					     struct slice name)
{
	const struct credential_store *all = c->credentials;

	for (size_t i = 0; i < all->n; i++)
		if (id_eq(&all->v[i]->put.tenant, tenant) &&
		    slice_eq(slice_of(all->v[i]->put.name), name))
			return all->v[i];
	return NULL;
}

struct credential_info credential_row_describe(const struct credential_row *row,
					       const char *hosts[static CREDENTIAL_HOSTS_MAX])
{
	const struct credential_message *m = &row->put;
	const bool signs = m->form == CREDENTIAL_SIGV4;

	for (size_t i = 0; i < m->n_hosts; i++)
		hosts[i] = m->hosts[i];
	return (struct credential_info){ .name = m->name,
					 .kind = m->form,
					 .hosts = { hosts, m->n_hosts },
					 .has_hosts = true,
					 .header = m->header[0] && !signs ? m->header : NULL,
					 .scope = signs ? m->header : NULL,
					 .pattern = m->pattern[0] ? m->pattern : NULL,
					 .env = row->env[0] ? row->env : NULL,
					 .placeholder = row->placeholder,
					 .hint = row->hint[0] ? row->hint : NULL,
					 .changed_at = row->changed_ns };
}

static void credential_record_write(const struct credential_row *row, struct jw *w)
{
	const char *hosts[CREDENTIAL_HOSTS_MAX];
	const size_t n = row->put.n_sealed;
	char sealed[BASE64_TEXT(CREDENTIAL_SEALED_MAX) + 1];
	struct credential_record record = { .tenant = row->put.tenant,
					    .info = credential_row_describe(row, hosts),
					    .sealed = sealed };

	base64_encode(row->put.sealed, n, sealed);
	sealed[BASE64_TEXT(n)] = 0;
	field_encode(&credential_record_table, NULL, &record, w);
}

static int credential_store_save(const struct cayd *c, struct cay_err *err)
{
	auto_buf text = BUF_INIT(FILE_MAX);
	struct jw w = jw_to(&text);
	int r;

	jw_object_begin(&w, NULL);
	jw_array_begin(&w, "credentials");
	for (size_t i = 0; i < c->credentials->n; i++)
		credential_record_write(c->credentials->v[i], &w);
	jw_end(&w);
	jw_end(&w);
	r = jw_finish(&w);
	if (r >= 0)
		r = path_write_atomic(c->db_dir, FILE_NAME, text.data, text.len, 0600);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "write db/" FILE_NAME) : 0;
}

/* Into a member that is filled with 0; false: it does not fit. */
static bool credential_member_set(char *member, size_t size, const char *text)
{
	size_t n = text ? strlen(text) : 0;

	if (n >= size)
		return false;
	memset(member, 0, size);
	if (n)
		memcpy(member, text, n + 1);
	return true;
}

bool credential_row_fill(struct credential_row *row, const struct id *tenant,
			 const struct credential_info *info)
{
	struct credential_message *m = &row->put;
	bool fits = info->hosts.n >= 1 && info->hosts.n <= CREDENTIAL_HOSTS_MAX &&
		    credential_member_set(m->name, sizeof(m->name), info->name) &&
		    credential_member_set(m->header, sizeof(m->header),
					  info->scope ? info->scope : info->header) &&
		    credential_member_set(m->pattern, sizeof(m->pattern), info->pattern) &&
		    credential_member_set(row->env, sizeof(row->env), info->env) &&
		    credential_member_set(row->hint, sizeof(row->hint), info->hint) &&
		    credential_member_set(row->placeholder, sizeof(row->placeholder),
					  info->placeholder);

	m->magic = CREDENTIAL_MAGIC;
	m->kind = CREDENTIAL_MSG_PUT;
	m->tenant = *tenant;
	m->form = (uint16_t)info->kind;
	m->n_hosts = (uint16_t)info->hosts.n;
	row->changed_ns = info->changed_at;
	for (size_t i = 0; fits && i < info->hosts.n; i++)
		fits = credential_member_set(m->hosts[i], sizeof(m->hosts[i]), info->hosts.v[i]);
	return fits;
}

static int credential_record_load(struct cayd *c, const struct credential_record *record,
				  struct cay_err *err)
{
	struct credential_store *all = c->credentials;
	struct credential_row *row = calloc(1, sizeof(*row));
	uint8_t sealed[BASE64_BYTES(BASE64_TEXT(CREDENTIAL_SEALED_MAX))];
	size_t n = 0, len = strlen(record->sealed);

	if (!row)
		return cay_no_memory(err);
	if (all->n == ROWS_MAX || !credential_row_fill(row, &record->tenant, &record->info) ||
	    len > BASE64_TEXT(CREDENTIAL_SEALED_MAX) ||
	    base64_decode(record->sealed, len, sealed, &n) < 0 || n > CREDENTIAL_SEALED_MAX)
		goto invalid;
	memcpy(row->put.sealed, sealed, n);
	row->put.n_sealed = (uint16_t)n;
	if (credential_message_check(&row->put, sizeof(row->put), true) < 0)
		goto invalid;
	all->v[all->n++] = row;
	return 0;
invalid:
	free(row);
	return cay_fail(err, CAY_E_INTERNAL, "credential '%s' is not valid", record->info.name);
}

static int credential_store_load(struct cayd *c, struct slice text, struct cay_err *err)
{
	static const struct json_limits limits = { FILE_MAX, 8, 100000 };
	auto_arena arena = ARENA_INIT(FILE_MAX);
	struct credential_file f = {};
	int r = field_decode_text(&credential_file_table, text, &limits, &arena, &f, err);
	const struct credential_record *rows = f.credentials.v;

	for (size_t i = 0; r >= 0 && i < f.credentials.n; i++)
		r = credential_record_load(c, &rows[i], err);
	return r < 0 ? cay_err_wrap(err, r, "db/" FILE_NAME) : 0;
}

int credential_store_open(struct cayd *c, struct cay_err *err)
{
	auto_buf text = BUF_INIT(FILE_MAX);
	int r;

	c->credentials = calloc(1, sizeof(*c->credentials));
	if (!c->credentials)
		return cay_no_memory(err);
	r = path_read(c->db_dir, FILE_NAME, &text);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "read db/" FILE_NAME);
	r = credential_store_load(c, (struct slice){ buf_str(&text), text.len }, err);
	return r < 0 ? r : credential_store_remove_of_deleted(c, err);
}

static int credential_store_check_room(const struct cayd *c, const struct id *tenant,
				       struct cay_err *err)
{
	const struct credential_store *all = c->credentials;
	size_t n = 0;

	for (size_t i = 0; i < all->n; i++)
		n += id_eq(&all->v[i]->put.tenant, tenant);
	if (n >= CREDENTIALS_OF_TENANT_MAX)
		return cay_fail(err, CAY_E_LIMIT, "a tenant has at most %d credentials",
				CREDENTIALS_OF_TENANT_MAX);
	if (all->n == ROWS_MAX)
		return cay_fail(err, CAY_E_LIMIT, "all tenants have %d credentials", ROWS_MAX);
	return 0;
}

int credential_store_put(struct cayd *c, const struct credential_row *row,
			 struct credential_row **ret, struct cay_err *err)
{
	struct credential_store *all = c->credentials;
	struct credential_row *old =
		credential_store_find(c, &row->put.tenant, slice_of(row->put.name));
	struct credential_row *now = malloc(sizeof(*now));
	size_t at = 0;
	int r = old ? 0 : credential_store_check_room(c, &row->put.tenant, err);

	if (r < 0 || !now) {
		free(now);
		return r < 0 ? r : cay_no_memory(err);
	}
	*now = *row;
	while (at < all->n && all->v[at] != old)
		at++;
	all->v[at] = now;
	all->n += !old;
	r = credential_store_save(c, err);
	if (r < 0) {
		all->v[at] = old;
		all->n -= !old;
		free(now);
		return r;
	}
	free(old);
	*ret = now;
	return 0;
}

int credential_store_remove(struct cayd *c, const struct credential_row *row, struct cay_err *err)
{
	struct credential_store *all = c->credentials;
	struct credential_row *gone;
	size_t at = 0;
	int r;

	while (all->v[at] != row)
		at++;
	gone = all->v[at];
	all->v[at] = all->v[--all->n];
	r = credential_store_save(c, err);
	if (r < 0) {
		all->v[all->n++] = all->v[at];
		all->v[at] = gone;
		return r;
	}
	free(gone);
	return 0;
}

int credential_store_remove_of_deleted(struct cayd *c, struct cay_err *err)
{
	struct credential_store *all = c->credentials;
	size_t kept = 0, n = all->n;

	for (size_t i = 0; i < n; i++) {
		if (c->hooks->tenant_exists(c, &all->v[i]->put.tenant)) {
			all->v[kept++] = all->v[i];
		} else {
			broker_link_remove(c, all->v[i]);
			free(all->v[i]);
		}
	}
	all->n = kept;
	return kept == n ? 0 : credential_store_save(c, err);
}
