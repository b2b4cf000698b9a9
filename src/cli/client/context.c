/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/context.h"

#include "text/conf.h"

struct context_file {
	char url[URL_MAX + 1];
	char ca[CONTEXT_CA_MAX + 1];
	char token[CONTEXT_TOKEN_MAX + 1];
};

#define NO_CA "/" /* a default that is never a file of certificates */
#define AT(m) offsetof(struct context_file, m)

static const struct conf_key context_keys[] = {
	{ "context", "url", CONF_TEXT, AT(url), 0, URL_MAX, .value = "" },
	{ "context", "ca", CONF_PATH, AT(ca), 1, CONTEXT_CA_MAX, .value = NO_CA },
	{ "context", "token", CONF_TEXT, AT(token), 0, CONTEXT_TOKEN_MAX, .value = "" },
};
static const struct conf_table context_table = { context_keys, ARRAY_SIZE(context_keys) };

void context_wipe(struct context *c)
{
	explicit_bzero(c, sizeof(*c));
}

int context_name_check(const char *name, struct cay_err *err)
{
	if (str_eq(name, CONTEXT_LOCAL))
		return cay_fail(err, CAY_E_INVALID,
				"'" CONTEXT_LOCAL "' is always the socket of this machine");
	if (!str_is_dns_label(slice_of(name)))
		return cay_fail(err, CAY_E_INVALID,
				"invalid context name '%.70s': use a-z, 0-9 and '-'", name);
	return 0;
}

int context_url_parse(const char *text, struct url *ret, struct cay_err *err)
{
	struct url u;
	int r = url_parse(slice_of(text), &u, err);

	if (r < 0)
		return r;
	if (!u.tls && !u.loopback)
		return cay_fail(err, CAY_E_INVALID,
				"plain HTTP would send the token to %.100s unencrypted; "
				"use https, or a tunnel to localhost",
				u.host);
	*ret = u;
	return 0;
}

static bool context_char_is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

int context_token_parse(struct slice text, char ret[static CONTEXT_TOKEN_MAX + 1],
			struct cay_err *err)
{
	while (text.n && context_char_is_space(text.p[text.n - 1]))
		text.n--;
	while (text.n && context_char_is_space(text.p[0])) {
		text.p++;
		text.n--;
	}
	if (!text.n)
		return cay_fail(err, CAY_E_INVALID, "the token is empty");
	if (text.n > CONTEXT_TOKEN_MAX)
		return cay_fail(err, CAY_E_INVALID, "the token is too long");
	for (size_t i = 0; i < text.n; i++)
		if (text.p[i] <= ' ' || text.p[i] > '~')
			return cay_fail(err, CAY_E_INVALID,
					"a token is one word of printable ASCII");
	memcpy(ret, text.p, text.n);
	ret[text.n] = 0;
	return 0;
}

static int context_file_decode(const struct context_file *f, struct context *ret,
			       struct cay_err *err)
{
	int r = context_url_parse(f->url, &ret->url, err);

	if (r >= 0)
		r = context_token_parse(slice_of(f->token), ret->token, err);
	memcpy(ret->ca, f->ca, sizeof(ret->ca));
	if (str_eq(ret->ca, NO_CA))
		ret->ca[0] = 0;
	return r;
}

int context_parse(struct slice text, struct context *ret, struct cay_err *err)
{
	struct cay_err why = {};
	struct context_file f = {};
	int r;

	conf_set_defaults(&context_table, &f);
	r = conf_parse(&context_table, text, "", &f, &why);
	/* do not repeat its message: it may quote the token */
	r = r < 0 ? cay_fail(err, CAY_E_INVALID, "invalid file; run 'cay context add --replace'")
		  : context_file_decode(&f, ret, err);
	explicit_bzero(&f, sizeof(f));
	explicit_bzero(&why, sizeof(why));
	return r;
}

int context_format(const struct context *c, struct buf *out)
{
	char url[URL_MAX];
	int r = buf_puts(out, "# written by 'cay context add'; the token is a secret\n[context]\n");

	url_format(&c->url, url);
	if (r >= 0)
		r = buf_printf(out, "url = %s\n", url);
	if (r >= 0 && c->ca[0])
		r = buf_printf(out, "ca = %s\n", c->ca);
	return r < 0 ? r : buf_printf(out, "token = %s\n", c->token);
}
