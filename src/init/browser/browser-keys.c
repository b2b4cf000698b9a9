/* SPDX-License-Identifier: Apache-2.0 */
/* Names of keys, as clients write them and as DevTools wants them */
#include "init/browser/browser.h"

static const struct {
	const char *called, *name, *code;
	unsigned number;
	const char *text;
} named_keys[] = {
#define BROWSER_KEY(...) { __VA_ARGS__ },
#include "init/browser/browser-keys.def"
#undef BROWSER_KEY
};

static const struct {
	const char *called;
	unsigned modifier;
} modifier_names[] = {
	{ "ctrl", MODIFIER_CTRL },  { "control", MODIFIER_CTRL }, { "alt", MODIFIER_ALT },
	{ "option", MODIFIER_ALT }, { "shift", MODIFIER_SHIFT },  { "meta", MODIFIER_META },
	{ "super", MODIFIER_META }, { "cmd", MODIFIER_META },     { "command", MODIFIER_META },
	{ "win", MODIFIER_META },
};

static bool slice_is_called(struct slice s, const char *lower)
{
	size_t n = strlen(lower);

	if (s.n != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (ascii_to_lower(s.p[i]) != lower[i])
			return false;
	return true;
}

static unsigned modifier_called(struct slice s)
{
	for (size_t i = 0; i < ARRAY_SIZE(modifier_names); i++)
		if (slice_is_called(s, modifier_names[i].called))
			return modifier_names[i].modifier;
	return 0;
}

/* The key of one character: letters and digits have a place on the keyboard. */
static void key_of_character(struct slice c, struct browser_key *k)
{
	char one = c.p[0];
	bool letter = ascii_is_alnum(one) && !ascii_is_digit(one);

	if (letter && k->modifiers & MODIFIER_SHIFT && ascii_is_lower(one))
		one = (char)(one - 'a' + 'A');
	memcpy(k->name_room, c.p, c.n);
	k->name_room[0] = one;
	memcpy(k->text_room, k->name_room, sizeof(k->text_room));
	k->name = k->name_room;
	k->text = k->text_room;
	k->code = "";
	if (letter || ascii_is_digit(one)) {
		char upper = ascii_is_lower(one) ? (char)(one - 'a' + 'A') : one;

		memcpy(k->code_room, letter ? "KeyX" : "DigitX", letter ? 5 : 7);
		k->code_room[letter ? 3 : 5] = upper;
		k->code = k->code_room;
		k->number = (unsigned char)upper;
	}
}

static int key_called(struct slice s, struct browser_key *k, struct cay_err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(named_keys); i++) {
		if (!slice_is_called(s, named_keys[i].called))
			continue;
		k->name = named_keys[i].name;
		k->code = named_keys[i].code;
		k->number = named_keys[i].number;
		k->text = named_keys[i].text;
		return 0;
	}
	if (!s.n || utf8_len(s.p, s.n) != s.n || (unsigned char)s.p[0] < ' ')
		return cay_fail_field(err, CAY_E_INVALID, "keys",
				      "'%.*s' is not a key; write ctrl+a, Enter, PageDown or one "
				      "character",
				      (int)utf8_whole_prefix_len(s.p, s.n < 32 ? s.n : 32), s.p);
	key_of_character(s, k);
	return 0;
}

static int key_parse(struct slice s, struct browser_key *k, struct cay_err *err)
{
	*k = (struct browser_key){};
	while (s.n) {
		struct slice rest = s, word;
		unsigned modifier;

		/* a plus that begins is the key */
		word = s.p[0] == '+' ? s : slice_cut(&rest, '+');
		modifier = modifier_called(word);
		if (!modifier || k->name)
			return key_called(s, k, err);
		k->modifiers |= modifier;
		s = rest.p && rest.p > s.p ? rest : (struct slice){ s.p, 0 };
	}
	return 0;
}

int browser_keys_parse(const char *text, struct browser_key *ret, size_t *n, struct cay_err *err)
{
	struct slice left = slice_of(text);

	*n = 0;
	while (left.n) {
		struct slice word = slice_cut(&left, ' ');
		int r;

		if (!word.n)
			continue;
		if (*n == BROWSER_KEYS_MAX)
			return cay_fail_field(err, CAY_E_INVALID, "keys",
					      "at most %d combinations at once", BROWSER_KEYS_MAX);
		r = key_parse(word, &ret[*n], err);
		if (r < 0)
			return r;
		(*n)++;
	}
	return *n ? 0 : cay_fail_field(err, CAY_E_INVALID, "keys", "names no key");
}
