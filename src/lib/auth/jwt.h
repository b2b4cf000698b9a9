/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_AUTH_JWT_H
#define CAY_AUTH_JWT_H
/*
 * jwt - who somebody else says the caller is (RFC 7519)
 *
 * Required: 'exp', 'sub', the tenant, 'iss' and 'aud' where the policy names
 * them.  A token that is for an audience is refused where no audience is ours
 * (RFC 7519 section 4.1.3): it was made for somebody else.  Times are whole
 * seconds; clocks may differ by JWT_SKEW_S.
 */
#include "auth/jws.h"

#define JWT_SKEW_S 60
#define JWT_SUBJECT_MAX 255
#define JWT_TENANT_MAX 255
#define JWT_SCOPE_MAX 1023
#define JWT_TENANT_CLAIM "tenant"

struct jwt_policy {
	const char *issuer;       /* NULL: whoever has the key */
	const char *audience;     /* NULL: tokens for nobody in particular */
	const char *tenant_claim; /* NULL: JWT_TENANT_CLAIM */
};

/* Texts are not empty (but scope) and without control characters. */
struct jwt {
	char subject[JWT_SUBJECT_MAX + 1];
	char tenant[JWT_TENANT_MAX + 1];
	char scope[JWT_SCOPE_MAX + 1]; /* words; "" when the token has none */
	uint64_t exp;                  /* unix seconds */
};

/* *ret is written only when all of it is good at now_s.  CAY_E_UNAUTHENTICATED
 * with the reason in the message, for the log. */
[[nodiscard]] int jwt_check(struct slice text, const struct jwks *keys,
			    const struct jwt_policy *policy, uint64_t now_s, struct jwt *ret,
			    struct cay_err *err);
#endif
