/* SPDX-License-Identifier: Apache-2.0 */
#include "opensandbox/translate.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "text/percent.h"
#include "text/time.h"

#define TIME_MAX 40
#define MINUTE_NS (60 * (uint64_t)1000000000)

static int translate_two_digits(const char *p, unsigned most, unsigned *ret)
{
	if (!ascii_is_digit(p[0]) || !ascii_is_digit(p[1]))
		return -EINVAL;
	*ret = (unsigned)(p[0] - '0') * 10 + (unsigned)(p[1] - '0');
	return *ret <= most ? 0 : -EINVAL;
}

/* "+hh:mm" at the end: its length, and the minutes it is ahead of UTC. */
static int translate_offset(struct slice s, size_t *ret_n, int64_t *ret_minutes)
{
	const char *p = s.p + s.n;
	unsigned h, m;

	*ret_n = 0;
	*ret_minutes = 0;
	if (!s.n || p[-1] == 'Z')
		return 0;
	if (s.n < 7 || (p[-6] != '+' && p[-6] != '-') || p[-3] != ':' ||
	    translate_two_digits(p - 5, 23, &h) < 0 || translate_two_digits(p - 2, 59, &m) < 0)
		return -EINVAL;
	*ret_n = 6;
	*ret_minutes = (int64_t)(h * 60 + m) * (p[-6] == '+' ? 1 : -1);
	return 0;
}

int translate_time(struct slice s, uint64_t *ret_wall_ns)
{
	char text[TIME_MAX + 2];
	int64_t minutes;
	uint64_t ns;
	size_t n;

	if (s.n > TIME_MAX || translate_offset(s, &n, &minutes) < 0)
		return -EINVAL;
	memcpy(text, s.p, s.n);
	if (n)
		text[s.n - n] = 'Z';
	if (time_parse((struct slice){ text, n ? s.n - n + 1 : s.n }, &ns) < 0)
		return -EINVAL;
	if (minutes > 0 ? ns < (uint64_t)minutes * MINUTE_NS
			: ns > UINT64_MAX - (uint64_t)-minutes * MINUTE_NS)
		return -EINVAL;
	*ret_wall_ns = minutes > 0 ? ns - (uint64_t)minutes * MINUTE_NS
				   : ns + (uint64_t)-minutes * MINUTE_NS;
	return 0;
}

int translate_query(const char *in, size_t n, char *out)
{
	struct slice left = { in, n };
	size_t len = 0, part;

	while (left.p) {
		struct slice s = slice_cut(&left, '+');

		if (percent_decode(s.p, s.n, out + len, &part) < 0)
			return -EINVAL;
		len += part;
		if (left.p)
			out[len++] = ' ';
	}
	out[len] = 0;
	return 0;
}

static int translate_pair(struct slice pair, struct buf *selector)
{
	struct slice value = pair, key = slice_cut(&value, '=');
	char text[2 * 320 + 2];
	int r;

	if (!value.p || key.n > 320 || value.n > 320 || translate_query(key.p, key.n, text) < 0 ||
	    !str_is_label_key(slice_of(text)))
		return -EINVAL;
	r = buf_printf(selector, "%s%s=", selector->len ? "," : "", text);
	if (r >= 0 &&
	    (translate_query(value.p, value.n, text) < 0 || !str_is_label_value(slice_of(text))))
		return -EINVAL;
	return r < 0 ? r : buf_puts(selector, text);
}

int translate_filter(const char *filter, struct buf *selector, struct cay_err *err)
{
	struct slice left = slice_of(filter);

	while (left.n) {
		struct slice pair = slice_cut(&left, '&');
		int r = pair.n ? translate_pair(pair, selector) : 0;

		if (r == -EINVAL)
			return cay_fail(err, CAY_E_INVALID, "metadata is not NAME=VALUE of labels");
		if (r < 0)
			return cay_fail(err, CAY_E_TOO_LARGE, "metadata is too long");
	}
	return 0;
}

int translate_mode(int64_t digits, char ret[static TRANSLATE_MODE_TEXT])
{
	if (digits < 0 || digits > 7777)
		return -EINVAL;
	for (unsigned i = 4; i-- > 0; digits /= 10) {
		if (digits % 10 > 7)
			return -EINVAL;
		ret[i] = (char)('0' + digits % 10);
	}
	ret[4] = 0;
	return 0;
}

/* A set after '[': its end, and whether c is in it; NULL: it has none. */
static const char *translate_set(const char *p, char c, bool *ret)
{
	bool negated = *p == '^' || *p == '!', in = false;

	p += negated;
	for (bool first = true; *p && (first || *p != ']'); first = false) {
		char from = *p == '\\' && p[1] ? *++p : *p, to = from;

		p++;
		if (*p == '-' && p[1] && p[1] != ']') {
			to = p[1] == '\\' && p[2] ? p[2] : p[1];
			p += p[1] == '\\' && p[2] ? 3 : 2;
		}
		in |= c >= from && c <= to;
	}
	*ret = in != negated;
	return *p ? p + 1 : NULL;
}

/* One element of the pattern that is no star: where the next begins; NULL: it is not for c. */
static const char *translate_one(const char *p, char c)
{
	bool in = false;

	if (*p == '?')
		return p + 1;
	if (*p == '[') {
		const char *end = translate_set(p + 1, c, &in);

		return in ? end : NULL;
	}
	if (*p == '\\' && p[1])
		p++;
	return *p == c ? p + 1 : NULL;
}

bool translate_name_matches(const char *pattern, const char *name)
{
	const char *star = NULL, *from = NULL;

	while (*name) {
		const char *next =
			*pattern && *pattern != '*' ? translate_one(pattern, *name) : NULL;

		if (*pattern == '*') {
			star = ++pattern;
			from = name;
		} else if (next) {
			pattern = next;
			name++;
		} else if (star) { /* the last star takes one more */
			pattern = star;
			name = ++from;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}
