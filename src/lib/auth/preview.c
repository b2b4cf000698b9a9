/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/preview.h"

#include "auth/token-internal.h"
#include "base/endian.h"

#define SCREEN_LABEL "desktop"

enum { AT_PORT = TOKEN_COMMON, AT_SCREEN = AT_PORT + 2, LEN = AT_SCREEN + 2 };
static_assert(LEN <= TOKEN_SIGNED_MAX && PREVIEW_TEXT_LEN == TOKEN_FORM_TEXT(LEN));

static const struct token_form form = { PREVIEW_PREFIX, /* version= */ 3, LEN };

/* Hosts */

static int preview_base_fail(struct cay_err *err)
{
	return cay_fail(err, CAY_E_INVALID,
			"edge.previews is SCHEME://DOMAIN[:PORT], as in https://preview.example");
}

int preview_base_parse(const char *text, struct preview_base *ret, struct cay_err *err)
{
	struct slice rest = slice_of(text), scheme = slice_cut(&rest, ':'), name, labels;
	struct preview_base b = { .secure = slice_eq(scheme, SLICE("https")) };
	uint64_t port = 0;

	if ((!b.secure && !slice_eq(scheme, SLICE("http"))) || rest.n < 3 ||
	    memcmp(rest.p, "//", 2) != 0)
		return preview_base_fail(err);
	rest.p += 2;
	rest.n -= 2;
	name = slice_cut(&rest, ':');
	if (rest.p && str_parse_u64(rest, 1, UINT16_MAX, &port) < 0)
		return preview_base_fail(err);
	/* a label and a dot must fit before it */
	if (!name.n || name.n > PREVIEW_HOST_MAX - 64)
		return preview_base_fail(err);
	labels = name;
	while (labels.p)
		if (!str_is_dns_label(slice_cut(&labels, '.')))
			return preview_base_fail(err);
	memcpy(b.domain, name.p, name.n);
	b.port = (unsigned)port;
	*ret = b;
	return 0;
}

static bool preview_host_is_below(struct slice s, const char *domain)
{
	size_t n = strlen(domain);
	const char *at = s.p + s.n - n;

	if (s.n < n + 2 || at[-1] != '.')
		return false;
	for (size_t i = 0; i < n; i++)
		if (ascii_to_lower(at[i]) != domain[i])
			return false;
	return true;
}

bool preview_host_parse(const struct preview_base *b, struct slice host, struct id *ret_sandbox,
			uint16_t *ret_port)
{
	struct slice rest = host, name = slice_cut(&rest, ':'), number;
	char label[64];
	uint64_t port = PREVIEW_SCREEN_PORT;

	/* the port of the URL may be that of a proxy: any number is accepted */
	if (!b->domain[0] || (rest.p && str_parse_u64(rest, 1, UINT16_MAX, &port) < 0) ||
	    !preview_host_is_below(name, b->domain))
		return false;
	name.n -= strlen(b->domain) + 1;
	if (name.n >= sizeof(label))
		return false;
	for (size_t i = 0; i < name.n; i++)
		label[i] = ascii_to_lower(name.p[i]);
	name.p = label;
	number = slice_cut(&name, '-');
	if (slice_eq(number, SLICE(SCREEN_LABEL)))
		port = PREVIEW_SCREEN_PORT;
	else if (str_parse_u64(number, 1, UINT16_MAX, &port) < 0)
		return false;
	if (!name.p || id_parse(ID_SANDBOX, name, ret_sandbox) < 0)
		return false;
	*ret_port = (uint16_t)port;
	return true;
}

int preview_origin_format(const struct preview_base *b, const struct id *sandbox, uint16_t port,
			  struct buf *out)
{
	char id[ID_TEXT_LEN + 1];
	int r;

	id_format(sandbox, id);
	r = buf_printf(out, "%s://", b->secure ? "https" : "http");
	if (r >= 0)
		r = port == PREVIEW_SCREEN_PORT ? buf_puts(out, SCREEN_LABEL)
						: buf_printf(out, "%u", port);
	if (r >= 0)
		r = buf_printf(out, "-%s.%s", id, b->domain);
	return r >= 0 && b->port ? buf_printf(out, ":%u", b->port) : r;
}

/* Tokens */

/* A port, or what may be done with the screen. */
static bool preview_is_whole(const struct preview *p)
{
	return p->token.scope == SCOPE_NONE && p->screen <= PREVIEW_CONTROL &&
	       (p->port == PREVIEW_SCREEN_PORT) == (p->screen != PREVIEW_NO_SCREEN);
}

int preview_token_sign(const struct preview *p, const struct token_key *key,
		       char ret[static PREVIEW_TEXT_LEN + 1], struct cay_err *err)
{
	uint8_t bytes[TOKEN_BYTES_MAX] = {};

	if (!preview_is_whole(p))
		return cay_fail(err, CAY_E_INVALID,
				"a preview is of one port or the screen, and has no scope");
	le16_put(bytes + AT_PORT, p->port);
	le16_put(bytes + AT_SCREEN, p->screen);
	return token_form_sign(&form, &p->token, NULL, key, bytes, ret, err);
}

int preview_token_check(struct slice text, const struct token_keys *keys, uint64_t now_s,
			uint32_t min_epoch, struct preview *ret, struct cay_err *err)
{
	uint8_t bytes[TOKEN_BYTES_MAX] = {};
	struct preview p = {};
	int r = token_form_check(&form, text, NULL,
				 &(struct token_check_context){ keys, now_s, min_epoch }, bytes,
				 &p.token, err);

	if (r < 0)
		return r;
	p.port = le16_get(bytes + AT_PORT);
	p.screen = le16_get(bytes + AT_SCREEN);
	if (!preview_is_whole(&p))
		return cay_fail(err, CAY_E_UNAUTHENTICATED,
				"the preview has bits this version does not know");
	*ret = p;
	return 0;
}
