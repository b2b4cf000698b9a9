/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/message-head.h"

#include <stdio.h>

#include "broker/sigv4.h"
#include "wire/broker-message.h"

/* Of one connection, or written here; in lower case. */
static const char *const hop_headers[] = {
	"connection",     "keep-alive", "te",     "trailer",        "transfer-encoding",
	"content-length", "upgrade",    "expect", "http2-settings",
};
/* A reply of the host is never taken for one of cay-broker, and names no other way to the host. */
static const char *const reply_only_headers[] = { "cay-reason", "alt-svc" };

static bool header_is_one_of(struct slice name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (http_equals_nocase(name, list[i]))
			return true;
	return false;
}

static bool header_is_of_hop(struct slice name)
{
	return header_is_one_of(name, hop_headers, ARRAY_SIZE(hop_headers)) ||
	       (name.n > 6 && http_equals_nocase((struct slice){ name.p, 6 }, "proxy-"));
}

static int header_write(struct buf *ret, const struct http_header *h)
{
	return buf_printf(ret, "%.*s: %.*s\r\n", (int)h->name.n, h->name.p, (int)h->value.n,
			  h->value.p);
}

/* "api.example.com", or with the port that was dialled. */
static bool request_is_for(struct slice host, const struct broker_record *to)
{
	struct slice left = host, name = slice_cut(&left, ':');
	uint64_t port = 443;

	if (left.p && str_parse_u64(left, 1, 65535, &port) < 0)
		return false;
	return http_equals_nocase(name, to->host) && port == to->port;
}

/* Of the headers that a credential sets, none of the request is sent. */
static bool header_is_of_credential(struct slice name, const struct credential *c)
{
	const char *own = c ? credential_get_header(c) : "";
	size_t i = 0;

	if (!c)
		return false;
	if (c->kind == CREDENTIAL_SIGV4 && sigv4_drops_header(name))
		return true;
	while (i < name.n && own[i] && ascii_to_lower(name.p[i]) == ascii_to_lower(own[i]))
		i++;
	return (i == name.n && !own[i]) || http_equals_nocase(name, "accept-encoding");
}

static int request_line_write(const struct http_head *h, const struct credential *c,
			      struct buf *ret)
{
	int r = buf_printf(ret, "%.*s ", (int)h->method.n, h->method.p);

	if (r >= 0)
		r = c ? credential_target_write(c, h->target, ret)
		      : buf_append(ret, h->target.p, h->target.n);
	return r < 0 ? r : buf_puts(ret, " HTTP/1.1\r\n");
}

static int request_framing_write(const struct http_head *h, struct buf *ret)
{
	if (h->framing == HTTP_CHUNKED)
		return buf_puts(ret, "Transfer-Encoding: chunked\r\n");
	if (h->has_length)
		return buf_printf(ret, "Content-Length: %llu\r\n", (unsigned long long)h->length);
	if (h->upgrade.n)
		return buf_printf(ret, "Connection: Upgrade\r\nUpgrade: %.*s\r\n",
				  (int)h->upgrade.n, h->upgrade.p);
	return 0;
}

int request_head_write(const struct http_head *h, const struct broker_record *to,
		       const struct credential *credential, const struct clk *clk, struct buf *ret,
		       struct cay_err *err)
{
	int r;

	if (h->minor != 1 || !request_is_for(http_header_find(h, "host"), to))
		return cay_fail(err, CAY_E_INVALID, "the request is for another host");
	/* RFC 9110, 9.3.8 */
	if (credential && slice_eq(h->method, SLICE("TRACE")))
		return cay_fail(err, CAY_E_INVALID,
				"a host sends back what it gets with TRACE, which would be the "
				"credential; use another method");
	/* reserved at once: a buffer that grows leaves a copy */
	r = buf_reserve(ret, ret->max);
	if (r >= 0)
		r = request_line_write(h, credential, ret);
	if (r >= 0)
		r = buf_printf(ret, "Host: %s", to->host);
	if (r >= 0)
		r = to->port == 443 ? buf_puts(ret, "\r\n")
				    : buf_printf(ret, ":%u\r\n", (unsigned)to->port);
	for (size_t i = 0; r >= 0 && i < h->n_headers; i++)
		if (!header_is_of_hop(h->headers[i].name) &&
		    !http_equals_nocase(h->headers[i].name, "host") &&
		    !header_is_of_credential(h->headers[i].name, credential))
			r = header_write(ret, &h->headers[i]);
	if (r >= 0 && credential)
		r = buf_puts(ret, "Accept-Encoding: identity\r\n");
	if (r >= 0 && credential)
		r = credential_header_write(credential, ret);
	if (r >= 0 && credential && credential->kind == CREDENTIAL_SIGV4 &&
	    sigv4_headers_write(h, to,
				(struct slice){ credential->value.data, credential->value.len },
				slice_of(credential->header), clk_wall_ns(clk), ret, err) < 0)
		return -EINVAL;
	if (r >= 0)
		r = request_framing_write(h, ret);
	if (r >= 0)
		r = buf_puts(ret, "\r\n");
	return r < 0 ? cay_fail(err, CAY_E_HEADERS, "the head of the request is too long") : 0;
}

bool reply_is_readable(const struct http_head *h)
{
	for (size_t i = 0; i < h->n_headers; i++)
		if (http_equals_nocase(h->headers[i].name, "content-encoding") &&
		    !http_equals_nocase(h->headers[i].value, "identity"))
			return false;
	return true;
}

/* What follows the status in the first line. */
static struct slice reply_reason(const struct http_parser *p)
{
	struct slice text = { p->raw.data, p->raw.len }, line = slice_cut(&text, '\r');

	(void)slice_cut(&line, ' ');
	(void)slice_cut(&line, ' ');
	return line.p ? line : (struct slice){ "", 0 };
}

static int reply_framing_write(const struct http_parser *p, struct buf *ret)
{
	const struct http_head *h = &p->head;

	if (h->framing == HTTP_CHUNKED || h->framing == HTTP_UNTIL_END)
		return buf_puts(ret, "Transfer-Encoding: chunked\r\n");
	if (h->has_length && h->status != 204)
		return buf_printf(ret, "Content-Length: %llu\r\n", (unsigned long long)h->length);
	if (h->framing == HTTP_EMPTY && h->status != 101 && h->status != 204 && h->status != 304 &&
	    !p->reply_to_head)
		return buf_puts(ret, "Content-Length: 0\r\n");
	return 0;
}

int reply_head_write(const struct http_parser *p, bool closes, struct buf *ret, struct cay_err *err)
{
	const struct http_head *h = &p->head;
	struct slice reason = reply_reason(p);
	int r = buf_printf(ret, "HTTP/1.1 %u %.*s\r\n", h->status, (int)reason.n, reason.p);

	for (size_t i = 0; r >= 0 && i < h->n_headers; i++)
		if (!header_is_of_hop(h->headers[i].name) &&
		    !header_is_one_of(h->headers[i].name, reply_only_headers,
				      ARRAY_SIZE(reply_only_headers)))
			r = header_write(ret, &h->headers[i]);
	if (r >= 0)
		r = reply_framing_write(p, ret);
	if (r >= 0 && h->status == 101)
		r = buf_printf(ret, "Connection: Upgrade\r\nUpgrade: %.*s\r\n", (int)h->upgrade.n,
			       h->upgrade.p);
	else if (r >= 0 && closes)
		r = buf_puts(ret, "Connection: close\r\n");
	if (r >= 0)
		r = buf_puts(ret, "\r\n");
	return r < 0 ? cay_fail(err, CAY_E_HEADERS, "the head of the reply is too long") : 0;
}

int failure_reply_write(const char *why, const char *text, bool with_text, struct buf *ret)
{
	return buf_printf(ret,
			  "HTTP/1.1 502 Bad Gateway\r\n" BROKER_REASON_HEADER ": %s\r\n"
			  "Content-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
			  "Connection: close\r\n\r\n%s%s",
			  why, strlen(text) + 1, with_text ? text : "", with_text ? "\n" : "");
}
