/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/jwt.h"

static const struct json_limits limits = { .bytes = JWS_PAYLOAD_MAX, .depth = 8, .values = 512 };

/* The last second of the year 9999: up to it, sums stay far from overflow. */
static constexpr json_int_t TIME_MAX = 253402300799;

static int jwt_refuse(struct cay_err *err, const char *claim, const char *why)
{
	return cay_fail(err, CAY_E_UNAUTHENTICATED, "the token's '%s' %s", claim, why);
}

static bool jwt_text_is_printable(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7F)
			return false;
	return true;
}

/* Text into a buffer of size; absent is an empty one. */
static int jwt_read_text_claim(const json_t *claims, const char *name, char *ret, size_t size,
			       struct cay_err *err)
{
	const json_t *v = json_object_get(claims, name);
	const char *text = json_string_value(v);

	if (!v)
		return 0;
	if (!text)
		return jwt_refuse(err, name, "is not text");
	if (strlen(text) >= size || !jwt_text_is_printable(text))
		return jwt_refuse(err, name, "is too long or has control characters");
	memcpy(ret, text, strlen(text) + 1);
	return 0;
}

static int jwt_read_required_claim(const json_t *claims, const char *name, char *ret, size_t size,
				   struct cay_err *err)
{
	int r = jwt_read_text_claim(claims, name, ret, size, err);

	return r == 0 && !ret[0] ? jwt_refuse(err, name, "is missing or empty") : r;
}

/* A time, if present, is a whole number of seconds up to TIME_MAX. */
static int jwt_read_time_claim(const json_t *claims, const char *name, bool *ret_there,
			       uint64_t *ret, struct cay_err *err)
{
	const json_t *v = json_object_get(claims, name);
	json_int_t t = json_integer_value(v);

	*ret_there = v != NULL;
	if (!v)
		return 0;
	if (!json_is_integer(v) || t < 0 || t > TIME_MAX)
		return jwt_refuse(err, name, "is not a unix time in whole seconds");
	*ret = (uint64_t)t;
	return 0;
}

static int jwt_check_times(const json_t *claims, uint64_t now_s, uint64_t *ret_exp,
			   struct cay_err *err)
{
	uint64_t exp = 0, nbf = 0, iat = 0;
	bool has_exp = false, has_nbf = false, has_iat = false;
	int r = jwt_read_time_claim(claims, "exp", &has_exp, &exp, err);

	if (r == 0)
		r = jwt_read_time_claim(claims, "nbf", &has_nbf, &nbf, err);
	if (r == 0)
		r = jwt_read_time_claim(claims, "iat", &has_iat, &iat, err);
	if (r < 0)
		return r;
	if (!has_exp)
		return jwt_refuse(err, "exp", "is missing: the token would never expire");
	if (now_s >= exp + JWT_SKEW_S)
		return jwt_refuse(err, "exp", "is over");
	if (has_nbf && nbf > now_s + JWT_SKEW_S)
		return jwt_refuse(err, "nbf", "is not yet");
	*ret_exp = exp;
	return 0;
}

static int jwt_check_audience(const json_t *claims, const char *ours, struct cay_err *err)
{
	const json_t *aud = json_object_get(claims, "aud");

	if (!ours)
		return aud ? jwt_refuse(err, "aud", "is set, and this node has no audience") : 0;
	if (!aud)
		return jwt_refuse(err, "aud", "is missing");
	if (json_text_eq(aud, ours))
		return 0;
	for (size_t i = 0; i < json_array_size(aud); i++)
		if (json_text_eq(json_array_get(aud, i), ours))
			return 0;
	return jwt_refuse(err, "aud", "is not us");
}

static int jwt_check_issuer(const json_t *claims, const char *ours, struct cay_err *err)
{
	const json_t *iss = json_object_get(claims, "iss");

	if (!ours)
		return 0;
	if (!iss)
		return jwt_refuse(err, "iss", "is missing");
	return json_text_eq(iss, ours) ? 0 : jwt_refuse(err, "iss", "is not the issuer we trust");
}

int jwt_check(struct slice text, const struct jwks *keys, const struct jwt_policy *policy,
	      uint64_t now_s, struct jwt *ret, struct cay_err *err)
{
	const char *tenant = policy->tenant_claim ? policy->tenant_claim : JWT_TENANT_CLAIM;
	uint8_t payload[JWS_PAYLOAD_MAX];
	auto_json claims = NULL;
	struct jwt jwt = {};
	size_t n = 0;
	int r = jws_verify(text, keys, payload, &n, err);

	if (r == 0)
		r = jws_parse_object(
			payload, n, &limits, &claims,
			"the claims are no JSON object, have a name twice, or are too many", err);
	if (r == 0)
		r = jwt_check_times(claims, now_s, &jwt.exp, err);
	if (r == 0)
		r = jwt_check_issuer(claims, policy->issuer, err);
	if (r == 0)
		r = jwt_check_audience(claims, policy->audience, err);
	if (r == 0)
		r = jwt_read_required_claim(claims, "sub", jwt.subject, sizeof(jwt.subject), err);
	if (r == 0)
		r = jwt_read_required_claim(claims, tenant, jwt.tenant, sizeof(jwt.tenant), err);
	if (r == 0)
		r = jwt_read_text_claim(claims, "scope", jwt.scope, sizeof(jwt.scope), err);
	if (r == 0 && json_object_get(claims, JWT_GROUP_CLAIM))
		r = jwt_read_required_claim(claims, JWT_GROUP_CLAIM, jwt.group, sizeof(jwt.group),
					    err);
	if (r == 0)
		*ret = jwt;
	return r;
}
