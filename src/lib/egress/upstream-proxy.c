/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/upstream-proxy.h"

#include <errno.h>
#include <string.h>

#define SCHEME "http://"

/* "HOST:PORT"; a user, a path or a second colon make it none. */
static int upstream_host_parse(struct slice text, struct upstream_proxy *ret)
{
	struct slice port = text, host = slice_cut(&port, ':');
	uint64_t number;

	if (!port.p || str_parse_u64(port, 1, UINT16_MAX, &number) < 0 ||
	    memchr(host.p, '/', host.n) || egress_target_parse(host, &ret->at, NULL) < 0)
		return -EINVAL;
	ret->port = (uint16_t)number;
	ret->set = ret->at.kind == EGRESS_TO_NAME || ret->at.kind == EGRESS_TO_NET;
	return ret->set ? 0 : -EINVAL;
}

static int upstream_except_parse(const char *text, struct upstream_proxy *ret, struct cay_err *err)
{
	struct slice left = slice_of(text);

	while (left.n) {
		struct slice word = slice_cut(&left, ' ');

		if (!word.n)
			continue;
		if (ret->n_except == UPSTREAM_EXCEPT_MAX)
			return cay_fail(err, CAY_E_INVALID,
					"egress.no_proxy has more than %d words",
					UPSTREAM_EXCEPT_MAX);
		if (egress_target_parse(word, &ret->except[ret->n_except++], NULL) < 0)
			return cay_fail(err, CAY_E_INVALID,
					"egress.no_proxy: '%.*s' is not NAME, *.NAME or "
					"ADDRESS/BITS",
					(int)word.n, word.p);
	}
	return 0;
}

/* A value that is refused may have a password in it: it is not repeated. */
int upstream_proxy_parse(const char *proxy, const char *no_proxy, struct upstream_proxy *ret,
			 struct cay_err *err)
{
	const size_t n = sizeof(SCHEME) - 1;

	*ret = (struct upstream_proxy){};
	if (proxy[0] &&
	    (strncmp(proxy, SCHEME, n) != 0 || upstream_host_parse(slice_of(proxy + n), ret) < 0)) {
		*ret = (struct upstream_proxy){};
		return cay_fail(err, CAY_E_INVALID,
				"egress.proxy is not http://NAME:PORT or http://ADDRESS:PORT; "
				"credentials belong into the file egress.proxy_credentials");
	}
	return upstream_except_parse(no_proxy, ret, err);
}

bool upstream_proxy_has_name(const struct upstream_proxy *p, const struct host_name *name)
{
	for (size_t i = 0; i < p->n_except; i++) {
		const struct egress_target *t = &p->except[i];
		struct slice text = { t->name.text, t->name.n };

		if ((t->kind == EGRESS_TO_NAME && host_name_eq(name, text)) ||
		    (t->kind == EGRESS_TO_BELOW && host_name_is_below(name, text)) ||
		    t->kind == EGRESS_TO_NAMES)
			return false;
	}
	return p->set;
}

bool upstream_proxy_has_address(const struct upstream_proxy *p, uint32_t address)
{
	for (size_t i = 0; i < p->n_except; i++) {
		const struct egress_target *t = &p->except[i];
		uint32_t mask = t->prefix ? UINT32_MAX << (32 - t->prefix) : 0;

		if (t->kind == EGRESS_TO_NET && ((address ^ t->net) & mask) == 0)
			return false;
	}
	return p->set;
}
