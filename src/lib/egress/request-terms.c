/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/request-terms.h"

#include <errno.h>
#include <string.h>

#define TERM_HEAD 2 /* kind, length */

/* Paths */

static int hex_digit(char c)
{
	if (ascii_is_digit(c))
		return c - '0';
	c = ascii_to_lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Whether one part of a path, between slashes, has one meaning for every server.  What follows a
 * semicolon is left out by some. */
static bool path_part_is_clear(struct slice part)
{
	struct slice name = slice_cut(&part, ';');

	return name.n && !slice_eq(name, SLICE(".")) && !slice_eq(name, SLICE(".."));
}

/* A path may end with a slash. */
static bool path_is_clear(struct slice path)
{
	struct slice rest = path;

	if (!path.n || path.p[0] != '/')
		return false;
	rest = (struct slice){ path.p + 1, path.n - 1 };
	while (rest.n)
		if (!path_part_is_clear(slice_cut(&rest, '/')))
			return false;
	return true;
}

static bool byte_is_plain(unsigned char c)
{
	return c > ' ' && c < 0x7f && !strchr("\\%?#", c);
}

/* An encoded byte may be any but one that a second decoding, or a server of another kind, would
 * give a meaning. */
static int path_decode_byte(struct slice *in, char *ret)
{
	int high, low;

	if (in->p[0] != '%') {
		*ret = in->p[0];
		in->p++;
		in->n--;
		return byte_is_plain((unsigned char)*ret) ? 0 : -EINVAL;
	}
	if (in->n < 3)
		return -EINVAL;
	high = hex_digit(in->p[1]);
	low = hex_digit(in->p[2]);
	if (high < 0 || low < 0)
		return -EINVAL;
	*ret = (char)(high << 4 | low);
	in->p += 3;
	in->n -= 3;
	return (unsigned char)*ret < ' ' || strchr("/\\%?#\x7f", *ret) ? -EINVAL : 0;
}

int egress_path_decode(struct slice target, struct buf *ret)
{
	struct slice in = slice_cut(&target, '?');
	const size_t begin = ret->len;

	while (in.n) {
		char c;

		if (path_decode_byte(&in, &c) < 0)
			return -EINVAL;
		if (buf_putc(ret, c) < 0)
			return -ENOMEM;
	}
	in = (struct slice){ ret->data + begin, ret->len - begin };
	return in.n && utf8_is_valid(in.p, in.n) && path_is_clear(in) ? 0 : -EINVAL;
}

static bool pattern_is_valid(struct slice p)
{
	struct slice fixed = p;
	bool first = p.n > 1 && p.p[0] == '*', last = p.n > 1 && p.p[p.n - 1] == '*';

	if (!p.n || p.n > EGRESS_PATTERN_MAX || (first && last))
		return false;
	fixed.p += first;
	fixed.n -= (size_t)first + last;
	for (size_t i = 0; i < fixed.n; i++)
		if (!byte_is_plain((unsigned char)fixed.p[i]) || strchr("*,", fixed.p[i]))
			return false;
	return path_is_clear(fixed);
}

static bool pattern_matches(struct slice pattern, struct slice path)
{
	size_t n = pattern.n - 1;

	if (pattern.p[0] == '*')
		return path.n >= n && memcmp(path.p + path.n - n, pattern.p + 1, n) == 0;
	if (pattern.p[n] == '*')
		return path.n >= n && memcmp(path.p, pattern.p, n) == 0;
	return slice_eq(path, pattern);
}

/* Terms */

static bool word_is_valid(struct slice text, size_t max, bool upper)
{
	for (size_t i = 0; i < text.n; i++) {
		const char c = text.p[i];

		if (!(upper ? ascii_is_upper(c) : ascii_is_alnum(c) || c == '_' || c == '.') &&
		    c != '-')
			return false;
	}
	return text.n && text.n <= max;
}

static bool term_is_valid(enum egress_term_kind kind, struct slice text)
{
	switch (kind) {
	case EGRESS_TERM_METHOD:
		return word_is_valid(text, EGRESS_METHOD_MAX, true);
	case EGRESS_TERM_PATH:
		return pattern_is_valid(text);
	case EGRESS_TERM_CREDENTIAL:
		return word_is_valid(text, EGRESS_CREDENTIAL_MAX, false);
	case EGRESS_TERM_INSPECT:
		return !text.n;
	case EGRESS_TERM_NUM:
		break;
	}
	return false;
}

bool egress_terms_next(struct slice *terms, struct egress_term *ret)
{
	if (!terms->n)
		return false;
	*ret = (struct egress_term){ (enum egress_term_kind)terms->p[0],
				     { terms->p + TERM_HEAD, (unsigned char)terms->p[1] } };
	terms->p += TERM_HEAD + ret->text.n;
	terms->n -= TERM_HEAD + ret->text.n;
	return true;
}

struct slice egress_terms_slice(const struct egress_terms *terms)
{
	return (struct slice){ terms->bytes, terms->n };
}

bool egress_terms_are_valid(struct slice terms)
{
	int last = EGRESS_TERM_METHOD;

	if (terms.n > EGRESS_TERMS_MAX)
		return false;
	while (terms.n) {
		struct egress_term t;
		const int kind = (unsigned char)terms.p[0];

		if (terms.n < TERM_HEAD || (unsigned char)terms.p[1] > terms.n - TERM_HEAD ||
		    kind < last || kind >= EGRESS_TERM_NUM)
			return false;
		(void)egress_terms_next(&terms, &t);
		if (!term_is_valid(t.kind, t.text))
			return false;
		/* the last two are there once at most */
		last = kind + (kind >= EGRESS_TERM_CREDENTIAL);
	}
	return true;
}

static const char *egress_term_expected(enum egress_term_kind kind)
{
	if (kind == EGRESS_TERM_METHOD)
		return "expected a method in capital letters, such as GET";
	if (kind == EGRESS_TERM_PATH)
		return "expected a path such as /v1/status, /v1/* or */status: ASCII as it is "
		       "after decoding, without '..', empty parts, spaces and any of ,%?#\\";
	if (kind == EGRESS_TERM_CREDENTIAL)
		return "expected the name of a credential: letters, digits, '-', '_' and '.'";
	return "expected no text";
}

int egress_terms_add(struct egress_terms *terms, enum egress_term_kind kind, struct slice text,
		     struct cay_err *err)
{
	const size_t was = terms->n;

	if (kind < EGRESS_TERM_METHOD || kind >= EGRESS_TERM_NUM || !term_is_valid(kind, text))
		return cay_fail(err, CAY_E_INVALID, "%s", egress_term_expected(kind));
	if (text.n + TERM_HEAD > sizeof(terms->bytes) - was)
		return cay_fail(err, CAY_E_INVALID,
				"the methods, paths and credential of a rule have more than %d "
				"bytes",
				EGRESS_TERMS_MAX);
	terms->bytes[was] = (char)kind;
	terms->bytes[was + 1] = (char)text.n;
	if (text.n)
		memcpy(terms->bytes + was + TERM_HEAD, text.p, text.n);
	terms->n = (uint16_t)(was + TERM_HEAD + text.n);
	if (egress_terms_are_valid(egress_terms_slice(terms)))
		return 0;
	terms->n = (uint16_t)was;
	return cay_fail(err, CAY_E_INVALID, "expected methods, paths, credential in this order");
}

bool egress_terms_select(struct slice terms)
{
	struct egress_term t;

	return egress_terms_next(&terms, &t) && t.kind <= EGRESS_TERM_PATH;
}

enum egress_match egress_terms_match(struct slice terms, const struct egress_request *rq)
{
	struct egress_term t;
	bool needs[EGRESS_TERM_NUM] = {}, has[EGRESS_TERM_NUM] = {};

	while (egress_terms_next(&terms, &t)) {
		needs[t.kind] = true;
		if (t.kind == EGRESS_TERM_METHOD)
			has[t.kind] |= slice_eq(t.text, rq->method);
		else if (t.kind == EGRESS_TERM_PATH)
			has[t.kind] |= rq->path.p && pattern_matches(t.text, rq->path);
	}
	if (needs[EGRESS_TERM_METHOD] && !has[EGRESS_TERM_METHOD])
		return EGRESS_NO_MATCH;
	if (needs[EGRESS_TERM_PATH] && !rq->path.p)
		return EGRESS_UNCLEAR;
	if (needs[EGRESS_TERM_PATH] && !has[EGRESS_TERM_PATH])
		return EGRESS_NO_MATCH;
	if (needs[EGRESS_TERM_METHOD] && rq->body &&
	    (slice_eq(rq->method, SLICE("GET")) || slice_eq(rq->method, SLICE("HEAD"))))
		return EGRESS_UNCLEAR;
	return EGRESS_MATCH;
}

struct slice egress_terms_credential(struct slice terms)
{
	struct egress_term t;

	while (egress_terms_next(&terms, &t))
		if (t.kind == EGRESS_TERM_CREDENTIAL)
			return t.text;
	return (struct slice){};
}
