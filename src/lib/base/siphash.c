/* SPDX-License-Identifier: Apache-2.0 */
#include "base/siphash.h"

#include "base/endian.h"

struct siphash_state {
	uint64_t a, b, c, d;
};

static uint64_t rotate(uint64_t v, unsigned bits)
{
	return v << bits | v >> (64 - bits);
}

static void siphash_round(struct siphash_state *s)
{
	s->a += s->b;
	s->c += s->d;
	s->b = rotate(s->b, 13) ^ s->a;
	s->d = rotate(s->d, 16) ^ s->c;
	s->a = rotate(s->a, 32);
	s->c += s->b;
	s->a += s->d;
	s->b = rotate(s->b, 17) ^ s->c;
	s->d = rotate(s->d, 21) ^ s->a;
	s->c = rotate(s->c, 32);
}

static void siphash_add(struct siphash_state *s, uint64_t word)
{
	s->d ^= word;
	siphash_round(s);
	siphash_round(s);
	s->a ^= word;
}

uint64_t siphash(const uint8_t key[static SIPHASH_KEY_LEN], const void *p, size_t n)
{
	const uint64_t k0 = le64_get(key), k1 = le64_get(key + 8);
	struct siphash_state s = { k0 ^ UINT64_C(0x736f6d6570736575),
				   k1 ^ UINT64_C(0x646f72616e646f6d),
				   k0 ^ UINT64_C(0x6c7967656e657261),
				   k1 ^ UINT64_C(0x7465646279746573) };
	const uint8_t *at = p;
	uint64_t last = (uint64_t)n << 56;

	for (size_t i = 0; i < n / 8; i++)
		siphash_add(&s, le64_get(at + 8 * i));
	for (size_t i = 0; i < n % 8; i++)
		last |= (uint64_t)at[n / 8 * 8 + i] << 8 * i;
	siphash_add(&s, last);
	s.c ^= 0xff;
	for (unsigned i = 0; i < 4; i++)
		siphash_round(&s);
	return s.a ^ s.b ^ s.c ^ s.d;
}
