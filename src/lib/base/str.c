/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

void str_wipe(const char *s)
{
	if (s)
		explicit_bzero((void *)(uintptr_t)s, strlen(s));
}

struct slice slice_trim(struct slice s)
{
	while (s.n && (s.p[0] == ' ' || s.p[0] == '\t')) {
		s.p++;
		s.n--;
	}
	while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

struct slice slice_cut(struct slice *s, char c)
{
	const char *at = s->n ? memchr(s->p, c, s->n) : NULL;
	struct slice head = *s;

	if (!at) {
		*s = (struct slice){};
		return head;
	}
	head.n = (size_t)(at - s->p);
	s->p = at + 1;
	s->n -= head.n + 1;
	return head;
}

int str_parse_u64(struct slice s, uint64_t min, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (!s.n || (s.n > 1 && s.p[0] == '0'))
		return -EINVAL;
	for (size_t i = 0; i < s.n; i++) {
		uint64_t digit = (uint64_t)(s.p[i] - '0');

		if (!ascii_is_digit(s.p[i]))
			return -EINVAL;
		if (v > (UINT64_MAX - digit) / 10)
			return -ERANGE;
		v = v * 10 + digit;
	}
	if (v < min || v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

int str_find_choice(struct slice s, const char *const *choices, unsigned *ret)
{
	for (unsigned i = 0; choices[i]; i++)
		if (slice_eq(s, slice_of(choices[i]))) {
			*ret = i;
			return 0;
		}
	return -EINVAL;
}

/* Unicode 15, table 3-7: how many bytes follow a first byte, and which values
 * the second may have.  0 for a byte that begins nothing. */
static size_t utf8_sequence_len(unsigned char c, unsigned char *lo, unsigned char *hi)
{
	*lo = 0x80;
	*hi = 0xBF;
	if (c < 0x80)
		return 1;
	if (c >= 0xC2 && c <= 0xDF)
		return 2;
	if (c >= 0xE0 && c <= 0xEF) {
		*lo = c == 0xE0 ? 0xA0 : 0x80;
		*hi = c == 0xED ? 0x9F : 0xBF;
		return 3;
	}
	if (c >= 0xF0 && c <= 0xF4) {
		*lo = c == 0xF0 ? 0x90 : 0x80;
		*hi = c == 0xF4 ? 0x8F : 0xBF;
		return 4;
	}
	return 0;
}

/* How many of the n bytes at p fit the sequence that begins there; *need is its full length. */
static size_t utf8_matching_len(const char *p, size_t n, size_t *need)
{
	unsigned char lo, hi;
	size_t i;

	*need = n ? utf8_sequence_len((unsigned char)p[0], &lo, &hi) : 0;
	if (!*need)
		return 0;
	for (i = 1; i < *need && i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c < lo || c > hi)
			break;
		lo = 0x80;
		hi = 0xBF;
	}
	return i;
}

size_t utf8_len(const char *p, size_t n)
{
	size_t need, fit = utf8_matching_len(p, n, &need);

	return fit == need ? need : 0;
}

bool utf8_is_valid(const char *p, size_t n)
{
	while (n) {
		size_t len = (unsigned char)*p < 0x80 ? 1 : utf8_len(p, n);

		if (!len)
			return false;
		p += len;
		n -= len;
	}
	return true;
}

size_t utf8_whole_prefix_len(const char *p, size_t n)
{
	for (size_t back = 1; back <= 3 && back <= n; back++) {
		size_t need, fit = utf8_matching_len(p + n - back, back, &need);

		if (need > 1)
			return fit == back && back < need ? n - back : n;
	}
	return n;
}

bool str_is_dns_label(struct slice s)
{
	if (!s.n || s.n > 63 || s.p[0] == '-' || s.p[s.n - 1] == '-')
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!ascii_is_lower(s.p[i]) && !ascii_is_digit(s.p[i]) && s.p[i] != '-')
			return false;
	return true;
}

static bool str_is_dns_name(struct slice s)
{
	if (s.n > 253)
		return false;
	do {
		if (!str_is_dns_label(slice_cut(&s, '.')))
			return false;
	} while (s.p);
	return true;
}

/* 1..63 of letters, digits, '-', '_', '.', alphanumeric at both ends. */
static bool str_is_label_word(struct slice s)
{
	if (!s.n || s.n > 63 || !ascii_is_alnum(s.p[0]) || !ascii_is_alnum(s.p[s.n - 1]))
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!ascii_is_alnum(s.p[i]) && s.p[i] != '-' && s.p[i] != '_' && s.p[i] != '.')
			return false;
	return true;
}

bool str_is_label_key(struct slice s)
{
	struct slice prefix = slice_cut(&s, '/');

	return s.p ? str_is_dns_name(prefix) && str_is_label_word(s) : str_is_label_word(prefix);
}

bool str_is_label_value(struct slice s)
{
	return !s.n || str_is_label_word(s);
}
