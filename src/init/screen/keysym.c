/* SPDX-License-Identifier: Apache-2.0 */
#include "init/screen/keysym.h"

#include <assert.h>

#define UNICODE 0x01000000u /* plus the character, where X has no older number */
#define KEYSYM_RETURN 0xff0du
#define KEYSYM_TAB 0xff09u

static const struct {
	const char *name;
	uint32_t keysym;
} keysyms[] = {
#define KEYSYM(name, keysym) { name, keysym },
#include "init/screen/keysyms.def"
#undef KEYSYM
};

uint32_t keysym_of_character(uint32_t c)
{
	if (c == '\n' || c == '\r')
		return KEYSYM_RETURN;
	if (c == '\t')
		return KEYSYM_TAB;
	if (c < ' ' || (c >= 0x7f && c < 0xa0))
		return 0;
	return c <= 0xff ? c : UNICODE | c;
}

static uint32_t utf8_decode(const char *p, size_t len)
{
	uint32_t c = (uint8_t)*p;

	if (len > 1)
		c &= 0x7fu >> len;
	for (size_t i = 1; i < len; i++)
		c = c << 6 | ((uint8_t)p[i] & 0x3f);
	return c;
}

uint32_t utf8_next(const char **at)
{
	size_t len;
	uint32_t c;

	if (**at == '\r' && (*at)[1] == '\n')
		++*at;
	len = utf8_len(*at, strlen(*at) < 4 ? strlen(*at) : 4);
	assert(len);
	c = utf8_decode(*at, len);
	*at += len;
	return c;
}

static bool slice_eq_any_case(struct slice a, struct slice b)
{
	for (size_t i = 0; a.n == b.n && i < a.n; i++)
		if (ascii_to_lower(a.p[i]) != ascii_to_lower(b.p[i]))
			return false;
	return a.n == b.n;
}

/* "U20AC" and "0x20ac", as xdotool takes them. */
static uint32_t keysym_of_number(struct slice s)
{
	bool unicode = s.n >= 5 && s.n <= 7 && s.p[0] == 'U';
	uint32_t v = 0;

	if (!unicode && (s.n < 3 || s.n > 10 || s.p[0] != '0' || s.p[1] != 'x'))
		return 0;
	for (size_t i = unicode ? 1 : 2; i < s.n; i++) {
		char c = ascii_to_lower(s.p[i]);

		if (!ascii_is_digit(c) && (c < 'a' || c > 'f'))
			return 0;
		v = v << 4 | (uint32_t)(ascii_is_digit(c) ? c - '0' : c - 'a' + 10);
	}
	if (!unicode)
		return v < 0x20000000 ? v : 0; /* X has 29 bits */
	return v <= 0x10ffff ? keysym_of_character(v) : 0;
}

uint32_t keysym_of_name(struct slice name)
{
	size_t len = name.n ? utf8_len(name.p, name.n) : 0;
	uint32_t c = len && len == name.n ? utf8_decode(name.p, len) : 0;

	if (c)
		return keysym_of_character(c);
	for (size_t i = 0; i < ARRAY_SIZE(keysyms); i++)
		if (slice_eq(name, slice_of(keysyms[i].name)))
			return keysyms[i].keysym;
	for (size_t i = 0; i < ARRAY_SIZE(keysyms); i++)
		if (slice_eq_any_case(name, slice_of(keysyms[i].name)))
			return keysyms[i].keysym;
	return keysym_of_number(name);
}

static int key_combination_parse(struct slice s, struct key_combination *ret, struct cay_err *err)
{
	ret->n = 0;
	while (s.n) {
		/* a '+' that is first is the key itself */
		struct slice rest = { s.p + 1, s.n - 1 }, name = slice_cut(&rest, '+');
		uint32_t keysym;

		name = (struct slice){ s.p, name.n + 1 };
		keysym = keysym_of_name(name);
		if (!keysym)
			return cay_fail_field(err, CAY_E_INVALID, "keys", "no key is called '%.*s'",
					      (int)name.n, name.p);
		if (ret->n == KEY_COMBINATION_MAX)
			return cay_fail_field(err, CAY_E_INVALID, "keys",
					      "a combination has at most %d keys",
					      KEY_COMBINATION_MAX);
		ret->keysyms[ret->n++] = keysym;
		s = rest;
	}
	return 0;
}

int key_combinations_parse(const char *text,
			   struct key_combination ret[static KEY_COMBINATIONS_MAX], size_t *ret_n,
			   struct cay_err *err)
{
	struct slice s = slice_of(text);

	*ret_n = 0;
	while (s.n) {
		struct slice one = slice_cut(&s, ' ');
		int r;

		if (!one.n)
			continue;
		if (*ret_n == KEY_COMBINATIONS_MAX)
			return cay_fail_field(err, CAY_E_INVALID, "keys", "at most %d combinations",
					      KEY_COMBINATIONS_MAX);
		r = key_combination_parse(one, &ret[(*ret_n)++], err);
		if (r < 0)
			return r;
	}
	/* a space alone is the key */
	if (!*ret_n && text[0]) {
		ret[(*ret_n)++] = (struct key_combination){ { ' ' }, 1 };
	}
	return *ret_n ? 0
		      : cay_fail_field(err, CAY_E_INVALID, "keys", "the name of a key is required");
}
