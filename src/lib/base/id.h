/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BASE_ID_H
#define CAY_BASE_ID_H
/* id - names that Cay gives: two letters for the noun, then 24 of Crockford's base32 in lower case
 *
 *	sb0006000gk3v9b1qe8xw2ms5tzd
 *	^^ noun    ^^ from here 88 random bits
 *	  ^^^^ ^^^^ cell and birth node, 16 bits each: a routing hint, no more
 *
 * Letters and digits only, so that an id is a DNS label and fits a wildcard certificate.  One id
 * has one spelling: no upper case, no aliases.  Users treat it as opaque; our programs send it as
 * these 16 bytes. */
#include <stdint.h>

#include "base/str.h"

#define ID_TEXT_LEN 26

enum id_noun {
	ID_NONE,
#define CAY_NOUN(sym, text) ID_##sym,
#include "base/nouns.def"
#undef CAY_NOUN
	ID_NUM_NOUNS
};

struct id {
	uint8_t noun;
	uint8_t bits[15]; /* cell, node, random; big-endian */
};
static_assert(sizeof(struct id) == 16);

/* A new id; -errno when the kernel has no randomness to give. */
[[nodiscard]] int id_generate(enum id_noun noun, uint16_t cell, uint16_t node, struct id *ret);
/* -EINVAL unless s is exactly the spelling of an id of this noun (ID_NONE: of
 * any noun). */
[[nodiscard]] int id_parse(enum id_noun noun, struct slice s, struct id *ret);
void id_format(const struct id *id, char ret[static ID_TEXT_LEN + 1]);
/* False for bytes that id_generate() cannot return. */
bool id_is_valid(const struct id *id, enum id_noun noun);
bool id_eq(const struct id *a, const struct id *b);
uint16_t id_cell(const struct id *id);
uint16_t id_node(const struct id *id);
const char *id_noun_prefix(enum id_noun noun); /* "sb"; "" for ID_NONE */
#endif
