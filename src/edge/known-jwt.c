/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/known-jwt.h"

#define WAYS 8 /* slots a JWT may be in */

struct known_jwt_slot {
	uint8_t hash[32];
	struct known_jwt jwt; /* until_ms 0: free */
};

struct known_jwts {
	struct known_jwt_slot slots[KNOWN_JWTS];
};

struct known_jwts *known_jwts_new(void)
{
	return calloc(1, sizeof(struct known_jwts));
}

void known_jwts_free(struct known_jwts *all)
{
	free(all);
}

static size_t known_jwt_slot_index(const uint8_t hash[static 32], size_t way)
{
	return ((size_t)(hash[0] | hash[1] << 8) + way) % KNOWN_JWTS;
}

bool known_jwt_find(const struct known_jwts *all, const uint8_t hash[static 32], uint64_t now_ms,
		    struct known_jwt *ret)
{
	for (size_t i = 0; i < WAYS; i++) {
		const struct known_jwt_slot *k = &all->slots[known_jwt_slot_index(hash, i)];

		if (memcmp(k->hash, hash, sizeof(k->hash)) != 0 || now_ms >= k->jwt.until_ms)
			continue;
		*ret = k->jwt;
		return true;
	}
	return false;
}

void known_jwt_add(struct known_jwts *all, const uint8_t hash[static 32], const struct known_jwt *j)
{
	struct known_jwt_slot *to = &all->slots[known_jwt_slot_index(hash, 0)];

	for (size_t i = 1; i < WAYS; i++) {
		struct known_jwt_slot *k = &all->slots[known_jwt_slot_index(hash, i)];

		if (k->jwt.until_ms < to->jwt.until_ms)
			to = k;
	}
	memcpy(to->hash, hash, sizeof(to->hash));
	to->jwt = *j;
}
