/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http.h"

#include <assert.h>

enum { STATE_HEAD, STATE_BODY, STATE_END };
enum { SEEN_HOST = 1, SEEN_LENGTH = 2, SEEN_CODING = 4, SEEN_UPGRADE = 8, SEEN_CONN_UPGRADE = 16 };

static char http_char_lower(char c)
{
	return ascii_is_upper(c) ? (char)(c - 'A' + 'a') : c;
}

bool http_equals_nocase(struct slice s, const char *want)
{
	size_t i = 0;

	while (i < s.n && want[i] && http_char_lower(s.p[i]) == want[i])
		i++;
	return i == s.n && !want[i];
}

/* llhttp's callbacks.  The head is parsed in one call, so each span is a whole name or value;
 * in the body they pause the parser at every event, so that positions are exact. */

/* True for a trailer, and for one header too many. */
static bool http_parser_headers_are_full(const struct http_parser *p)
{
	return p->state != STATE_HEAD || p->head.n_headers == HTTP_HEADERS_MAX;
}

static int on_http_header_name(llhttp_t *ll, const char *at, size_t n)
{
	struct http_parser *p = ll->data;

	if (http_parser_headers_are_full(p))
		return HPE_USER;
	p->head.headers[p->head.n_headers] = (struct http_header){ { at, n }, { at + n, 0 } };
	return 0;
}

static int on_http_header_value(llhttp_t *ll, const char *at, size_t n)
{
	struct http_parser *p = ll->data;

	if (http_parser_headers_are_full(p))
		return HPE_USER;
	p->head.headers[p->head.n_headers].value = slice_trim((struct slice){ at, n });
	return 0;
}

static int on_http_header_value_complete(llhttp_t *ll)
{
	struct http_parser *p = ll->data;

	p->head.n_headers++;
	return 0;
}

static int on_http_headers_complete(llhttp_t *ll)
{
	/* the caller decides about an upgrade: llhttp must still parse the body */
	ll->upgrade = 0;
	return HPE_PAUSED;
}

static int on_http_chunk_header(llhttp_t *ll)
{
	return ll->content_length > HTTP_CHUNK_MAX ? HPE_USER : HPE_PAUSED;
}

static int on_http_chunk_extension(llhttp_t *, const char *, size_t)
{
	return HPE_USER;
}

static int on_http_chunk_body(llhttp_t *ll, const char *at, size_t n)
{
	struct http_parser *p = ll->data;

	p->span = (struct slice){ at, n };
	return HPE_PAUSED;
}

static int on_http_message_complete(llhttp_t *ll)
{
	struct http_parser *p = ll->data;

	p->done = true;
	return HPE_PAUSED;
}

static const llhttp_settings_t http_llhttp_callbacks = {
	.on_header_field = on_http_header_name,
	.on_header_value = on_http_header_value,
	.on_header_value_complete = on_http_header_value_complete,
	.on_headers_complete = on_http_headers_complete,
	.on_chunk_header = on_http_chunk_header,
	.on_chunk_extension_name = on_http_chunk_extension,
	.on_body = on_http_chunk_body,
	.on_message_complete = on_http_message_complete,
};

void http_parser_init(struct http_parser *p, enum http_kind kind)
{
	/* the table of headers is large, and n_headers bounds its use: leave it uninitialized */
	memset(&p->head, 0, offsetof(struct http_head, headers));
	p->kind = kind;
	p->raw = BUF_INIT(HTTP_HEAD_MAX);
	p->may_upgrade = p->until_end_allowed = p->reply_to_head = false;
	p->interim_max = HTTP_INTERIM_MAX;
	p->left = 0;
	p->span = (struct slice){};
	p->head.framing = HTTP_EMPTY;
	http_parser_reset(p);
}

void http_parser_allow_upgrade(struct http_parser *p)
{
	p->may_upgrade = true;
}

void http_parser_refuse_interim(struct http_parser *p)
{
	p->interim_max = 0;
}

void http_parser_set_web_server(struct http_parser *p, bool to_head)
{
	p->until_end_allowed = true;
	p->reply_to_head = to_head;
}

void http_parser_reset(struct http_parser *p)
{
	llhttp_init(&p->ll, p->kind == HTTP_KIND_REQUEST ? HTTP_REQUEST : HTTP_RESPONSE,
		    &http_llhttp_callbacks);
	p->ll.data = p;
	buf_clear(&p->raw);
	p->head.n_headers = 0;
	p->state = STATE_HEAD;
	p->interim = 0;
	p->breaks = 0;
	p->line = 0;
	p->done = false;
	p->seen = 0;
}

void http_parser_fini(struct http_parser *p)
{
	buf_fini(&p->raw);
}

bool http_parser_is_idle(const struct http_parser *p)
{
	return p->state == STATE_HEAD && p->raw.len == 0 && p->interim == 0;
}

struct slice http_parser_refused_head(const struct http_parser *p)
{
	return (struct slice){ p->raw.data, p->raw.len };
}

bool http_parser_has_ended(const struct http_parser *p)
{
	return p->state == STATE_END;
}

/* Move bytes into raw up to and including the empty line.  1 when it has arrived. */
static int http_parser_collect_head(struct http_parser *p, struct slice *in, struct cay_err *err)
{
	size_t i = 0;

	/* breaks: how much of CR LF CR LF the bytes end in */
	while (i < in->n && p->breaks < 4) {
		char c = in->p[i];

		/* the fast path, for nearly all bytes */
		if (c >= ' ' && c <= '~' && p->breaks == 0 && p->raw.len + i < HTTP_HEAD_MAX) {
			i++;
			continue;
		}

		/* printable ASCII and tabs in lines that end in CRLF; no empty line first */
		if ((c != '\t' && c != '\r' && c != '\n' && (c < ' ' || c > '~')) ||
		    (c == '\n') != (p->breaks % 2 == 1) || (c == '\r' && !(p->raw.len + i)))
			return cay_fail(err, CAY_E_INVALID, "byte 0x%02x in the head of a message",
					(unsigned char)c);
		if (p->raw.len + i == HTTP_HEAD_MAX) {
			(void)buf_append(&p->raw, in->p, i); /* for http_parser_refused_head() */
			return cay_fail(err, CAY_E_HEADERS, "the head is longer than %zu bytes",
					HTTP_HEAD_MAX);
		}
		p->breaks = c == '\r' || c == '\n' ? p->breaks + 1 : 0;
		i++;
	}
	if (buf_append(&p->raw, in->p, i) < 0)
		return cay_no_memory(err);
	in->p += i;
	in->n -= i;
	return p->breaks == 4;
}

static bool http_target_char_is_valid(char c)
{
	return ascii_is_alnum(c) || (c && strchr("-._~%!$&'()*+,;=:@/?", c));
}

static int http_version_parse(struct slice s, unsigned *ret, struct cay_err *err)
{
	if (!slice_eq(s, SLICE("HTTP/1.1")) && !slice_eq(s, SLICE("HTTP/1.0")))
		return cay_fail(err, CAY_E_INVALID, "only HTTP/1.1 and HTTP/1.0 are supported");
	*ret = (unsigned)(s.p[7] - '0');
	return 0;
}

static int http_request_line_parse(struct http_head *h, struct slice line, struct cay_err *err)
{
	h->method = slice_cut(&line, ' ');
	h->target = slice_cut(&line, ' ');
	if (!line.p)
		return cay_fail(err, CAY_E_INVALID, "a request line is METHOD TARGET VERSION");
	if (slice_eq(h->method, SLICE("CONNECT")))
		return cay_fail(err, CAY_E_INVALID, "CONNECT is not supported");
	if (h->target.n > HTTP_TARGET_MAX)
		return cay_fail(err, CAY_E_HEADERS, "the target is longer than %zu bytes",
				HTTP_TARGET_MAX);
	if (!h->target.n || h->target.p[0] != '/')
		return cay_fail(err, CAY_E_INVALID, "the target must begin with '/'");
	for (size_t i = 0; i < h->target.n; i++)
		if (!http_target_char_is_valid(h->target.p[i]))
			return cay_fail(err, CAY_E_INVALID, "'%c' in the target must be encoded",
					h->target.p[i]);
	return http_version_parse(line, &h->minor, err);
}

static int http_status_line_parse(struct http_head *h, struct slice line, struct cay_err *err)
{
	struct slice v = slice_cut(&line, ' ');
	uint64_t status;
	int r = http_version_parse(v, &h->minor, err);

	if (r < 0)
		return r;
	if (str_parse_u64(slice_cut(&line, ' '), 100, 599, &status) < 0)
		return cay_fail(err, CAY_E_INVALID, "a status is a number from 100 to 599");
	h->status = (unsigned)status;
	return 0;
}

/* host, host:port, [address] or [address]:port, without characters that mean something
 * else in a policy, a log or a URL. */
static bool http_host_is_valid(struct slice v)
{
	size_t i = 0;

	if (v.n && v.p[0] == '[') {
		for (i = 1; i < v.n && v.p[i] != ']'; i++)
			if (!ascii_is_digit(v.p[i]) &&
			    !(http_char_lower(v.p[i]) >= 'a' && http_char_lower(v.p[i]) <= 'f') &&
			    v.p[i] != ':' && v.p[i] != '.')
				return false;
		if (i == v.n || i == 1)
			return false;
		i++;
	} else {
		while (i < v.n &&
		       (ascii_is_alnum(v.p[i]) || v.p[i] == '.' || v.p[i] == '-' || v.p[i] == '_'))
			i++;
		if (i == 0)
			return false;
	}
	if (i < v.n) {
		uint64_t port;

		return v.p[i] == ':' && str_parse_u64((struct slice){ v.p + i + 1, v.n - i - 1 }, 0,
						      65535, &port) == 0;
	}
	return true;
}

struct slice http_origin_parse_host(struct slice origin)
{
	struct slice host = origin, scheme = slice_cut(&host, ':');

	if ((!slice_eq(scheme, SLICE("http")) && !slice_eq(scheme, SLICE("https"))) || host.n < 3 ||
	    memcmp(host.p, "//", 2) != 0)
		return (struct slice){};
	host.p += 2;
	host.n -= 2;
	return http_host_is_valid(host) ? host : (struct slice){};
}

static int http_take_host_header(struct http_parser *p, struct slice v, struct cay_err *err)
{
	if (p->seen & SEEN_HOST || !http_host_is_valid(v))
		return cay_fail(err, CAY_E_INVALID,
				"Host must occur once and be a name or an address");
	p->seen |= SEEN_HOST;
	return 0;
}

static int http_take_length_header(struct http_parser *p, struct slice v, struct cay_err *err)
{
	if (p->seen & SEEN_LENGTH || v.n > HTTP_LENGTH_DIGITS ||
	    str_parse_u64(v, 0, UINT64_MAX, &p->head.length) < 0)
		return cay_fail(err, CAY_E_INVALID,
				"Content-Length must occur once and be a plain number");
	p->seen |= SEEN_LENGTH;
	return 0;
}

static int http_take_coding_header(struct http_parser *p, struct slice v, struct cay_err *err)
{
	if (p->seen & SEEN_CODING || !http_equals_nocase(v, "chunked"))
		return cay_fail(err, CAY_E_INVALID,
				"the only supported Transfer-Encoding is 'chunked'");
	p->seen |= SEEN_CODING;
	return 0;
}

static int http_take_connection_header(struct http_parser *p, struct slice v, struct cay_err *err)
{
	static const char *const never[] = { "host", "content-length", "transfer-encoding",
					     "trailer" };

	while (v.p) {
		struct slice token = slice_trim(slice_cut(&v, ','));

		if (http_equals_nocase(token, "close"))
			p->head.keep_alive = false;
		else if (http_equals_nocase(token, "upgrade"))
			p->seen |= SEEN_CONN_UPGRADE;
		for (size_t i = 0; i < ARRAY_SIZE(never); i++)
			if (http_equals_nocase(token, never[i]))
				return cay_fail(err, CAY_E_INVALID, "Connection must not name '%s'",
						never[i]);
	}
	return 0;
}

static int http_take_expect_header(struct http_parser *p, struct slice v, struct cay_err *err)
{
	if (p->kind != HTTP_KIND_REQUEST || !http_equals_nocase(v, "100-continue"))
		return cay_fail(err, CAY_E_INVALID, "the only supported Expect is '100-continue'");
	p->head.expect = p->head.minor == 1;
	return 0;
}

/* A single protocol: a list would be ambiguous. */
static bool http_protocol_is_valid(struct slice v)
{
	if (!v.n || v.n > HTTP_PROTOCOL_MAX)
		return false;
	for (size_t i = 0; i < v.n; i++)
		if (!ascii_is_alnum(v.p[i]) && !strchr("-._/", v.p[i]))
			return false;
	return true;
}

static int http_take_upgrade_header(struct http_parser *p, struct slice v, struct cay_err *)
{
	p->head.upgrade =
		p->seen & SEEN_UPGRADE || !http_protocol_is_valid(v) ? (struct slice){} : v;
	p->seen |= SEEN_UPGRADE;
	return 0;
}

static const struct {
	const char *name;
	int (*take)(struct http_parser *p, struct slice value, struct cay_err *err);
} http_known_headers[] = {
	{ "host", http_take_host_header },
	{ "content-length", http_take_length_header },
	{ "transfer-encoding", http_take_coding_header },
	{ "connection", http_take_connection_header },
	{ "expect", http_take_expect_header },
	{ "upgrade", http_take_upgrade_header },
};

/* Anywhere in the line, also around the value. */
static bool http_header_has_tab(const struct http_parser *p, const struct http_header *h)
{
	size_t n = (size_t)(p->raw.data + p->raw.len - h->name.p);
	const char *eol = memchr(h->name.p, '\r', n);

	return memchr(h->name.p, '\t', (size_t)(eol - h->name.p));
}

static int http_take_known_header(struct http_parser *p, const struct http_header *h,
				  struct cay_err *err)
{
	for (size_t k = 0; k < ARRAY_SIZE(http_known_headers); k++)
		if (http_equals_nocase(h->name, http_known_headers[k].name)) {
			/* some parsers take a tab for white space, others for a part of the value
			 */
			if (http_header_has_tab(p, h))
				return cay_fail(err, CAY_E_INVALID, "a tab in '%s'",
						http_known_headers[k].name);
			return http_known_headers[k].take(p, h->value, err);
		}
	return 0;
}

/* The SDKs of E2B send these with every request.  With '-' for '_' they mean nothing to any program
 * either, so nothing is lost, and nothing confused, when they are removed (docs/adr/0129). */
static bool http_header_is_telemetry(struct slice name)
{
	static const char *const names[] = { "lang_version", "package_version", "sdk_runtime" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (http_equals_nocase(name, names[i]))
			return true;
	return false;
}

static int http_take_headers(struct http_parser *p, struct cay_err *err)
{
	size_t kept = 0, n = p->head.n_headers;
	int r = 0;

	for (size_t i = 0; i < n && p->kind == HTTP_KIND_REQUEST; i++)
		if (!http_header_is_telemetry(p->head.headers[i].name))
			p->head.headers[kept++] = p->head.headers[i];
	if (p->kind == HTTP_KIND_REQUEST)
		p->head.n_headers = kept;
	for (size_t i = 0; i < p->head.n_headers && r >= 0; i++) {
		const struct http_header *h = &p->head.headers[i];

		/* many programs treat X_Y as X-Y: two spellings of one header */
		if (memchr(h->name.p, '_', h->name.n))
			return cay_fail(err, CAY_E_INVALID, "'_' in the name of a header");
		r = http_take_known_header(p, h, err);
	}
	return r;
}

/* Accept only framings that every HTTP parser reads alike. */
static int http_parser_decide_framing(struct http_parser *p, struct cay_err *err)
{
	struct http_head *h = &p->head;
	bool bodiless = p->kind == HTTP_KIND_RESPONSE &&
			(h->status < 200 || h->status == 204 || h->status == 304);

	h->framing = HTTP_EMPTY;
	h->has_length = p->seen & SEEN_LENGTH;
	if (p->seen & SEEN_CODING && (p->seen & SEEN_LENGTH || h->minor == 0))
		return cay_fail(err, CAY_E_INVALID,
				"Transfer-Encoding together with Content-Length, or in HTTP/1.0");
	if (bodiless) {
		if (p->seen & SEEN_CODING ||
		    (p->seen & SEEN_LENGTH && h->length && h->status != 304))
			return cay_fail(err, CAY_E_INVALID, "a body after status %u", h->status);
	} else if (p->reply_to_head) {
		h->framing = HTTP_EMPTY;
	} else if (p->seen & SEEN_CODING) {
		h->framing = HTTP_CHUNKED;
	} else if (p->seen & SEEN_LENGTH) {
		h->framing = h->length ? HTTP_LENGTH : HTTP_EMPTY;
	} else if (p->until_end_allowed) {
		h->framing = HTTP_UNTIL_END;
	} else if (p->kind == HTTP_KIND_RESPONSE) {
		return cay_fail(err, CAY_E_INVALID,
				"the response has neither Content-Length nor Transfer-Encoding");
	}
	p->left = h->framing == HTTP_LENGTH      ? h->length
		  : h->framing == HTTP_UNTIL_END ? UINT64_MAX
						 : 0;
	return 0;
}

static int http_parser_check_head(struct http_parser *p, struct cay_err *err)
{
	struct http_head *h = &p->head;
	int r = http_take_headers(p, err);

	if (r >= 0)
		r = http_parser_decide_framing(p, err);
	if (r < 0)
		return r;
	if (!(p->seen & SEEN_CONN_UPGRADE) || h->minor == 0)
		h->upgrade = (struct slice){};
	if (p->kind == HTTP_KIND_RESPONSE) {
		if (h->status == 101 && (!p->may_upgrade || !h->upgrade.n))
			return cay_fail(err, CAY_E_INVALID, "an upgrade that was not requested");
		return 0;
	}
	if (h->framing != HTTP_EMPTY || !slice_eq(h->method, SLICE("GET")))
		h->upgrade = (struct slice){};
	if (h->minor == 1 && !(p->seen & SEEN_HOST))
		return cay_fail(err, CAY_E_INVALID, "missing Host header");
	if (p->seen & SEEN_UPGRADE && !(p->seen & SEEN_CONN_UPGRADE))
		return cay_fail(err, CAY_E_INVALID, "Upgrade without 'Connection: upgrade'");
	if (h->framing == HTTP_CHUNKED &&
	    (slice_eq(h->method, SLICE("GET")) || slice_eq(h->method, SLICE("HEAD"))))
		return cay_fail(err, CAY_E_INVALID, "a chunked body in a %.*s", (int)h->method.n,
				h->method.p);
	return 0;
}

static int http_parser_parse_head(struct http_parser *p, struct cay_err *err)
{
	struct http_head *h = &p->head;
	const char *eol = memchr(p->raw.data, '\r', p->raw.len);
	struct slice line = { p->raw.data, (size_t)(eol - p->raw.data) };
	llhttp_errno_t e;
	int r;

	r = p->kind == HTTP_KIND_REQUEST ? http_request_line_parse(h, line, err)
					 : http_status_line_parse(h, line, err);
	if (r < 0)
		return r;
	h->keep_alive = h->minor == 1;
	h->length = 0;
	h->expect = false;
	h->upgrade = (struct slice){};
	e = llhttp_execute(&p->ll, p->raw.data, p->raw.len);
	if (e != HPE_PAUSED && h->n_headers == HTTP_HEADERS_MAX)
		return cay_fail(err, CAY_E_HEADERS, "more than %d headers", HTTP_HEADERS_MAX);
	if (e != HPE_PAUSED)
		return cay_fail(err, CAY_E_INVALID, "not HTTP: %s",
				llhttp_get_error_reason(&p->ll));
	llhttp_resume(&p->ll);
	return http_parser_check_head(p, err);
}

/* 1 when the head of a request or of a final response is complete. */
static int http_parser_next_head(struct http_parser *p, struct slice *in, struct cay_err *err)
{
	for (;;) {
		unsigned interim = p->interim + 1;
		int r = http_parser_collect_head(p, in, err);

		if (r <= 0)
			return r;
		r = http_parser_parse_head(p, err);
		if (r < 0)
			return r;
		if (p->kind == HTTP_KIND_REQUEST || p->head.status >= 200 || p->head.status == 101)
			return 1;
		if (interim > p->interim_max)
			return cay_fail(err, CAY_E_INVALID, "too many interim responses");
		http_parser_reset(p);
		p->interim = interim;
	}
}

static int http_parser_next_of_length(struct http_parser *p, struct slice *in, struct slice *body)
{
	size_t n = in->n < p->left ? in->n : (size_t)p->left;

	if (!p->left) {
		p->state = STATE_END;
		return HTTP_END;
	}
	if (!n)
		return HTTP_MORE;
	*body = (struct slice){ in->p, n };
	in->p += n;
	in->n -= n;
	p->left -= n;
	return HTTP_BODY;
}

static int http_parser_next_of_chunks(struct http_parser *p, struct slice *in, struct slice *body,
				      struct cay_err *err)
{
	while (in->n) {
		llhttp_errno_t e;
		size_t used;

		p->span = (struct slice){};
		e = llhttp_execute(&p->ll, in->p, in->n);
		if (e != HPE_OK && e != HPE_PAUSED)
			return cay_fail(err, CAY_E_INVALID,
					"invalid chunk: too large, malformed, or with extensions "
					"or trailers");
		used = e == HPE_OK ? in->n : (size_t)(llhttp_get_error_pos(&p->ll) - in->p);
		assert(used <= in->n);
		in->p += used;
		in->n -= used;
		p->line += used - p->span.n;
		if (p->line > HTTP_CHUNK_LINE_MAX)
			return cay_fail(err, CAY_E_INVALID, "the line of a chunk is too long");
		if (e == HPE_PAUSED)
			llhttp_resume(&p->ll);
		if (p->done) {
			p->state = STATE_END;
			return HTTP_END;
		}
		if (p->span.n) {
			p->line = 0;
			*body = p->span;
			return HTTP_BODY;
		}
	}
	return HTTP_MORE;
}

int http_parser_next(struct http_parser *p, struct slice *in, struct slice *body,
		     struct cay_err *err)
{
	int r;

	assert(p->state != STATE_END);
	if (p->state == STATE_BODY)
		return p->head.framing == HTTP_CHUNKED
			       ? http_parser_next_of_chunks(p, in, body, err)
			       : http_parser_next_of_length(p, in, body);
	r = http_parser_next_head(p, in, err);
	if (r <= 0)
		return r < 0 ? r : HTTP_MORE;
	p->state = STATE_BODY;
	return HTTP_HEAD_DONE;
}
