/* SPDX-License-Identifier: Apache-2.0 */
#include "net/clean.h"

#include "wire/attach.h"

/* What is between two neighbours, and how long a body is: the caller's. */
static const char *const hop[] = {
	"connection",
	"keep-alive",
	"proxy-connection",
	"proxy-authenticate",
	"proxy-authorization",
	"te",
	"trailer",
	"transfer-encoding",
	"upgrade",
	"content-length",
	"expect",
	"http2-settings",
};

/* What a server believes a proxy has said, and what only we say. */
static const char *const ours[] = { "host", "forwarded", "via", "x-real-ip", "true-client-ip" };

/* What speaks for more than one host, or to a proxy in front of us. */
static const char *const larger[] = {
	"strict-transport-security",
	"public-key-pins",
	"public-key-pins-report-only",
	"clear-site-data",
	"alt-svc",
	"nel",
	"report-to",
	"expect-ct",
	"set-cookie2",
	"x-sendfile",
	"via",
	"origin-trial",
};

/* Of a reply on the API's origin: what describes a body, and nothing that does something. */
static const char *const plain[] = {
	"content-type",
	"content-encoding",
	"content-language",
	"content-range",
	"accept-ranges",
	"etag",
	"last-modified",
	"cache-control",
	"expires",
	"date",
	"vary",
	"retry-after",
	"allow",
	"age",
};

static bool one_of(const char *const *names, size_t n, struct slice name)
{
	for (size_t i = 0; i < n; i++)
		if (http_eq(name, names[i]))
			return true;
	return false;
}

static bool begins(struct slice name, const char *prefix)
{
	size_t n = strlen(prefix);

	return name.n >= n && http_eq((struct slice){ name.p, n }, prefix);
}

/* Connection names headers that end here. */
static bool named_by_connection(const struct http_head *h, struct slice name)
{
	for (size_t i = 0; i < h->n_headers; i++) {
		struct slice list = h->headers[i].value;

		if (!http_eq(h->headers[i].name, "connection"))
			continue;
		while (list.p) {
			struct slice token = slice_trim(slice_cut(&list, ','));

			if (token.n == name.n && strncasecmp(token.p, name.p, name.n) == 0)
				return true;
		}
	}
	return false;
}

static bool ends_here(const struct http_head *h, struct slice name)
{
	return one_of(hop, ARRAY_SIZE(hop), name) || named_by_connection(h, name);
}

static int line(struct buf *out, struct slice name, struct slice value)
{
	int r = buf_add(out, name.p, name.n);

	if (r >= 0)
		r = buf_puts(out, ": ");
	if (r >= 0)
		r = buf_add(out, value.p, value.n);
	return r < 0 ? r : buf_puts(out, "\r\n");
}

/* Cookies */

static struct slice cookie_name(struct slice pair)
{
	return slice_trim(slice_cut(&pair, '='));
}

static bool is_cookie(struct slice pair, const char *name)
{
	return slice_eq(cookie_name(pair), slice_of(name));
}

struct slice clean_cookie(const struct http_head *h, const char *name, size_t *at)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n_headers; i++) {
		struct slice rest = h->headers[i].value;

		if (!http_eq(h->headers[i].name, "cookie"))
			continue;
		while (rest.p) {
			struct slice pair = slice_trim(slice_cut(&rest, ';'));

			if (!is_cookie(pair, name) || n++ < *at)
				continue;
			(*at)++;
			(void)slice_cut(&pair, '=');
			return pair.p ? slice_trim(pair) : SLICE("");
		}
	}
	return (struct slice){};
}

/* All but ours. */
static int pass_cookies(struct buf *out, struct slice rest, const char *name)
{
	bool any = false;
	int r = 0;

	while (rest.p && r >= 0) {
		struct slice pair = slice_trim(slice_cut(&rest, ';'));

		if (!pair.n || is_cookie(pair, name))
			continue;
		r = buf_puts(out, any ? "; " : "Cookie: ");
		if (r >= 0)
			r = buf_add(out, pair.p, pair.n);
		any = true;
	}
	return r >= 0 && any ? buf_puts(out, "\r\n") : r;
}

/* A cookie of this host alone, and never ours: browsers cut attributes at ';' as we do. */
static int pass_set_cookie(struct buf *out, struct slice rest, const char *name)
{
	struct slice pair = slice_trim(slice_cut(&rest, ';'));
	int r;

	if (is_cookie(pair, name))
		return 0;
	r = buf_puts(out, "Set-Cookie: ");
	if (r >= 0)
		r = buf_add(out, pair.p, pair.n);
	while (rest.p && r >= 0) {
		struct slice attribute = slice_trim(slice_cut(&rest, ';'));

		if (!attribute.n || http_eq(cookie_name(attribute), "domain"))
			continue;
		r = buf_puts(out, "; ");
		if (r >= 0)
			r = buf_add(out, attribute.p, attribute.n);
	}
	return r < 0 ? r : buf_puts(out, "\r\n");
}

/* To the server */

/* A credential of ours in front of somebody else's door. */
static bool is_credential(struct slice v)
{
	struct slice scheme = slice_cut(&v, ' ');

	return http_eq(scheme, "bearer") && v.p && begins(slice_trim(v), "cay");
}

/* Protocols a page offers, but for the one that is its credential (edge/who.c). */
static int pass_protocols(struct buf *out, struct slice rest)
{
	bool any = false;
	int r = 0;

	while (rest.p && r >= 0) {
		struct slice name = slice_trim(slice_cut(&rest, ','));

		if (!name.n || begins(name, ATTACH_TOKEN_PROTOCOL))
			continue;
		r = buf_puts(out, any ? ", " : "Sec-WebSocket-Protocol: ");
		if (r >= 0)
			r = buf_add(out, name.p, name.n);
		any = true;
	}
	return r >= 0 && any ? buf_puts(out, "\r\n") : r;
}

static bool has(struct slice s, const char *word)
{
	return s.n && memmem(s.p, s.n, word, strlen(word));
}

static int request_line(const struct clean *c, const struct http_head *h, size_t i, struct buf *out)
{
	struct slice name = h->headers[i].name, value = h->headers[i].value;

	if (ends_here(h, name) || one_of(ours, ARRAY_SIZE(ours), name) || begins(name, "cay-") ||
	    begins(name, "x-forwarded-"))
		return 0;
	if (begins(name, "sec-websocket-") && !c->upgrade)
		return 0;
	if (http_eq(name, "sec-websocket-protocol"))
		return pass_protocols(out, value);
	if (http_eq(name, "authorization") && (c->prefix || c->no_auth || is_credential(value)))
		return 0;
	if (http_eq(name, "cookie"))
		return c->prefix ? 0 : pass_cookies(out, value, c->cookie);
	/* where somebody came from may have had the token of the preview in it */
	if (http_eq(name, "referer") && has(value, "cay_preview"))
		return 0;
	/* that it is the API's origin is nothing to the server */
	if (c->prefix && (http_eq(name, "origin") || http_eq(name, "referer")))
		return 0;
	return line(out, name, value);
}

int clean_request(const struct clean *c, const struct http_head *h, struct buf *out)
{
	int r = c->host ? buf_printf(out,
				     "Host: %s\r\nX-Forwarded-Host: %s\r\n"
				     "X-Forwarded-Proto: %s\r\n",
				     c->host, c->host, c->scheme)
			: buf_printf(out, "Host: localhost:%u\r\n", c->port);

	if (r >= 0 && c->prefix)
		r = buf_printf(out, "X-Forwarded-Prefix: %s\r\n", c->prefix);
	for (size_t i = 0; i < h->n_headers && r >= 0; i++)
		r = request_line(c, h, i, out);
	return r;
}

/* To the client */

static bool dots(struct slice segment)
{
	size_t n = 0;

	while (segment.n) {
		size_t len = segment.p[0] == '.' ? 1 : begins(segment, "%2e") ? 3 : 0;

		if (!len)
			return false;
		segment.p += len;
		segment.n -= len;
		n++;
	}
	return n == 1 || n == 2;
}

bool clean_path_stays(struct slice path)
{
	struct slice rest = path;

	if (!path.n || path.p[0] != '/' || (path.n > 1 && path.p[1] == '/'))
		return false;
	for (size_t i = 0; i < path.n; i++)
		if (!ascii_alnum(path.p[i]) && !strchr("-._~%!$&'()*+,;=:@/?#", path.p[i]))
			return false;
	rest = slice_cut(&rest, '?');
	rest = slice_cut(&rest, '#');
	while (rest.p)
		if (dots(slice_cut(&rest, '/')))
			return false;
	return true;
}

static int pass_location(const struct clean *c, struct slice value, struct buf *out)
{
	int r;

	if (!clean_path_stays(value))
		return 0;
	r = buf_printf(out, "Location: %s", c->prefix);
	if (r >= 0)
		r = buf_add(out, value.p, value.n);
	return r < 0 ? r : buf_puts(out, "\r\n");
}

static int reply_line(const struct clean *c, const struct http_head *h, size_t i, struct buf *out)
{
	struct slice name = h->headers[i].name, value = h->headers[i].value;

	if (ends_here(h, name) || begins(name, "cay-") || begins(name, "x-accel-") ||
	    begins(name, "x-lighttpd-") || begins(name, "proxy-") ||
	    one_of(larger, ARRAY_SIZE(larger), name))
		return 0;
	if (begins(name, "sec-websocket-"))
		return c->upgrade ? line(out, name, value) : 0;
	if (c->prefix && http_eq(name, "location"))
		return pass_location(c, value, out);
	if (c->prefix)
		return one_of(plain, ARRAY_SIZE(plain), name) ? line(out, name, value) : 0;
	if (http_eq(name, "set-cookie"))
		return pass_set_cookie(out, value, c->cookie);
	return line(out, name, value);
}

int clean_reply(const struct clean *c, const struct http_head *h, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; i < h->n_headers && r >= 0; i++)
		r = reply_line(c, h, i, out);
	/* whatever it is, on this origin no browser runs it */
	if (r >= 0 && c->prefix)
		r = buf_puts(out, "Content-Security-Policy: sandbox; default-src 'none'\r\n"
				  "X-Content-Type-Options: nosniff\r\n"
				  "X-Frame-Options: DENY\r\n"
				  "Cross-Origin-Resource-Policy: same-origin\r\n"
				  "Referrer-Policy: no-referrer\r\n");
	return r;
}
