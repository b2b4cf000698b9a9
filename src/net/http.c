/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http.h"

#include <assert.h>

enum { STATE_HEAD, STATE_BODY, STATE_END };
enum { SEEN_HOST = 1, SEEN_LENGTH = 2, SEEN_CODING = 4, SEEN_UPGRADE = 8, SEEN_CONN_UPGRADE = 16 };

static char lower(char c)
{
	return ascii_upper(c) ? (char)(c - 'A' + 'a') : c;
}

bool http_eq(struct slice s, const char *want)
{
	size_t i = 0;

	while (i < s.n && want[i] && lower(s.p[i]) == want[i])
		i++;
	return i == s.n && !want[i];
}

/* llhttp's callbacks.  They see the whole head at once, so a span is a header;
 * later they stop the parser at every event, so that positions are exact. */

/* No place for a header: it is a trailer, or one too many. */
static bool no_place(const struct http_parser *p)
{
	return p->state != STATE_HEAD || p->head.n_headers == HTTP_HEADERS_MAX;
}

static int on_name(llhttp_t *ll, const char *at, size_t n)
{
	struct http_parser *p = ll->data;

	if (no_place(p))
		return HPE_USER;
	p->head.headers[p->head.n_headers] = (struct http_header){ { at, n }, { at + n, 0 } };
	return 0;
}

static int on_value(llhttp_t *ll, const char *at, size_t n)
{
	struct http_parser *p = ll->data;

	if (no_place(p))
		return HPE_USER;
	p->head.headers[p->head.n_headers].value = slice_trim((struct slice){ at, n });
	return 0;
}

static int on_value_complete(llhttp_t *ll)
{
	struct http_parser *p = ll->data;

	p->head.n_headers++;
	return 0;
}

static int on_headers_complete(llhttp_t *ll)
{
	/* an Upgrade nobody asked us to follow leaves the message what it is */
	ll->upgrade = 0;
	return HPE_PAUSED;
}

static int on_chunk_header(llhttp_t *ll)
{
	return ll->content_length > HTTP_CHUNK_MAX ? HPE_USER : HPE_PAUSED;
}

static int on_extension(llhttp_t *, const char *, size_t)
{
	return HPE_USER;
}

static int on_body(llhttp_t *ll, const char *at, size_t n)
{
	struct http_parser *p = ll->data;

	p->span = (struct slice){ at, n };
	return HPE_PAUSED;
}

static int on_message_complete(llhttp_t *ll)
{
	struct http_parser *p = ll->data;

	p->done = true;
	return HPE_PAUSED;
}

static const llhttp_settings_t callbacks = {
	.on_header_field = on_name,
	.on_header_value = on_value,
	.on_header_value_complete = on_value_complete,
	.on_headers_complete = on_headers_complete,
	.on_chunk_header = on_chunk_header,
	.on_chunk_extension_name = on_extension,
	.on_body = on_body,
	.on_message_complete = on_message_complete,
};

void http_init(struct http_parser *p, enum http_kind kind)
{
	/* not the table of headers: it is as large as all the rest, and counted */
	memset(&p->head, 0, offsetof(struct http_head, headers));
	p->kind = kind;
	p->raw = BUF_INIT(HTTP_HEAD_MAX);
	p->may_upgrade = p->any_end = p->to_head = false;
	p->left = 0;
	p->span = (struct slice){};
	p->head.framing = HTTP_EMPTY;
	http_reset(p);
}

void http_allow_upgrade(struct http_parser *p)
{
	p->may_upgrade = true;
}

void http_of_a_server(struct http_parser *p, bool to_head)
{
	p->any_end = true;
	p->to_head = to_head;
}

void http_reset(struct http_parser *p)
{
	llhttp_init(&p->ll, p->kind == HTTP_KIND_REQUEST ? HTTP_REQUEST : HTTP_RESPONSE,
		    &callbacks);
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

void http_fini(struct http_parser *p)
{
	buf_fini(&p->raw);
}

bool http_idle(const struct http_parser *p)
{
	return p->state == STATE_HEAD && p->raw.len == 0 && p->interim == 0;
}

bool http_ended(const struct http_parser *p)
{
	return p->state == STATE_END;
}

/* Move bytes into raw up to the empty line.  1 when it is there. */
static int gather(struct http_parser *p, struct slice *in, struct cay_err *err)
{
	size_t i = 0;

	/* breaks: how much of CR LF CR LF the bytes end in */
	while (i < in->n && p->breaks < 4) {
		char c = in->p[i];

		/* nearly all bytes are these, and only they may be many */
		if (c >= ' ' && c <= '~' && p->breaks == 0 && p->raw.len + i < HTTP_HEAD_MAX) {
			i++;
			continue;
		}

		/* printable ASCII and tabs in lines that end in CRLF; no empty line in front */
		if ((c != '\t' && c != '\r' && c != '\n' && (c < ' ' || c > '~')) ||
		    (c == '\n') != (p->breaks % 2 == 1) || (c == '\r' && !(p->raw.len + i)))
			return cay_fail(err, CAY_E_INVALID, "byte 0x%02x in the head of a message",
					(unsigned char)c);
		if (p->raw.len + i == HTTP_HEAD_MAX)
			return cay_fail(err, CAY_E_HEADERS, "the head is longer than %zu bytes",
					HTTP_HEAD_MAX);
		p->breaks = c == '\r' || c == '\n' ? p->breaks + 1 : 0;
		i++;
	}
	if (buf_add(&p->raw, in->p, i) < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory for a head");
	in->p += i;
	in->n -= i;
	return p->breaks == 4;
}

static bool target_char(char c)
{
	return ascii_alnum(c) || (c && strchr("-._~%!$&'()*+,;=:@/?", c));
}

static int version(struct slice s, unsigned *ret, struct cay_err *err)
{
	if (!slice_eq(s, SLICE("HTTP/1.1")) && !slice_eq(s, SLICE("HTTP/1.0")))
		return cay_fail(err, CAY_E_INVALID, "only HTTP/1.1 and HTTP/1.0 are spoken here");
	*ret = (unsigned)(s.p[7] - '0');
	return 0;
}

static int request_line(struct http_head *h, struct slice line, struct cay_err *err)
{
	h->method = slice_cut(&line, ' ');
	h->target = slice_cut(&line, ' ');
	if (!line.p)
		return cay_fail(err, CAY_E_INVALID, "a request line is METHOD TARGET VERSION");
	if (slice_eq(h->method, SLICE("CONNECT")))
		return cay_fail(err, CAY_E_INVALID, "this is no tunnel");
	if (h->target.n > HTTP_TARGET_MAX)
		return cay_fail(err, CAY_E_HEADERS, "the target is longer than %zu bytes",
				HTTP_TARGET_MAX);
	if (!h->target.n || h->target.p[0] != '/')
		return cay_fail(err, CAY_E_INVALID, "the target must begin with '/'");
	for (size_t i = 0; i < h->target.n; i++)
		if (!target_char(h->target.p[i]))
			return cay_fail(err, CAY_E_INVALID, "'%c' in the target must be encoded",
					h->target.p[i]);
	return version(line, &h->minor, err);
}

static int status_line(struct http_head *h, struct slice line, struct cay_err *err)
{
	struct slice v = slice_cut(&line, ' ');
	uint64_t status;
	int r = version(v, &h->minor, err);

	if (r < 0)
		return r;
	if (str_u64(slice_cut(&line, ' '), 100, 599, &status) < 0)
		return cay_fail(err, CAY_E_INVALID, "a status is a number from 100 to 599");
	h->status = (unsigned)status;
	return 0;
}

/* host, host:port, [address] or [address]:port, and nothing that a name in a
 * policy, a log or a URL could be confused by. */
static bool host_ok(struct slice v)
{
	size_t i = 0;

	if (v.n && v.p[0] == '[') {
		for (i = 1; i < v.n && v.p[i] != ']'; i++)
			if (!ascii_digit(v.p[i]) &&
			    !(lower(v.p[i]) >= 'a' && lower(v.p[i]) <= 'f') && v.p[i] != ':' &&
			    v.p[i] != '.')
				return false;
		if (i == v.n || i == 1)
			return false;
		i++;
	} else {
		while (i < v.n &&
		       (ascii_alnum(v.p[i]) || v.p[i] == '.' || v.p[i] == '-' || v.p[i] == '_'))
			i++;
		if (i == 0)
			return false;
	}
	if (i < v.n) {
		uint64_t port;

		return v.p[i] == ':' &&
		       str_u64((struct slice){ v.p + i + 1, v.n - i - 1 }, 0, 65535, &port) == 0;
	}
	return true;
}

struct slice http_origin_host(struct slice origin)
{
	struct slice host = origin, scheme = slice_cut(&host, ':');

	if ((!slice_eq(scheme, SLICE("http")) && !slice_eq(scheme, SLICE("https"))) || host.n < 3 ||
	    memcmp(host.p, "//", 2) != 0)
		return (struct slice){};
	host.p += 2;
	host.n -= 2;
	return host_ok(host) ? host : (struct slice){};
}

static int take_host(struct http_parser *p, struct slice v, struct cay_err *err)
{
	if (p->seen & SEEN_HOST || !host_ok(v))
		return cay_fail(err, CAY_E_INVALID, "there must be one Host, a name or an address");
	p->seen |= SEEN_HOST;
	return 0;
}

static int take_length(struct http_parser *p, struct slice v, struct cay_err *err)
{
	if (p->seen & SEEN_LENGTH || v.n > HTTP_LENGTH_DIGITS ||
	    str_u64(v, 0, UINT64_MAX, &p->head.length) < 0)
		return cay_fail(err, CAY_E_INVALID, "Content-Length is one plain number");
	p->seen |= SEEN_LENGTH;
	return 0;
}

static int take_coding(struct http_parser *p, struct slice v, struct cay_err *err)
{
	if (p->seen & SEEN_CODING || !http_eq(v, "chunked"))
		return cay_fail(err, CAY_E_INVALID, "the only Transfer-Encoding is 'chunked'");
	p->seen |= SEEN_CODING;
	return 0;
}

static int take_connection(struct http_parser *p, struct slice v, struct cay_err *err)
{
	static const char *const never[] = { "host", "content-length", "transfer-encoding",
					     "trailer" };

	while (v.p) {
		struct slice token = slice_trim(slice_cut(&v, ','));

		if (http_eq(token, "close"))
			p->head.keep_alive = false;
		else if (http_eq(token, "upgrade"))
			p->seen |= SEEN_CONN_UPGRADE;
		for (size_t i = 0; i < ARRAY_SIZE(never); i++)
			if (http_eq(token, never[i]))
				return cay_fail(err, CAY_E_INVALID,
						"Connection may not take '%s' away", never[i]);
	}
	return 0;
}

static int take_expect(struct http_parser *p, struct slice v, struct cay_err *err)
{
	if (p->kind != HTTP_KIND_REQUEST || !http_eq(v, "100-continue"))
		return cay_fail(err, CAY_E_INVALID, "the only Expect is '100-continue'");
	p->head.expect = p->head.minor == 1;
	return 0;
}

/* One name; of a list nobody could tell which was meant. */
static bool protocol_ok(struct slice v)
{
	if (!v.n || v.n > HTTP_PROTOCOL_MAX)
		return false;
	for (size_t i = 0; i < v.n; i++)
		if (!ascii_alnum(v.p[i]) && !strchr("-._/", v.p[i]))
			return false;
	return true;
}

static int take_upgrade(struct http_parser *p, struct slice v, struct cay_err *)
{
	p->head.upgrade = p->seen & SEEN_UPGRADE || !protocol_ok(v) ? (struct slice){} : v;
	p->seen |= SEEN_UPGRADE;
	return 0;
}

static const struct {
	const char *name;
	int (*take)(struct http_parser *p, struct slice value, struct cay_err *err);
} known[] = {
	{ "host", take_host },
	{ "content-length", take_length },
	{ "transfer-encoding", take_coding },
	{ "connection", take_connection },
	{ "expect", take_expect },
	{ "upgrade", take_upgrade },
};

/* Anywhere in its line, also where the value was trimmed. */
static bool has_tab(const struct http_parser *p, const struct http_header *h)
{
	size_t n = (size_t)(p->raw.data + p->raw.len - h->name.p);
	const char *eol = memchr(h->name.p, '\r', n);

	return memchr(h->name.p, '\t', (size_t)(eol - h->name.p));
}

static int take_known(struct http_parser *p, const struct http_header *h, struct cay_err *err)
{
	for (size_t k = 0; k < ARRAY_SIZE(known); k++)
		if (http_eq(h->name, known[k].name)) {
			/* white space to some readers, a part of the value to others */
			if (has_tab(p, h))
				return cay_fail(err, CAY_E_INVALID, "a tab in '%s'", known[k].name);
			return known[k].take(p, h->value, err);
		}
	return 0;
}

static int take_headers(struct http_parser *p, struct cay_err *err)
{
	int r = 0;

	for (size_t i = 0; i < p->head.n_headers && r >= 0; i++) {
		const struct http_header *h = &p->head.headers[i];

		/* many programs take X_Y for X-Y; two names for one thing are one too many */
		if (memchr(h->name.p, '_', h->name.n))
			return cay_fail(err, CAY_E_INVALID, "'_' in the name of a header");
		r = take_known(p, h, err);
	}
	return r;
}

/* How long the body is, in the one way that everybody reads alike. */
static int framing(struct http_parser *p, struct cay_err *err)
{
	struct http_head *h = &p->head;
	bool bodiless = p->kind == HTTP_KIND_RESPONSE &&
			(h->status < 200 || h->status == 204 || h->status == 304);

	h->framing = HTTP_EMPTY;
	h->has_length = p->seen & SEEN_LENGTH;
	if (p->seen & SEEN_CODING && (p->seen & SEEN_LENGTH || h->minor == 0))
		return cay_fail(err, CAY_E_INVALID,
				"Transfer-Encoding beside Content-Length, or in HTTP/1.0");
	if (bodiless) {
		if (p->seen & SEEN_CODING ||
		    (p->seen & SEEN_LENGTH && h->length && h->status != 304))
			return cay_fail(err, CAY_E_INVALID, "a body behind status %u", h->status);
	} else if (p->to_head) {
		h->framing = HTTP_EMPTY;
	} else if (p->seen & SEEN_CODING) {
		h->framing = HTTP_CHUNKED;
	} else if (p->seen & SEEN_LENGTH) {
		h->framing = h->length ? HTTP_LENGTH : HTTP_EMPTY;
	} else if (p->any_end) {
		h->framing = HTTP_UNTIL_END;
	} else if (p->kind == HTTP_KIND_RESPONSE) {
		return cay_fail(err, CAY_E_INVALID, "a response that does not say how long it is");
	}
	p->left = h->framing == HTTP_LENGTH ? h->length : 0;
	return 0;
}

static int check_head(struct http_parser *p, struct cay_err *err)
{
	struct http_head *h = &p->head;
	int r = take_headers(p, err);

	if (r >= 0)
		r = framing(p, err);
	if (r < 0)
		return r;
	if (!(p->seen & SEEN_CONN_UPGRADE) || h->minor == 0)
		h->upgrade = (struct slice){};
	if (p->kind == HTTP_KIND_RESPONSE) {
		if (h->status == 101 && (!p->may_upgrade || !h->upgrade.n))
			return cay_fail(err, CAY_E_INVALID, "another protocol nobody asked for");
		return 0;
	}
	if (h->framing != HTTP_EMPTY || !slice_eq(h->method, SLICE("GET")))
		h->upgrade = (struct slice){};
	if (h->minor == 1 && !(p->seen & SEEN_HOST))
		return cay_fail(err, CAY_E_INVALID, "there is no Host header");
	if (p->seen & SEEN_UPGRADE && !(p->seen & SEEN_CONN_UPGRADE))
		return cay_fail(err, CAY_E_INVALID, "Upgrade without 'Connection: upgrade'");
	if (h->framing == HTTP_CHUNKED &&
	    (slice_eq(h->method, SLICE("GET")) || slice_eq(h->method, SLICE("HEAD"))))
		return cay_fail(err, CAY_E_INVALID, "a chunked body in a %.*s", (int)h->method.n,
				h->method.p);
	return 0;
}

static int parse_head(struct http_parser *p, struct cay_err *err)
{
	struct http_head *h = &p->head;
	const char *eol = memchr(p->raw.data, '\r', p->raw.len);
	struct slice line = { p->raw.data, (size_t)(eol - p->raw.data) };
	llhttp_errno_t e;
	int r;

	r = p->kind == HTTP_KIND_REQUEST ? request_line(h, line, err) : status_line(h, line, err);
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
	return check_head(p, err);
}

/* 1 when the head of a final message is there. */
static int next_head(struct http_parser *p, struct slice *in, struct cay_err *err)
{
	for (;;) {
		unsigned interim = p->interim + 1;
		int r = gather(p, in, err);

		if (r <= 0)
			return r;
		r = parse_head(p, err);
		if (r < 0)
			return r;
		if (p->kind == HTTP_KIND_REQUEST || p->head.status >= 200 || p->head.status == 101)
			return 1;
		if (interim > HTTP_INTERIM_MAX)
			return cay_fail(err, CAY_E_INVALID, "too many interim responses");
		http_reset(p);
		p->interim = interim;
	}
}

static int next_of_length(struct http_parser *p, struct slice *in, struct slice *ret_body)
{
	size_t n = in->n < p->left ? in->n : (size_t)p->left;

	if (!p->left) {
		p->state = STATE_END;
		return HTTP_END;
	}
	if (!n)
		return HTTP_MORE;
	*ret_body = (struct slice){ in->p, n };
	in->p += n;
	in->n -= n;
	p->left -= n;
	return HTTP_BODY;
}

static int next_of_all(struct slice *in, struct slice *ret_body)
{
	if (!in->n)
		return HTTP_MORE;
	*ret_body = *in;
	*in = (struct slice){ in->p + in->n, 0 };
	return HTTP_BODY;
}

static int next_of_chunks(struct http_parser *p, struct slice *in, struct slice *ret_body,
			  struct cay_err *err)
{
	while (in->n) {
		llhttp_errno_t e;
		size_t used;

		p->span = (struct slice){};
		e = llhttp_execute(&p->ll, in->p, in->n);
		if (e != HPE_OK && e != HPE_PAUSED)
			return cay_fail(
				err, CAY_E_INVALID,
				"a chunk is too large, cut off, or has extensions or trailers");
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
			*ret_body = p->span;
			return HTTP_BODY;
		}
	}
	return HTTP_MORE;
}

int http_next(struct http_parser *p, struct slice *in, struct slice *ret_body, struct cay_err *err)
{
	int r;

	assert(p->state != STATE_END);
	if (p->state == STATE_BODY && p->head.framing == HTTP_UNTIL_END)
		return next_of_all(in, ret_body);
	if (p->state == STATE_BODY)
		return p->head.framing == HTTP_CHUNKED ? next_of_chunks(p, in, ret_body, err)
						       : next_of_length(p, in, ret_body);
	r = next_head(p, in, err);
	if (r <= 0)
		return r < 0 ? r : HTTP_MORE;
	p->state = STATE_BODY;
	return HTTP_HEAD_DONE;
}
