/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/url.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>

static const struct {
	struct slice lead;
	unsigned port;
	bool tls;
} url_schemes[] = {
	{ SLICE("https://"), 443, true },
	{ SLICE("http://"), 80, false },
};

static char url_lowercase_char(char c)
{
	return ascii_is_upper(c) ? (char)(c - 'A' + 'a') : c;
}

static bool url_has_prefix(struct slice s, struct slice with)
{
	for (size_t i = 0; i < with.n; i++)
		if (i == s.n || url_lowercase_char(s.p[i]) != with.p[i])
			return false;
	return true;
}

/* What inet_aton() accepts as part of an address. */
static bool url_label_is_number(struct slice s)
{
	bool hex = s.n > 1 && s.p[0] == '0' && s.p[1] == 'x';

	for (size_t i = hex ? 2 : 0; i < s.n; i++)
		if (!ascii_is_digit(s.p[i]) && !(hex && s.p[i] >= 'a' && s.p[i] <= 'f'))
			return false;
	return true;
}

/* The last label must not be a number: resolvers differ in which such names they take for
 * addresses. */
static bool url_host_is_dns_name(const char *host)
{
	struct slice rest = slice_of(host), label = {};

	while (rest.p) {
		label = slice_cut(&rest, '.');
		if (!str_is_dns_label(label))
			return false;
	}
	return !url_label_is_number(label);
}

static bool url_parse_address(bool v6, struct url *u)
{
	struct in6_addr six;
	struct in_addr four;

	if (inet_pton(v6 ? AF_INET6 : AF_INET, u->host, v6 ? (void *)&six : &four) != 1)
		return false;
	u->loopback = v6 ? IN6_IS_ADDR_LOOPBACK(&six) : ntohl(four.s_addr) >> 24 == IN_LOOPBACKNET;
	return true;
}

static int url_fail_host(struct slice host, struct cay_err *err)
{
	return cay_fail(err, CAY_E_INVALID, "'%.*s' is neither a host name nor an IP address",
			(int)(host.n > 100 ? 100 : host.n), host.p);
}

static int url_parse_host(struct slice host, bool brackets, struct url *u, struct cay_err *err)
{
	if (!host.n || host.n > URL_HOST_MAX || memchr(host.p, 0, host.n))
		return url_fail_host((struct slice){ host.p, host.n > 40 ? 40 : host.n }, err);
	for (size_t i = 0; i < host.n; i++)
		u->host[i] = url_lowercase_char(host.p[i]);
	u->host[host.n] = 0;
	u->address = url_parse_address(brackets, u);
	if (u->address)
		return 0;
	if (brackets || !url_host_is_dns_name(u->host))
		return url_fail_host(host, err);
	u->loopback = str_eq(u->host, "localhost");
	return 0;
}

static int url_parse_port(struct slice port, struct url *u, struct cay_err *err)
{
	uint64_t n;

	if (str_parse_u64(port, 1, 65535, &n) < 0)
		return cay_fail(err, CAY_E_INVALID, "a port is a number from 1 to 65535");
	u->port = (unsigned)n;
	return 0;
}

/* "host", "host:port", "[address]:port" */
static int url_parse_authority(struct slice s, struct url *u, struct cay_err *err)
{
	bool brackets = s.n && s.p[0] == '[';
	const char *end;
	struct slice host;
	int r;

	if (memchr(s.p, '@', s.n))
		return cay_fail(err, CAY_E_INVALID,
				"a url must not contain a user or secret; use --token-file");
	if (brackets) {
		end = memchr(s.p, ']', s.n);
		if (!end)
			return cay_fail(err, CAY_E_INVALID, "missing ']' after '['");
		host = (struct slice){ s.p + 1, (size_t)(end - s.p) - 1 };
		s = (struct slice){ end + 1, s.n - host.n - 2 };
		if (s.n && s.p[0] != ':')
			return cay_fail(err, CAY_E_INVALID, "only a port can follow ']'");
		s = s.n ? (struct slice){ s.p + 1, s.n - 1 } : (struct slice){};
	} else {
		host = slice_cut(&s, ':');
	}
	r = url_parse_host(host, brackets, u, err);
	return r < 0 || !s.p ? r : url_parse_port(s, u, err);
}

int url_parse(struct slice text, struct url *ret, struct cay_err *err)
{
	struct url u = {};
	size_t i = 0;
	int r;

	while (i < ARRAY_SIZE(url_schemes) && !url_has_prefix(text, url_schemes[i].lead))
		i++;
	if (i == ARRAY_SIZE(url_schemes))
		return cay_fail(err, CAY_E_INVALID, "a url starts with %s", url_schemes[0].lead.p);
	u.tls = url_schemes[i].tls;
	u.port = url_schemes[i].port;
	text.p += url_schemes[i].lead.n;
	text.n -= url_schemes[i].lead.n;
	if (text.n && text.p[text.n - 1] == '/')
		text.n--;
	if (memchr(text.p, '/', text.n) || memchr(text.p, '?', text.n) ||
	    memchr(text.p, '#', text.n))
		return cay_fail(err, CAY_E_INVALID, "a url must end after its host and port");
	r = url_parse_authority(text, &u, err);
	if (r >= 0)
		*ret = u;
	return r;
}

void url_format_authority(const struct url *u, char ret[static URL_MAX])
{
	bool v6 = strchr(u->host, ':');
	int n = snprintf(ret, URL_MAX, "%s%s%s:%u", v6 ? "[" : "", u->host, v6 ? "]" : "", u->port);

	assert(n > 0 && n < URL_MAX);
}

void url_format(const struct url *u, char ret[static URL_MAX])
{
	char at[URL_MAX];
	int n;

	url_format_authority(u, at);
	n = snprintf(ret, URL_MAX, "%s%s", url_schemes[!u->tls].lead.p, at);
	assert(n > 0 && n < URL_MAX);
}
