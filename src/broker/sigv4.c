/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/sigv4.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "text/hex.h"
#include "text/percent.h"

#define MEMBERS_MAX 128 /* of a query */
#define SIGNED_MAX (HTTP_HEADERS_MAX + 3)
#define HEX_LEN ((size_t)2 * SHA256_DIGEST_LENGTH)
#define DATE_LEN 8 /* of the time "20130524T000000Z" */
#define EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct sigv4_pair {
	struct slice name, value;
};

struct sigv4_pairs {
	struct sigv4_pair v[SIGNED_MAX > MEMBERS_MAX ? SIGNED_MAX : MEMBERS_MAX];
	size_t n;
};

static int slice_compare(struct slice a, struct slice b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int r = n ? memcmp(a.p, b.p, n) : 0;

	return r ? r : (a.n > b.n) - (a.n < b.n);
}

/* By name, then by value. */
static int sigv4_pairs_add(struct sigv4_pairs *all, struct slice name, struct slice value)
{
	size_t i = all->n;

	if (all->n == ARRAY_SIZE(all->v))
		return -E2BIG;
	for (; i; i--) {
		const struct sigv4_pair *last = &all->v[i - 1];
		int r = slice_compare(last->name, name);

		if (r < 0 || (r == 0 && slice_compare(last->value, value) <= 0))
			break;
		all->v[i] = *last;
	}
	all->v[i] = (struct sigv4_pair){ name, value };
	all->n++;
	return 0;
}

/* Decoded and encoded again, in a buffer that does not move. */
static int sigv4_encode(struct slice in, struct buf *room, struct slice *ret)
{
	auto_buf plain = BUF_INIT(HTTP_TARGET_MAX + 1);
	size_t n = 0;

	if (buf_reserve(&plain, in.n + 1) < 0 || room->max - room->len < 3 * in.n + 1)
		return -E2BIG;
	if (in.n && percent_decode(in.p, in.n, plain.data, &n) < 0)
		return -EINVAL;
	ret->p = room->data + room->len;
	ret->n = n ? percent_encode(plain.data, n, room->data + room->len) : 0;
	room->len += ret->n;
	return 0;
}

static int sigv4_query_write(struct slice query, struct buf *ret)
{
	auto_buf room = BUF_INIT(4 * HTTP_TARGET_MAX);
	struct sigv4_pairs all = {};
	int r = buf_reserve(&room, room.max);

	while (r >= 0 && query.p) {
		struct slice value = slice_cut(&query, '&'), name = slice_cut(&value, '=');
		struct sigv4_pair one;

		if (!name.n && !value.n)
			continue;
		if (memchr(name.p, '+', name.n) || (value.n && memchr(value.p, '+', value.n)))
			return -EINVAL; /* a space, or itself: readers differ */
		r = sigv4_encode(name, &room, &one.name);
		if (r >= 0)
			r = sigv4_encode(value, &room, &one.value);
		if (r >= 0 && (slice_eq(one.name, SLICE("X-Amz-Signature")) ||
			       slice_eq(one.name, SLICE("X-Amz-Algorithm"))))
			return -EINVAL;
		if (r >= 0)
			r = sigv4_pairs_add(&all, one.name, one.value);
	}
	for (size_t i = 0; r >= 0 && i < all.n; i++)
		r = buf_printf(ret, "%s%.*s=%.*s", i ? "&" : "", (int)all.v[i].name.n,
			       all.v[i].name.p, (int)all.v[i].value.n, all.v[i].value.p);
	return r < 0 ? r : buf_putc(ret, '\n');
}

/* S3 encodes a path once; other services encode it as it is sent once more, without empty parts
 * and dots, which are refused here. */
static int sigv4_path_write(struct slice path, bool is_s3, struct buf *ret)
{
	auto_buf room = BUF_INIT(4 * HTTP_TARGET_MAX);
	int r = buf_reserve(&room, room.max);

	(void)slice_cut(&path, '/');
	do {
		struct slice part = slice_cut(&path, '/'), text = {};

		if (!is_s3 && ((!part.n && path.p) || slice_eq(part, SLICE(".")) ||
			       slice_eq(part, SLICE(".."))))
			return -EINVAL;
		if (r >= 0)
			r = sigv4_encode(part, &room, &text);
		if (r >= 0 && !is_s3) {
			text.p = room.data + room.len;
			if (room.max - room.len < 3 * part.n + 1)
				return -E2BIG;
			text.n = part.n ? percent_encode(part.p, part.n, room.data + room.len) : 0;
			room.len += text.n;
		}
		if (r >= 0)
			r = buf_putc(ret, '/');
		if (r >= 0)
			r = buf_append(ret, text.p, text.n);
	} while (r >= 0 && path.p);
	return r < 0 ? r : buf_putc(ret, '\n');
}

bool sigv4_drops_header(struct slice name)
{
	static const char *const dropped[] = { "authorization", "x-amz-date",
					       "x-amz-security-token", "x-amz-content-sha256" };

	for (size_t i = 0; i < ARRAY_SIZE(dropped); i++)
		if (http_equals_nocase(name, dropped[i]))
			return true;
	return false;
}

static bool sigv4_signs_header(struct slice name)
{
	return http_equals_nocase(name, "content-type") ||
	       http_equals_nocase(name, "content-md5") ||
	       (name.n > 6 && http_equals_nocase((struct slice){ name.p, 6 }, "x-amz-") &&
		!sigv4_drops_header(name));
}

/* The hash of the body that the request names, or of none. */
static struct slice sigv4_body_hash(const struct http_head *h)
{
	struct slice given = http_header_find(h, "x-amz-content-sha256");
	uint8_t bytes[SHA256_DIGEST_LENGTH];

	if (!given.p)
		return h->framing == HTTP_EMPTY ? SLICE(EMPTY_HASH) : (struct slice){};
	if (slice_eq(given, SLICE("UNSIGNED-PAYLOAD")) ||
	    slice_eq(given, SLICE("STREAMING-UNSIGNED-PAYLOAD-TRAILER")))
		return given;
	return hex_decode(given.p, given.n, bytes, sizeof(bytes)) >= 0 ? given : (struct slice){};
}

/* The name in lower case, of the value spaces in a row as one; in a buffer that does not move. */
static int sigv4_header_add(struct sigv4_pairs *all, struct slice name, struct slice value,
			    struct buf *room)
{
	struct sigv4_pair one = { { room->data + room->len, name.n }, {} };
	int r = room->max - room->len < name.n + value.n + 1 ? -E2BIG : 0;

	for (size_t i = 0; r >= 0 && i < name.n; i++)
		r = buf_putc(room, ascii_to_lower(name.p[i]));
	one.value.p = room->data + room->len;
	for (size_t i = 0; r >= 0 && i < value.n; i++)
		if (value.p[i] != ' ' || !i || value.p[i - 1] != ' ')
			r = buf_putc(room, value.p[i]);
	one.value.n = (size_t)(room->data + room->len - one.value.p);
	for (size_t i = 0; r >= 0 && i < all->n; i++)
		if (slice_eq(all->v[i].name, one.name))
			r = -EINVAL; /* twice: readers differ */
	return r < 0 ? r : sigv4_pairs_add(all, one.name, one.value);
}

static int sigv4_names_write(const struct sigv4_pairs *all, struct buf *ret)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < all->n; i++)
		r = buf_printf(ret, "%s%.*s", i ? ";" : "", (int)all->v[i].name.n,
			       all->v[i].name.p);
	return r;
}

static int sigv4_headers_collect(const struct http_head *h, const char *host, struct slice hash,
				 const char *time, struct sigv4_pairs *all, struct buf *room)
{
	int r = buf_reserve(room, room->max);

	if (r >= 0)
		r = sigv4_header_add(all, SLICE("host"), slice_of(host), room);
	if (r >= 0)
		r = sigv4_header_add(all, SLICE("x-amz-content-sha256"), hash, room);
	if (r >= 0)
		r = sigv4_header_add(all, SLICE("x-amz-date"), slice_of(time), room);
	for (size_t i = 0; r >= 0 && i < h->n_headers; i++)
		if (sigv4_signs_header(h->headers[i].name))
			r = sigv4_header_add(all, h->headers[i].name, h->headers[i].value, room);
	return r;
}

/* The text of the hash: method, path, query, headers, their names, the hash of the body. */
static int sigv4_canonical_write(const struct http_head *h, const struct sigv4_pairs *headers,
				 struct slice hash, bool is_s3, struct buf *ret)
{
	struct slice query = h->target, path = slice_cut(&query, '?');
	int r = buf_printf(ret, "%.*s\n", (int)h->method.n, h->method.p);

	if (r >= 0)
		r = sigv4_path_write(path, is_s3, ret);
	if (r >= 0)
		r = sigv4_query_write(query, ret);
	for (size_t i = 0; r >= 0 && i < headers->n; i++)
		r = buf_printf(ret, "%.*s:%.*s\n", (int)headers->v[i].name.n, headers->v[i].name.p,
			       (int)headers->v[i].value.n, headers->v[i].value.p);
	if (r >= 0)
		r = buf_putc(ret, '\n');
	if (r >= 0)
		r = sigv4_names_write(headers, ret);
	return r < 0 ? r : buf_printf(ret, "\n%.*s", (int)hash.n, hash.p);
}

static bool hmac_step(uint8_t key[static SHA256_DIGEST_LENGTH], struct slice text)
{
	unsigned n = 0;
	uint8_t out[SHA256_DIGEST_LENGTH];
	bool ok = HMAC(EVP_sha256(), key, SHA256_DIGEST_LENGTH, (const uint8_t *)text.p, text.n,
		       out, &n) != NULL;

	memcpy(key, out, sizeof(out));
	explicit_bzero(out, sizeof(out));
	return ok;
}

/* The key of a day, a region and a service, and then the signature. */
static int sigv4_sign(struct slice secret, struct slice scope, const char *time, struct slice text,
		      char ret[static HEX_LEN + 1])
{
	struct slice service = scope, region = slice_cut(&service, '/');
	auto_buf first = BUF_INIT(KIB(8));
	uint8_t key[SHA256_DIGEST_LENGTH] = {};
	unsigned n = 0;
	bool ok = buf_reserve(&first, secret.n + 8) >= 0 && buf_puts(&first, "AWS4") >= 0 &&
		  buf_append(&first, secret.p, secret.n) >= 0 &&
		  HMAC(EVP_sha256(), first.data, (int)first.len, (const uint8_t *)time, DATE_LEN,
		       key, &n);

	buf_wipe(&first);
	ok = ok && hmac_step(key, region) && hmac_step(key, service) &&
	     hmac_step(key, SLICE("aws4_request")) && hmac_step(key, text);
	hex_encode(key, sizeof(key), ret);
	ret[HEX_LEN] = 0;
	explicit_bzero(key, sizeof(key));
	return ok ? 0 : -ENOMEM;
}

/* "20130524T000000Z", of "2013-05-24T00:00:00.000Z" */
static void sigv4_time_format(uint64_t now_ns, char ret[static 17])
{
	char text[CLK_TEXT_LEN + 1];
	size_t n = 0;

	clk_format_rfc3339(now_ns, text);
	for (size_t i = 0; text[i] && text[i] != '.' && n < 15; i++)
		if (text[i] != '-' && text[i] != ':')
			ret[n++] = text[i];
	memcpy(ret + n, "Z", 2);
}

static int sigv4_text_write(struct slice canonical, struct slice scope, const char *time,
			    struct buf *ret)
{
	uint8_t digest[SHA256_DIGEST_LENGTH];
	char hex[HEX_LEN + 1] = "";

	(void)SHA256((const uint8_t *)canonical.p, canonical.n, digest);
	hex_encode(digest, sizeof(digest), hex);
	return buf_printf(ret, "AWS4-HMAC-SHA256\n%s\n%.*s/%.*s/aws4_request\n%.*s", time, DATE_LEN,
			  time, (int)scope.n, scope.p, (int)HEX_LEN, hex);
}

static int sigv4_write(const struct http_head *h, const char *host, struct slice hash,
		       const char *time, struct slice value, struct slice scope, struct buf *ret)
{
	struct slice service = scope, secret = value, id = slice_cut(&secret, ':');
	auto_buf room = BUF_INIT(HTTP_HEAD_MAX + KIB(1)), canonical = BUF_INIT(KIB(80));
	auto_buf text = BUF_INIT(KIB(1));
	struct sigv4_pairs headers = {};
	char signature[HEX_LEN + 1];
	int r = sigv4_headers_collect(h, host, hash, time, &headers, &room);

	(void)slice_cut(&service, '/');
	if (r >= 0)
		r = sigv4_canonical_write(h, &headers, hash, slice_eq(service, SLICE("s3")),
					  &canonical);
	if (r >= 0)
		r = sigv4_text_write((struct slice){ canonical.data, canonical.len }, scope, time,
				     &text);
	if (r >= 0)
		r = sigv4_sign(secret, scope, time, (struct slice){ text.data, text.len },
			       signature);
	if (r >= 0)
		r = buf_printf(ret,
			       "X-Amz-Date: %s\r\nX-Amz-Content-Sha256: %.*s\r\n"
			       "Authorization: AWS4-HMAC-SHA256 Credential=%.*s/%.*s/%.*s/"
			       "aws4_request, SignedHeaders=",
			       time, (int)hash.n, hash.p, (int)id.n, id.p, DATE_LEN, time,
			       (int)scope.n, scope.p);
	if (r >= 0)
		r = sigv4_names_write(&headers, ret);
	return r < 0 ? r : buf_printf(ret, ", Signature=%s\r\n", signature);
}

int sigv4_headers_write(const struct http_head *h, const struct broker_record *to,
			struct slice value, struct slice scope, uint64_t now_ns, struct buf *ret,
			struct cay_err *err)
{
	struct slice hash = sigv4_body_hash(h);
	char time[17], host[sizeof(to->host) + 8];
	int r = snprintf(host, sizeof(host), to->port == 443 ? "%s" : "%s:%u", to->host,
			 (unsigned)to->port);

	if (r < 0 || (size_t)r >= sizeof(host))
		return cay_fail(err, CAY_E_INVALID, "the name of the host is too long");
	if (!hash.p)
		return cay_fail(err, CAY_E_INVALID,
				"a body can be signed only with its SHA-256 or UNSIGNED-PAYLOAD in "
				"X-Amz-Content-Sha256");
	sigv4_time_format(now_ns, time);
	r = sigv4_write(h, host, hash, time, value, scope, ret);
	return r == -EINVAL ? cay_fail(err, CAY_E_INVALID,
				       "the request cannot be signed: servers read its path, query "
				       "or headers in different ways, or its query is signed")
	       : r < 0      ? cay_fail(err, CAY_E_HEADERS, "the head of the request is too long")
			    : 0;
}
