/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EDGE_KNOWN_JWT_H
#define CAY_EDGE_KNOWN_JWT_H
/*
 * known-jwt - JWTs that were verified before, by their hash
 *
 * A client sends the same JWT for minutes: it is verified once, and then costs one hash like a key.
 * So a flood of invalid JWTs does not delay a valid one.  A fixed table of KNOWN_JWTS;
 * only valid JWTs enter it, and the one that ends first makes room.  A JWT cannot be revoked: it
 * is good until its time has passed, and control still decides whether its tenant exists.
 */
#include "ops/actor.h"

#define KNOWN_JWTS 4096

struct known_jwts;

struct known_jwt {
	struct id tenant;
	enum op_scope scope;
	uint64_t until_ms;               /* unix */
	char group[ACTOR_GROUP_MAX + 1]; /* "": bound to none */
};

struct known_jwts *known_jwts_new(void);
void known_jwts_free(struct known_jwts *all);
/* False: not known, or its time has passed at now_ms. */
bool known_jwt_find(const struct known_jwts *all, const uint8_t hash[static 32], uint64_t now_ms,
		    struct known_jwt *ret);
void known_jwt_add(struct known_jwts *all, const uint8_t hash[static 32],
		   const struct known_jwt *j);
#endif
