/* SPDX-License-Identifier: Apache-2.0 */
#include "net/proxy-headers.h"

#include "wire/attach.h"

/* Hop-by-hop headers, and those of framing, which the caller writes. */
static const char hop_by_hop_headers[] =
	"connection keep-alive proxy-connection proxy-authenticate proxy-authorization te "
	"trailer transfer-encoding upgrade content-length expect http2-settings";

/* Headers a server trusts from a proxy; only we set them. */
static const char proxy_only_headers[] = "host forwarded via x-real-ip true-client-ip";

/* Headers that reach beyond one host, or command a proxy before us. */
static const char beyond_host_headers[] =
	"strict-transport-security public-key-pins public-key-pins-report-only clear-site-data "
	"alt-svc nel report-to expect-ct set-cookie2 x-sendfile via origin-trial";

/* Allowed in a reply on the API's origin: they describe the body and trigger nothing. */
static const char api_origin_reply_headers[] =
	"content-type content-encoding content-language content-range accept-ranges etag "
	"last-modified cache-control expires date vary retry-after allow age";

static bool header_list_has(struct slice list, char separator, struct slice name)
{
	while (list.p) {
		struct slice item = slice_trim(slice_cut(&list, separator));

		if (item.n == name.n && strncasecmp(item.p, name.p, name.n) == 0)
			return true;
	}
	return false;
}

static bool header_is_one_of(const char *names, struct slice name)
{
	return header_list_has(slice_of(names), ' ', name);
}

static bool header_has_prefix(struct slice name, const char *prefix)
{
	size_t n = strlen(prefix);

	return name.n >= n && http_equals_nocase((struct slice){ name.p, n }, prefix);
}

/* Headers listed in Connection are hop-by-hop as well. */
static bool header_is_named_by_connection(const struct http_head *h, struct slice name)
{
	for (size_t i = 0; i < h->n_headers; i++)
		if (http_equals_nocase(h->headers[i].name, "connection") &&
		    header_list_has(h->headers[i].value, ',', name))
			return true;
	return false;
}

static bool header_is_hop_by_hop(const struct http_head *h, struct slice name)
{
	return header_is_one_of(hop_by_hop_headers, name) || header_is_named_by_connection(h, name);
}

static int header_line_write(struct buf *out, struct slice name, struct slice value)
{
	return buf_printf(out, "%.*s: %.*s\r\n", (int)name.n, name.p, (int)value.n, value.p);
}

/* Write a list without the items that drop() finds. */
static int header_list_write(struct buf *out, const char *name, struct slice rest, char separator,
			     bool (*drop)(struct slice item, const char *word), const char *word)
{
	bool any = false;
	int r = 0;

	while (rest.p && r >= 0) {
		struct slice item = slice_trim(slice_cut(&rest, separator));

		if (!item.n || drop(item, word))
			continue;
		r = any ? buf_printf(out, "%c %.*s", separator, (int)item.n, item.p)
			: buf_printf(out, "%s: %.*s", name, (int)item.n, item.p);
		any = true;
	}
	return r >= 0 && any ? buf_puts(out, "\r\n") : r;
}

static struct slice cookie_pair_name(struct slice pair)
{
	return slice_trim(slice_cut(&pair, '='));
}

static bool cookie_pair_has_name(struct slice pair, const char *name)
{
	return slice_eq(cookie_pair_name(pair), slice_of(name));
}

struct slice proxy_headers_find_cookie(const struct http_head *h, const char *name, size_t *at)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n_headers; i++) {
		struct slice rest = h->headers[i].value;

		if (!http_equals_nocase(h->headers[i].name, "cookie"))
			continue;
		while (rest.p) {
			struct slice pair = slice_trim(slice_cut(&rest, ';'));

			if (!cookie_pair_has_name(pair, name) || n++ < *at)
				continue;
			(*at)++;
			(void)slice_cut(&pair, '=');
			return pair.p ? slice_trim(pair) : SLICE("");
		}
	}
	return (struct slice){};
}

/* Restrict a cookie to this host, and never set ours.  Browsers split attributes at ';' as well. */
static int set_cookie_write_host_only(struct buf *out, struct slice rest, const char *name)
{
	struct slice pair = slice_trim(slice_cut(&rest, ';'));
	int r;

	if (cookie_pair_has_name(pair, name))
		return 0;
	r = buf_printf(out, "Set-Cookie: %.*s", (int)pair.n, pair.p);
	while (rest.p && r >= 0) {
		struct slice attribute = slice_trim(slice_cut(&rest, ';'));

		if (!attribute.n || http_equals_nocase(cookie_pair_name(attribute), "domain"))
			continue;
		r = buf_printf(out, "; %.*s", (int)attribute.n, attribute.p);
	}
	return r < 0 ? r : buf_puts(out, "\r\n");
}

/* A credential of ours must not reach the server. */
static bool authorization_is_cay_credential(struct slice v)
{
	struct slice scheme = slice_cut(&v, ' ');

	return http_equals_nocase(scheme, "bearer") && v.p &&
	       header_has_prefix(slice_trim(v), "cay");
}

/* Where SDKs of others send it: programs send them to ports as well. */
static bool header_is_cay_credential(struct slice name, struct slice value)
{
	return header_is_one_of(
		       "x-api-key x-access-token open-sandbox-api-key x-execd-access-token",
		       name) &&
	       header_has_prefix(slice_trim(value), "cay");
}

static int proxy_headers_write_request_line(const struct proxy_headers *c,
					    const struct http_head *h, size_t i, struct buf *out)
{
	struct slice name = h->headers[i].name, value = h->headers[i].value;

	if (header_is_hop_by_hop(h, name) || header_is_one_of(proxy_only_headers, name) ||
	    header_has_prefix(name, "cay-") || header_has_prefix(name, "x-forwarded-") ||
	    header_is_cay_credential(name, value) ||
	    http_equals_nocase(name, "e2b-traffic-access-token"))
		return 0;
	if (header_has_prefix(name, "sec-websocket-") && !c->upgrade)
		return 0;
	/* one of them carries the credential (edge/authenticate.c) */
	if (http_equals_nocase(name, "sec-websocket-protocol"))
		return header_list_write(out, "Sec-WebSocket-Protocol", value, ',',
					 header_has_prefix, ATTACH_TOKEN_PROTOCOL);
	if (http_equals_nocase(name, "authorization") &&
	    (c->prefix || c->drop_authorization || authorization_is_cay_credential(value)))
		return 0;
	if (http_equals_nocase(name, "cookie"))
		return c->prefix ? 0
				 : header_list_write(out, "Cookie", value, ';',
						     cookie_pair_has_name, c->cookie);
	/* the previous URL may contain the preview's token */
	if (http_equals_nocase(name, "referer") && value.n &&
	    memmem(value.p, value.n, "cay_preview", strlen("cay_preview")))
		return 0;
	/* the server must not learn the API's origin */
	if (c->prefix &&
	    (http_equals_nocase(name, "origin") || http_equals_nocase(name, "referer")))
		return 0;
	return header_line_write(out, name, value);
}

int proxy_headers_write_request(const struct proxy_headers *c, const struct http_head *h,
				struct buf *out)
{
	int r = c->host ? buf_printf(out,
				     "Host: %s\r\nX-Forwarded-Host: %s\r\n"
				     "X-Forwarded-Proto: %s\r\n",
				     c->host, c->host, c->scheme)
			: buf_printf(out, "Host: localhost:%u\r\n", c->port);

	if (r >= 0 && c->prefix)
		r = buf_printf(out, "X-Forwarded-Prefix: %s\r\n", c->prefix);
	for (size_t i = 0; i < h->n_headers && r >= 0; i++)
		r = proxy_headers_write_request_line(c, h, i, out);
	return r;
}

static bool path_segment_is_dots(struct slice segment)
{
	size_t n = 0;

	while (segment.n) {
		size_t len = segment.p[0] == '.' ? 1 : header_has_prefix(segment, "%2e") ? 3 : 0;

		if (!len)
			return false;
		segment.p += len;
		segment.n -= len;
		n++;
	}
	return n == 1 || n == 2;
}

bool proxy_path_is_confined(struct slice path)
{
	struct slice rest = path;

	if (!path.n || path.p[0] != '/' || (path.n > 1 && path.p[1] == '/'))
		return false;
	for (size_t i = 0; i < path.n; i++)
		if (!ascii_is_alnum(path.p[i]) && !strchr("-._~%!$&'()*+,;=:@/?#", path.p[i]))
			return false;
	rest = slice_cut(&rest, '?');
	rest = slice_cut(&rest, '#');
	while (rest.p)
		if (path_segment_is_dots(slice_cut(&rest, '/')))
			return false;
	return true;
}

static int proxy_headers_write_reply_line(const struct proxy_headers *c, const struct http_head *h,
					  size_t i, struct buf *out)
{
	struct slice name = h->headers[i].name, value = h->headers[i].value;

	if (header_is_hop_by_hop(h, name) || header_has_prefix(name, "cay-") ||
	    header_has_prefix(name, "x-accel-") || header_has_prefix(name, "x-lighttpd-") ||
	    header_has_prefix(name, "proxy-") || header_is_one_of(beyond_host_headers, name))
		return 0;
	if (header_has_prefix(name, "sec-websocket-"))
		return c->upgrade ? header_line_write(out, name, value) : 0;
	if (c->prefix && http_equals_nocase(name, "location"))
		return proxy_path_is_confined(value) ? buf_printf(out, "Location: %s%.*s\r\n",
								  c->prefix, (int)value.n, value.p)
						     : 0;
	if (c->prefix)
		return header_is_one_of(api_origin_reply_headers, name)
			       ? header_line_write(out, name, value)
			       : 0;
	if (http_equals_nocase(name, "set-cookie"))
		return set_cookie_write_host_only(out, value, c->cookie);
	return header_line_write(out, name, value);
}

int proxy_headers_write_reply(const struct proxy_headers *c, const struct http_head *h,
			      struct buf *out)
{
	int r = 0;

	for (size_t i = 0; i < h->n_headers && r >= 0; i++)
		r = proxy_headers_write_reply_line(c, h, i, out);
	/* no browser may run content on the API's origin */
	if (r >= 0 && c->prefix)
		r = buf_puts(out, "Content-Security-Policy: sandbox; default-src 'none'\r\n"
				  "X-Content-Type-Options: nosniff\r\n"
				  "X-Frame-Options: DENY\r\n"
				  "Cross-Origin-Resource-Policy: same-origin\r\n"
				  "Referrer-Policy: no-referrer\r\n");
	return r;
}
