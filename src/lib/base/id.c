/* SPDX-License-Identifier: Apache-2.0 */
#include "base/id.h"

#include <sys/random.h>

static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
static const char nouns[][3] = {
	[ID_NONE] = "",
#define CAY_NOUN(sym, text) [ID_##sym] = text,
#include "base/nouns.def"
#undef CAY_NOUN
};
static_assert(ARRAY_SIZE(nouns) == ID_NUM_NOUNS);

int id_generate(enum id_noun noun, uint16_t cell, uint16_t node, struct id *ret)
{
	struct id id = { .noun = (uint8_t)noun };
	ssize_t n = getrandom(id.bits + 4, sizeof(id.bits) - 4, 0);

	if (n != (ssize_t)sizeof(id.bits) - 4)
		return n < 0 ? -errno : -EIO;
	id.bits[0] = (uint8_t)(cell >> 8);
	id.bits[1] = (uint8_t)cell;
	id.bits[2] = (uint8_t)(node >> 8);
	id.bits[3] = (uint8_t)node;
	*ret = id;
	return 0;
}

static int id_digit_value(char c)
{
	const char *at = c ? strchr(alphabet, c) : NULL;

	return at ? (int)(at - alphabet) : -1;
}

static enum id_noun id_noun_find(const char *two)
{
	for (unsigned i = ID_NONE + 1; i < ID_NUM_NOUNS; i++)
		if (memcmp(nouns[i], two, 2) == 0)
			return (enum id_noun)i;
	return ID_NONE;
}

int id_parse(enum id_noun noun, struct slice s, struct id *ret)
{
	struct id id = {};
	uint64_t acc = 0;
	unsigned bits = 0;
	size_t at = 0;

	if (s.n != ID_TEXT_LEN)
		return -EINVAL;
	id.noun = (uint8_t)id_noun_find(s.p);
	if (id.noun == ID_NONE || (noun != ID_NONE && id.noun != noun))
		return -EINVAL;
	for (size_t i = 2; i < ID_TEXT_LEN; i++) {
		int v = id_digit_value(s.p[i]);

		if (v < 0)
			return -EINVAL;
		acc = acc << 5 | (unsigned)v;
		bits += 5;
		if (bits >= 8) {
			bits -= 8;
			id.bits[at++] = (uint8_t)(acc >> bits);
		}
	}
	*ret = id;
	return 0;
}

void id_format(const struct id *id, char ret[static ID_TEXT_LEN + 1])
{
	uint64_t acc = 0;
	unsigned bits = 0;
	size_t at = 2;

	memcpy(ret, id_noun_prefix((enum id_noun)id->noun), 2);
	for (size_t i = 0; i < sizeof(id->bits); i++) {
		acc = acc << 8 | id->bits[i];
		for (bits += 8; bits >= 5;) {
			bits -= 5;
			ret[at++] = alphabet[acc >> bits & 31];
		}
	}
	ret[at] = 0;
}

bool id_is_valid(const struct id *id, enum id_noun noun)
{
	if (noun != ID_NONE)
		return id->noun == noun;
	return id->noun > ID_NONE && id->noun < ID_NUM_NOUNS;
}

bool id_eq(const struct id *a, const struct id *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

uint16_t id_cell(const struct id *id)
{
	return (uint16_t)(id->bits[0] << 8 | id->bits[1]);
}

uint16_t id_node(const struct id *id)
{
	return (uint16_t)(id->bits[2] << 8 | id->bits[3]);
}

const char *id_noun_prefix(enum id_noun noun)
{
	unsigned i = (unsigned)noun;

	return nouns[i < ID_NUM_NOUNS ? i : ID_NONE];
}
