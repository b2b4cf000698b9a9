/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_AUTH_JWT_H
#define CAY_AUTH_JWT_H
/* jwt - identity claims signed by a foreign issuer (RFC 7519)
 *
 * Required: 'exp', 'sub', the tenant, and 'iss' and 'aud' if the policy names them.  A 'group'
 * binds the token to one; a token with an empty one is refused.  A token with an audience is
 * refused if the policy has none (RFC 7519 section 4.1.3): it is meant for another service.  Times
 * are whole seconds; clocks may differ by JWT_SKEW_S. */
#include "auth/jws.h"

#define JWT_SKEW_S 60
#define JWT_SUBJECT_MAX 255
#define JWT_TENANT_MAX 255
#define JWT_SCOPE_MAX 1023
#define JWT_GROUP_MAX 63
#define JWT_TENANT_CLAIM "tenant"
#define JWT_GROUP_CLAIM "group"

struct jwt_policy {
	const char *issuer;       /* NULL: any issuer that has the key */
	const char *audience;     /* NULL: only tokens without an audience */
	const char *tenant_claim; /* NULL: JWT_TENANT_CLAIM */
};

/* Texts are not empty (but scope and group) and without control characters. */
struct jwt {
	char subject[JWT_SUBJECT_MAX + 1];
	char tenant[JWT_TENANT_MAX + 1];
	char scope[JWT_SCOPE_MAX + 1]; /* words; "" when the token has none */
	char group[JWT_GROUP_MAX + 1]; /* "" when the token has no such claim */
	uint64_t exp;                  /* unix seconds */
};

/* *ret is written only if everything is valid at now_s.  CAY_E_UNAUTHENTICATED with the
 * reason in the message, for the log. */
[[nodiscard]] int jwt_check(struct slice text, const struct jwks *keys,
			    const struct jwt_policy *policy, uint64_t now_s, struct jwt *ret,
			    struct cay_err *err);
#endif
