/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/request-head.h"

#include "egress/request-terms.h"

#define SHOWN_MAX 200 /* of a target, in a reply */
#define METHOD_MAX 64
#define METHOD_SHOWN_MAX 16 /* in a record */
static_assert(EGRESS_ALLOW < EGRESS_ASK && EGRESS_ASK < EGRESS_DENY);

/* Of one connection, or written here; in lower case. */
static const char *const left_out[] = {
	"host",    "connection",        "keep-alive",     "te",
	"trailer", "transfer-encoding", "content-length", "upgrade",
	"expect",  "http2-settings",
};

static bool header_is_left_out(struct slice name)
{
	for (size_t i = 0; i < ARRAY_SIZE(left_out); i++)
		if (http_equals_nocase(name, left_out[i]))
			return true;
	return name.n > 6 && http_equals_nocase((struct slice){ name.p, 6 }, "proxy-");
}

/* "api.example.com" or "api.example.com:443". */
const char *request_refusal(const struct http_head *h, const struct host_name *name, uint16_t port)
{
	struct slice host = http_header_find(h, "host"), left = host;
	struct slice text = slice_cut(&left, ':');
	struct host_name said;
	uint64_t said_port = port;

	if (left.p && str_parse_u64(left, 1, UINT16_MAX, &said_port) < 0)
		return "other_port";
	if (said_port != port)
		return "other_port";
	if (host_name_parse(text, &said) < 0 ||
	    !host_name_eq(name, (struct slice){ said.text, said.n }))
		return "other_host";
	if (h->minor != 1)
		return "http_1_0";
	/* "*" of OPTIONS, and nothing else that is no path */
	if (!h->target.n || (h->target.p[0] != '/' && !(slice_eq(h->target, SLICE("*")) &&
							slice_eq(h->method, SLICE("OPTIONS")))))
		return "not_http";
	return NULL;
}

bool request_has_body(const struct http_head *h)
{
	return h->framing == HTTP_CHUNKED || (h->has_length && h->length);
}

struct egress_verdict request_judge(struct slice policy, const struct host_name *name,
				    uint16_t port, struct slice method, struct slice target,
				    bool body, struct slice *ret_credential)
{
	auto_buf path = BUF_INIT(HTTP_TARGET_MAX);
	struct egress_request rq = { .method = method, .body = body };

	if (egress_path_decode(target, &path) == 0)
		rq.path = (struct slice){ path.data, path.len };
	return egress_judge_request(policy, name, port, &rq, ret_credential);
}

static const struct {
	const char *name;
	bool is_method; /* or else a target */
} replacing_headers[] = {
	{ "x-http-method-override", true }, { "x-http-method", true },
	{ "x-method-override", true },      { "x-original-url", false },
	{ "x-rewrite-url", false },
};

/* Servers that honour such a header do not care for capitals in a method.  One that is too long is
 * that of no rule. */
static struct slice method_to_upper(struct slice method, char to[static METHOD_MAX])
{
	for (size_t i = 0; i < method.n && i < METHOD_MAX; i++)
		to[i] = ascii_is_lower(method.p[i]) ? (char)(method.p[i] - 0x20) : method.p[i];
	return (struct slice){ to, method.n < METHOD_MAX ? method.n : METHOD_MAX };
}

struct egress_verdict request_judge_head(struct slice policy, const struct host_name *name,
					 uint16_t port, const struct http_head *h,
					 struct slice *ret_credential, const char **ret_why)
{
	struct egress_verdict v =
		request_judge(policy, name, port, h->method, h->target, false, ret_credential);

	if (v.action != EGRESS_DENY && request_has_body(h)) {
		v = request_judge(policy, name, port, h->method, h->target, true, ret_credential);
		if (v.action == EGRESS_DENY)
			*ret_why = "denied_by_body";
	}
	for (size_t i = 0; i < h->n_headers; i++)
		for (size_t k = 0; k < ARRAY_SIZE(replacing_headers); k++) {
			const bool is_method = replacing_headers[k].is_method;
			struct slice value = h->headers[i].value, ignored;
			struct egress_verdict other;
			char method[METHOD_MAX];

			if (!http_equals_nocase(h->headers[i].name, replacing_headers[k].name))
				continue;
			other = request_judge(policy, name, port,
					      is_method ? method_to_upper(value, method)
							: h->method,
					      is_method ? h->target : value, false, &ignored);
			if (other.action > v.action) {
				v = other;
				*ret_why = "denied_by_header";
			}
		}
	return v;
}

static int request_write_framing(const struct http_head *h, struct buf *ret)
{
	if (h->framing == HTTP_CHUNKED)
		return buf_puts(ret, "Transfer-Encoding: chunked\r\n");
	if (h->has_length)
		return buf_printf(ret, "Content-Length: %llu\r\n", (unsigned long long)h->length);
	if (http_equals_nocase(h->upgrade, "websocket"))
		return buf_puts(ret, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
	return 0;
}

int inspected_head_write(const struct http_head *h, const struct host_name *name, struct buf *ret)
{
	int r = buf_printf(ret, "%.*s %.*s HTTP/1.1\r\nHost: %s\r\n", (int)h->method.n, h->method.p,
			   (int)h->target.n, h->target.p, name->text);

	for (size_t i = 0; r >= 0 && i < h->n_headers; i++) {
		const struct http_header *one = &h->headers[i];

		if (!header_is_left_out(one->name))
			r = buf_printf(ret, "%.*s: %.*s\r\n", (int)one->name.n, one->name.p,
				       (int)one->value.n, one->value.p);
	}
	if (r >= 0)
		r = request_write_framing(h, ret);
	return r < 0 ? r : buf_puts(ret, "\r\n");
}

/* The path of a target, for a reader: without the query, which may have secrets. */
static int refusal_write_path(const struct http_head *h, struct buf *ret)
{
	struct slice rest = h->target, path = slice_cut(&rest, '?');
	int r = 0;

	for (size_t i = 0; r >= 0 && i < path.n && i < SHOWN_MAX; i++)
		r = buf_putc(ret, path.p[i] > ' ' && path.p[i] < 0x7f ? path.p[i] : '.');
	return r;
}

static size_t text_copy_shown(struct slice from, size_t max, char *to)
{
	const size_t n = from.n < max ? from.n : max;

	for (size_t i = 0; i < n; i++)
		to[i] = from.p[i] > ' ' && from.p[i] < 0x7f ? from.p[i] : '.';
	return n;
}

void request_describe(const struct http_head *h, char ret[static REQUEST_TEXT_MAX])
{
	struct slice rest = h->target, path = slice_cut(&rest, '?');
	size_t n = text_copy_shown(h->method, METHOD_SHOWN_MAX, ret);

	ret[n++] = ' ';
	n += text_copy_shown(path, REQUEST_TEXT_MAX - 1 - n, ret + n);
	ret[n] = 0;
}

static int refusal_write_verdict(const struct refusal *f, struct buf *ret)
{
	const struct egress_verdict *v = f->by;
	int r;

	if (!v || !f->head)
		return buf_printf(ret, ": %s\n", f->why);
	if (v->rule >= 0)
		r = buf_printf(ret, " by rule %d of the %s's egress policy (%s)\n", v->rule,
			       egress_layer_names[v->layer], f->why);
	else
		r = buf_printf(ret, " by the default of the %s's egress policy (%s)\n",
			       egress_layer_names[v->layer], f->why);
	if (r >= 0)
		r = buf_printf(ret, "To see why: cay egress check --port %u --method %.*s --path '",
			       (unsigned)f->port, (int)f->head->method.n, f->head->method.p);
	if (r >= 0)
		r = refusal_write_path(f->head, ret);
	return r < 0 ? r : buf_printf(ret, "' %s %s\n", f->sandbox, f->name->text);
}

int refusal_write(const struct refusal *f, struct buf *ret)
{
	auto_buf text = BUF_INIT(KIB(4));
	const bool to_head = f->head && slice_eq(f->head->method, SLICE("HEAD"));
	int r = buf_printf(&text, "cay: %s ", f->by ? "denied" : "failed");

	if (r >= 0 && f->head)
		r = buf_printf(&text, "%.*s ", (int)f->head->method.n, f->head->method.p);
	if (r >= 0)
		r = buf_printf(&text, "%s://%s", f->scheme, f->name->text);
	if (r >= 0 && f->head)
		r = refusal_write_path(f->head, &text);
	if (r >= 0)
		r = refusal_write_verdict(f, &text);
	if (r >= 0)
		r = buf_printf(ret,
			       "HTTP/1.1 %u %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
			       "Content-Length: %zu\r\nCay-Reason: %s\r\nConnection: close\r\n\r\n",
			       f->status, f->status == 403 ? "Forbidden" : "Bad Gateway", text.len,
			       f->why);
	return r < 0 || to_head ? r : buf_append(ret, text.data, text.len);
}
