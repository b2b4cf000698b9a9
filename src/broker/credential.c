/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/credential.h"

#include <string.h>

#include "text/base64.h"
#include "text/percent.h"

void credential_unref(struct credential *c)
{
	if (!c || --c->refs)
		return;
	buf_wipe(&c->value);
	buf_fini(&c->value);
	mask_fini(&c->mask);
	free(c);
}

static size_t credentials_find_place(const struct credentials *all, const struct id *tenant,
				     const char *name)
{
	size_t i = 0;

	while (i < all->n && !(id_eq(&all->v[i]->tenant, tenant) && str_eq(all->v[i]->name, name)))
		i++;
	return i;
}

static void credentials_remove_at(struct credentials *all, size_t i)
{
	credential_unref(all->v[i]);
	all->v[i] = all->v[--all->n];
}

void credentials_remove(struct credentials *all, const struct id *tenant, const char *name)
{
	size_t i = credentials_find_place(all, tenant, name);

	if (i < all->n)
		credentials_remove_at(all, i);
}

void credentials_remove_all_but(struct credentials *all, uint64_t round)
{
	for (size_t i = all->n; i; i--)
		if (all->v[i - 1]->round != round)
			credentials_remove_at(all, i - 1);
}

static int credential_open_value(const struct envelope_key *key, const struct credential_message *m,
				 struct buf *ret)
{
	auto_buf purpose = BUF_INIT(CREDENTIAL_PURPOSE_MAX);
	size_t n = 0;
	int r = credential_purpose_write(m, &purpose);

	*ret = BUF_INIT(CREDENTIAL_SEALED_MAX);
	if (r >= 0)
		r = buf_reserve(ret, m->n_sealed);
	if (r >= 0)
		r = envelope_open(key, (struct slice){ purpose.data, purpose.len },
				  (struct slice){ (const char *)m->sealed, m->n_sealed },
				  (uint8_t *)ret->data, &n);
	if (r < 0)
		return r;
	ret->len = n;
	ret->data[n] = 0;
	return credential_value_refusal(m->form, (struct slice){ ret->data, ret->len }) ? -EBADMSG
											: 0;
}

/* Of basic and sigv4, the password or the secret, too. */
static int credential_mask_value(struct credential *c)
{
	struct slice value = { c->value.data, c->value.len }, password = value;
	int r = mask_add(&c->mask, value);

	if (r >= 0 && (c->kind == CREDENTIAL_BASIC || c->kind == CREDENTIAL_SIGV4)) {
		(void)slice_cut(&password, ':');
		r = mask_add(&c->mask, password);
	}
	return r;
}

static struct credential *credential_create(const struct envelope_key *key,
					    const struct credential_message *m, int *ret_error)
{
	struct credential *c = calloc(1, sizeof(*c));
	int r = c ? credential_open_value(key, m, &c->value) : -ENOMEM;

	if (c) {
		c->refs = 1;
		c->tenant = m->tenant;
		c->kind = m->form;
		c->n_hosts = m->n_hosts;
		memcpy(c->name, m->name, sizeof(c->name));
		memcpy(c->header, m->header, sizeof(c->header));
		memcpy(c->pattern, m->pattern, sizeof(c->pattern));
		memcpy(c->hosts, m->hosts, sizeof(c->hosts));
	}
	if (r >= 0)
		r = credential_mask_value(c);
	*ret_error = r;
	if (r >= 0)
		return c;
	credential_unref(c);
	return NULL;
}

int credentials_put(struct credentials *all, const struct credential_message *m)
{
	int r;
	struct credential *c = credential_create(&all->key, m, &r);

	credentials_remove(all, &m->tenant, m->name);
	if (!c)
		return r;
	if (all->n == CREDENTIALS_MAX) {
		credential_unref(c);
		return -ENOSPC;
	}
	c->round = all->round;
	all->v[all->n++] = c;
	return 0;
}

static bool credential_is_for(const struct credential *c, const char *host)
{
	for (unsigned i = 0; i < c->n_hosts; i++)
		if (str_eq(c->hosts[i], host))
			return true;
	return false;
}

struct credential *credentials_find(const struct credentials *all, const struct id *tenant,
				    const char *name, const char *host, const char **ret_why)
{
	size_t i = credentials_find_place(all, tenant, name);

	if (i == all->n) {
		*ret_why = "there is no such credential";
		return NULL;
	}
	if (!credential_is_for(all->v[i], host)) {
		*ret_why = "the credential is not for this host";
		return NULL;
	}
	all->v[i]->refs++;
	return all->v[i];
}

const char *credential_get_header(const struct credential *c)
{
	return c->kind == CREDENTIAL_HEADER  ? c->header
	       : c->kind == CREDENTIAL_QUERY ? ""
					     : "Authorization";
}

static int credential_basic_write(const struct credential *c, struct buf *ret)
{
	int r = buf_puts(ret, "Authorization: Basic ");

	if (r >= 0)
		r = buf_reserve(ret, BASE64_TEXT(c->value.len));
	if (r < 0)
		return r;
	base64_encode((const uint8_t *)c->value.data, c->value.len, ret->data + ret->len);
	ret->len += BASE64_TEXT(c->value.len);
	ret->data[ret->len] = 0;
	return buf_puts(ret, "\r\n");
}

int credential_header_write(const struct credential *c, struct buf *ret)
{
	const char *place = strstr(c->pattern, "{}");

	if (c->kind == CREDENTIAL_BEARER)
		return buf_printf(ret, "Authorization: Bearer %s\r\n", buf_str(&c->value));
	if (c->kind == CREDENTIAL_BASIC)
		return credential_basic_write(c, ret);
	if (c->kind == CREDENTIAL_QUERY || c->kind == CREDENTIAL_SIGV4 || !place)
		return 0;
	return buf_printf(ret, "%s: %.*s%s%s\r\n", c->header, (int)(place - c->pattern), c->pattern,
			  buf_str(&c->value), place + 2);
}

/* The name of a member of a query as the host may read it. */
static bool credential_member_is_ours(const struct credential *c, struct slice member)
{
	struct slice name = slice_cut(&member, '=');
	const size_t most = sizeof("%41") * CREDENTIAL_HEADER_SIZE;
	auto_buf text = BUF_INIT(most + 1);
	size_t n = 0;

	if (name.n > most)
		return false;
	if (buf_reserve(&text, name.n + 1) < 0 || percent_decode(name.p, name.n, text.data, &n) < 0)
		return true; /* no reader must take it for ours */
	return slice_eq((struct slice){ text.data, n }, slice_of(c->header));
}

int credential_target_write(const struct credential *c, struct slice target, struct buf *ret)
{
	struct slice query = target, path = slice_cut(&query, '?');
	char between = '?';
	int r;

	if (c->kind != CREDENTIAL_QUERY)
		return buf_append(ret, target.p, target.n);
	r = buf_append(ret, path.p, path.n);
	while (r >= 0 && query.p) {
		struct slice member = slice_cut(&query, '&');

		if (!member.n || credential_member_is_ours(c, member))
			continue;
		r = buf_putc(ret, between);
		between = '&';
		if (r >= 0)
			r = buf_append(ret, member.p, member.n);
	}
	if (r >= 0)
		r = buf_printf(ret, "%c%s=", between, c->header);
	if (r >= 0)
		r = buf_reserve(ret, 3 * c->value.len + 1);
	if (r < 0)
		return r;
	ret->len += percent_encode(c->value.data, c->value.len, ret->data + ret->len);
	ret->data[ret->len] = 0;
	return 0;
}
