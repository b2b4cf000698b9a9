/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BASE_STR_H
#define CAY_BASE_STR_H
/* str - text without locale and without surprises.  A struct slice is a view: bytes owned
 * elsewhere, not ended by a 0. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"

struct slice {
	const char *p;
	size_t n;
};

#define SLICE(lit) ((struct slice){ "" lit, sizeof(lit) - 1 })

static inline struct slice slice_of(const char *s)
{
	return (struct slice){ s, strlen(s) };
}

static inline bool slice_eq(struct slice a, struct slice b)
{
	return a.n == b.n && (!a.n || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool str_eq(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

static inline bool ascii_is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static inline bool ascii_is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static inline char ascii_to_lower(char c)
{
	return ascii_is_upper(c) ? (char)(c - 'A' + 'a') : c;
}

static inline bool ascii_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool ascii_is_alnum(char c)
{
	return ascii_is_lower(c) || ascii_is_upper(c) || ascii_is_digit(c);
}

/* FNV-1a.  The seed keeps peers from choosing keys that collide; a hash as the seed of the
 * next call chains several parts. */
static inline uint64_t hash_bytes(uint64_t seed, const void *p, size_t n)
{
	const uint8_t *bytes = p;
	uint64_t h = UINT64_C(14695981039346656037) ^ seed;

	for (size_t i = 0; i < n; i++)
		h = (h ^ bytes[i]) * UINT64_C(1099511628211);
	return h;
}

/* White space off both ends (space and tab only). */
struct slice slice_trim(struct slice s);
/* Cut at the first c: returns the part before it, and *s becomes the part after it.  Without
 * c all of it is returned and *s becomes empty with p NULL. */
struct slice slice_cut(struct slice *s, char c);

/* Overwrite a text that holds a secret, in memory that is not const.  s may be NULL. */
void str_wipe(const char *s);

/* Decimal digits only: no sign, no space, no empty text, no leading zero but
 * "0" itself.  -EINVAL for anything else, -ERANGE outside [min, max]. */
[[nodiscard]] int str_parse_u64(struct slice s, uint64_t min, uint64_t max, uint64_t *ret);

/* Which of the choices (ended by NULL) s is; -EINVAL when none. */
[[nodiscard]] int str_find_choice(struct slice s, const char *const *choices, unsigned *ret);

/* Length of the UTF-8 sequence at p: 1..4, or 0 when it is not one (overlong,
 * surrogate, above U+10FFFF, cut off). */
size_t utf8_len(const char *p, size_t n);
bool utf8_is_valid(const char *p, size_t n);
/* The longest prefix that does not end inside a sequence which more bytes could
 * complete; a stream is cut here so that text stays text. */
size_t utf8_whole_prefix_len(const char *p, size_t n);

/* A DNS label: 1..63 of a-z 0-9 '-', no '-' at the ends. */
bool str_is_dns_label(struct slice s);
/* Kubernetes' grammar: label keys may have a DNS prefix ("a.b/c"). */
bool str_is_label_key(struct slice s);
bool str_is_label_value(struct slice s);
#endif
