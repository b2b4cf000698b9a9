/* SPDX-License-Identifier: Apache-2.0 */
/* credential-ops - secrets that cay-broker sets in requests of sandboxes */
#include <sys/random.h>

#include "cayd/core/deferred-reply.h"
#include "cayd/core/handlers.h"
#include "cayd/egress/broker-link.h"
#include "cayd/egress/credential-store.h"
#include "cayd/tenant/tenant.h"
#include "egress/host-name.h"
#include "text/base64.h"

#define HINT_FROM 16 /* a shorter value would lose too much by its last four */

static struct credential_info credential_describe(const struct cayd *c,
						  const struct credential_row *row,
						  const char *hosts[static CREDENTIAL_HOSTS_MAX])
{
	struct credential_info info = credential_row_describe(row, hosts);

	info.ready = broker_link_has(c, row);
	return info;
}

static void credential_reply(struct cayd *c, struct request *rq, const struct credential_row *row)
{
	const char *hosts[CREDENTIAL_HOSTS_MAX];
	struct credential_info info = credential_describe(c, row, hosts);

	request_reply_json(rq, &credential_info_table, &info);
}

/* "cay_cred_" and 22 random letters and digits. */
static int credential_placeholder_create(char ret[static CREDENTIAL_PLACEHOLDER_SIZE])
{
	static const char prefix[] = "cay_cred_";
	static const char letters[] = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
	uint8_t bytes[CREDENTIAL_PLACEHOLDER_SIZE - sizeof(prefix)];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -EIO;
	memcpy(ret, prefix, sizeof(prefix));
	for (size_t i = 0; i < sizeof(bytes); i++)
		ret[sizeof(prefix) - 1 + i] = letters[bytes[i] % (sizeof(letters) - 1)];
	ret[CREDENTIAL_PLACEHOLDER_SIZE - 1] = 0;
	return 0;
}

static bool credential_env_is_valid(const char *env)
{
	if (ascii_is_digit(env[0]))
		return false;
	for (size_t i = 0; env[i]; i++)
		if (!ascii_is_alnum(env[i]) && env[i] != '_')
			return false;
	return true;
}

/* In lower case, as connections have them. */
static int credential_hosts_parse(const struct credential_put *q, struct request *rq,
				  struct field_texts *ret, struct cay_err *err)
{
	if (!q->has_hosts || !q->hosts.n)
		return cay_fail_field(err, CAY_E_INVALID, "hosts",
				      "name the hosts that it is for, such as api.example.com");
	ret->v = arena_alloc(&rq->arena, q->hosts.n, sizeof(*ret->v));
	ret->n = q->hosts.n;
	for (size_t i = 0; ret->v && i < ret->n; i++) {
		struct host_name name;

		if (host_name_parse(slice_of(q->hosts.v[i]), &name) < 0)
			return cay_fail_field(err, CAY_E_INVALID, "hosts",
					      "expected names of hosts without wildcards, such as "
					      "api.example.com");
		ret->v[i] = arena_strndup(&rq->arena, name.text, name.n);
		if (!ret->v[i])
			return cay_no_memory(err);
	}
	return ret->v ? 0 : cay_no_memory(err);
}

static int credential_place_check(const struct credential_put *q, struct cay_err *err)
{
	const bool header = q->kind == CREDENTIAL_HEADER, query = q->kind == CREDENTIAL_QUERY;

	if ((header || query) != (q->header != NULL))
		return cay_fail_field(err, CAY_E_INVALID, "header",
				      header || query
					      ? "name the header, or the member of the query"
					      : "only for the kinds header and query");
	if (header && !credential_header_is_valid(slice_of(q->header)))
		return cay_fail_field(err, CAY_E_INVALID, "header",
				      "expected a header that HTTP does not use itself, such as "
				      "X-API-Key");
	if ((q->kind == CREDENTIAL_SIGV4) != (q->scope != NULL) ||
	    (q->scope && !credential_scope_is_valid(slice_of(q->scope))))
		return cay_fail_field(err, CAY_E_INVALID, "scope",
				      "expected REGION/SERVICE, such as us-east-1/s3, for the kind "
				      "sigv4 only");
	if (q->pattern && !header)
		return cay_fail_field(err, CAY_E_INVALID, "pattern", "only for the kind header");
	if (q->pattern && !credential_pattern_is_valid(slice_of(q->pattern)))
		return cay_fail_field(err, CAY_E_INVALID, "pattern",
				      "expected printable ASCII with one {}");
	if (q->env && !credential_env_is_valid(q->env))
		return cay_fail_field(err, CAY_E_INVALID, "env",
				      "expected the name of a variable, such as API_KEY");
	return 0;
}

static int credential_put_check(const struct credential_put *q, struct cay_err *err)
{
	const char *why = credential_value_refusal(q->kind, slice_of(q->value));
	int r = credential_place_check(q, err);

	if (r < 0)
		return r;
	return why ? cay_fail_field(err, CAY_E_INVALID, "value", "%s", why) : 0;
}

static int credential_seal(const struct envelope_key *key, const char *value,
			   struct credential_row *row, struct cay_err *err)
{
	auto_buf purpose = BUF_INIT(CREDENTIAL_PURPOSE_MAX);
	const size_t n = strlen(value);

	static_assert(CREDENTIAL_VALUE_MAX + ENVELOPE_EXTRA <= CREDENTIAL_SEALED_MAX);
	row->put.n_sealed = (uint16_t)(n + ENVELOPE_EXTRA);
	if (credential_message_check(&row->put, sizeof(row->put), true) < 0)
		return cay_fail_field(err, CAY_E_INVALID, "header",
				      "expected letters, digits, '-', '_' and '.'");
	if (credential_purpose_write(&row->put, &purpose) < 0)
		return cay_no_memory(err);
	if (envelope_close(key, (struct slice){ purpose.data, purpose.len },
			   (struct slice){ value, n }, row->put.sealed) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "cannot seal the value");
	return 0;
}

static int credential_row_create(struct cayd *c, struct request *rq, struct credential_row *ret,
				 struct cay_err *err)
{
	const struct credential_put *q = rq->body;
	const struct slice name = rq->match.name;
	const struct credential_row *old = credential_store_find(c, &rq->actor.tenant, name);
	const struct envelope_key *key = broker_link_get_key(c);
	const size_t n = strlen(q->value);
	char placeholder[CREDENTIAL_PLACEHOLDER_SIZE], hint[CREDENTIAL_HINT_SIZE] = "";
	struct credential_info info = { .kind = q->kind,
					.header = q->header,
					.scope = q->scope,
					.pattern = q->pattern,
					.env = q->env,
					.placeholder = old ? old->placeholder : placeholder,
					.changed_at = clk_wall_ns(c->clk) };
	int r = credential_put_check(q, err);

	if (r >= 0)
		r = credential_hosts_parse(q, rq, &info.hosts, err);
	if (r >= 0 && !key) {
		r = cay_fail(err, CAY_E_EGRESS, "cay-broker is not running");
		cay_err_hint(err, "start cay-broker.service");
	}
	if (r < 0)
		return r;
	if (q->kind == CREDENTIAL_HEADER && !q->pattern)
		info.pattern = "{}";
	if (n >= HINT_FROM)
		memcpy(hint, q->value + n - (CREDENTIAL_HINT_SIZE - 1), CREDENTIAL_HINT_SIZE);
	info.hint = hint;
	info.name = arena_strndup(&rq->arena, name.p, name.n);
	if (!info.name)
		return cay_no_memory(err);
	if (!old && credential_placeholder_create(placeholder) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "cannot get random bytes");
	if (!credential_row_fill(ret, &rq->actor.tenant, &info))
		return cay_fail(err, CAY_E_INTERNAL, "the credential does not fit");
	return credential_seal(key, q->value, ret, err);
}

/* A request that waits for cay-broker. */
struct credential_wait {
	struct cayd *cayd;
	struct request *rq; /* NULL: the client left */
	struct id tenant;
	char name[CREDENTIAL_NAME_SIZE];
};

static void on_credential_put(void *arg)
{
	struct credential_wait *w = arg;
	const struct credential_row *row =
		credential_store_find(w->cayd, &w->tenant, slice_of(w->name));

	if (w->rq && row)
		credential_reply(w->cayd, w->rq, row);
	else if (w->rq)
		request_refuse(w->rq, CAY_E_NOT_FOUND, "the credential was deleted meanwhile");
	free(w);
}

static void credential_put(struct cayd *c, struct request *rq, const struct credential_row *row)
{
	struct credential_wait *w = calloc(1, sizeof(*w));
	struct credential_row *stored;
	struct cay_err err = {};

	if (!w) {
		request_no_memory(rq);
		return;
	}
	if (credential_store_put(c, row, &stored, &err) < 0) {
		free(w);
		request_fail(rq, &err);
		return;
	}
	w->cayd = c;
	w->rq = rq;
	w->tenant = rq->actor.tenant;
	memcpy(w->name, row->put.name, sizeof(w->name));
	request_watch_client(&w->rq);
	broker_link_put(c, stored, on_credential_put, w);
}

static int credential_take_turn(struct cayd *c, const struct request *rq, struct cay_err *err)
{
	if (tenant_take_credential(c, &rq->actor.tenant))
		return 0;
	return cay_fail(err, CAY_E_RATE, "this tenant changes more than %d credentials a second",
			CREDENTIALS_PER_S);
}

void op_credential_put(struct cayd *c, struct request *rq)
{
	const struct credential_put *q = rq->body;
	struct credential_row *row = calloc(1, sizeof(*row));
	struct cay_err err = {};

	if (row && credential_row_create(c, rq, row, &err) >= 0)
		(void)credential_take_turn(c, rq, &err);
	str_wipe(q->value);
	if (!row)
		request_no_memory(rq);
	else if (err.code)
		request_fail(rq, &err);
	else
		credential_put(c, rq, row);
	free(row);
}

static int credential_compare(const void *a, const void *b)
{
	return strcmp(((const struct credential_info *)a)->name,
		      ((const struct credential_info *)b)->name);
}

void op_credential_list(struct cayd *c, struct request *rq)
{
	struct credential_info *rows =
		arena_alloc(&rq->arena, CREDENTIALS_OF_TENANT_MAX, sizeof(*rows));
	struct credential_list list = { .credentials = { rows, 0 } };

	for (size_t i = 0; rows && i < credential_store_count(c); i++) {
		const struct credential_row *row = credential_store_get(c, i);
		const char **hosts;

		if (!id_eq(&row->put.tenant, &rq->actor.tenant) ||
		    list.credentials.n == CREDENTIALS_OF_TENANT_MAX)
			continue;
		hosts = arena_alloc(&rq->arena, CREDENTIAL_HOSTS_MAX, sizeof(*hosts));
		if (!hosts) {
			request_no_memory(rq);
			return;
		}
		rows[list.credentials.n++] = credential_describe(c, row, hosts);
	}
	if (!rows) {
		request_no_memory(rq);
		return;
	}
	qsort(rows, list.credentials.n, sizeof(*rows), credential_compare);
	request_reply_json(rq, &credential_list_table, &list);
}

void op_credential_delete(struct cayd *c, struct request *rq)
{
	struct credential_row *row = credential_store_find(c, &rq->actor.tenant, rq->match.name);
	struct credential_row gone;
	struct cay_err err = {};

	if (!row) {
		request_refuse(rq, CAY_E_NOT_FOUND, "there is no such credential");
		return;
	}
	gone = *row;
	if (credential_take_turn(c, rq, &err) < 0 || credential_store_remove(c, row, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	broker_link_remove(c, &gone);
	credential_reply(c, rq, &gone);
}
