/* SPDX-License-Identifier: Apache-2.0 */
/* A head that cay-broker reads and writes again, with a credential of each kind: the first byte
 * says which, and whether it is of a request or of a reply. */
#include "broker/message-head.h"
#include "fuzz.h"

#define SECRET "sk-0123456789abcdef"

static struct credential *credential_create(enum credential_kind kind)
{
	struct credential *c = calloc(1, sizeof(*c));

	CHECK(c);
	c->refs = 1;
	c->kind = kind;
	memcpy(c->header, "X-Key", sizeof("X-Key"));
	if (kind == CREDENTIAL_SIGV4)
		memcpy(c->header, "eu-west-1/s3", sizeof("eu-west-1/s3"));
	memcpy(c->pattern, "a{}b", sizeof("a{}b"));
	c->value = BUF_INIT(CREDENTIAL_VALUE_MAX);
	CHECK(buf_puts(&c->value, kind == CREDENTIAL_BASIC || kind == CREDENTIAL_SIGV4
					  ? "u:" SECRET
					  : SECRET) >= 0);
	CHECK(mask_add(&c->mask, SLICE(SECRET)) >= 0);
	return c;
}

/* How many headers of a head have this name. */
static size_t headers_count(const struct http_head *h, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n_headers; i++)
		n += http_equals_nocase(h->headers[i].name, name);
	return n;
}

/* What was written is a head again, with the secret once. */
static void check_request(const struct buf *out, enum credential_kind kind)
{
	struct slice in = { out->data, out->len }, body;
	struct http_parser p;
	struct cay_err err = {};
	const char *own = kind == CREDENTIAL_HEADER ? "x-key" : "authorization";

	http_parser_init(&p, HTTP_KIND_REQUEST);
	/* a target with a secret may be longer than what is read here */
	if (http_parser_next(&p, &in, &body, &err) == HTTP_HEAD_DONE) {
		CHECK(!in.n);
		CHECK(slice_eq(http_header_find(&p.head, "host"), SLICE("api.example.com")));
		CHECK(headers_count(&p.head, "host") == 1);
		CHECK(headers_count(&p.head, "accept-encoding") == 1);
		CHECK(kind == CREDENTIAL_QUERY || headers_count(&p.head, own) == 1);
		CHECK(kind != CREDENTIAL_QUERY ||
		      memmem(p.head.target.p, p.head.target.n, SECRET, strlen(SECRET)));
	} else {
		CHECK(err.code == CAY_E_HEADERS);
	}
	http_parser_fini(&p);
}

static void check_reply(struct buf *out, const struct credential *c)
{
	size_t n = out->len;

	CHECK(mask_release(&c->mask, out->data, out->len) == n);
	CHECK(!memmem(out->data, out->len, SECRET, strlen(SECRET)));
	CHECK(out->len == n && memcmp(out->data, "HTTP/1.1 ", 9) == 0);
	CHECK(memcmp(out->data + n - 4, "\r\n\r\n", 4) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct broker_record to = { .port = 443, .host = "api.example.com" };
	const bool request = size && data[0] & 0x80;
	const enum credential_kind kind = size ? data[0] % CREDENTIAL_NUM_KINDS : 0;
	struct slice in = { (const char *)data + 1, size ? size - 1 : 0 }, body;
	struct buf out = BUF_INIT(MESSAGE_HEAD_MAX);
	struct credential *c;
	struct http_parser p;
	struct cay_err err = {};

	if (!size)
		return 0;
	c = credential_create(kind);
	http_parser_init(&p, request ? HTTP_KIND_REQUEST : HTTP_KIND_RESPONSE);
	if (!request)
		http_parser_set_web_server(&p, data[0] & 0x40);
	if (http_parser_next(&p, &in, &body, &err) == HTTP_HEAD_DONE) {
		if (request && request_head_write(&p.head, &to, c, &clk_system, &out, &err) >= 0)
			check_request(&out, kind);
		else if (!request && reply_head_write(&p, data[0] & 0x20, &out, &err) >= 0)
			check_reply(&out, c);
	}
	http_parser_fini(&p);
	buf_fini(&out);
	credential_unref(c);
	return 0;
}
