/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/export-token.h"
#include "auth/key.h"
#include "edge/edge.h"
#include "text/base64.h"
#include "unit.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#define NOW_MS UINT64_C(1000000)
#define A_TENANT { ID_TENANT, { 1 } }

static const uint8_t shared[32] = { 1, 2, 3 };
static struct edge edge;
static struct clk_test clk;
static struct actor who;
static struct credential by;
static struct cay_err err;

static int begin(void **)
{
	clk = clk_test_create(0, NOW_MS * NS_PER_MS);
	edge = (struct edge){ .clk = &clk.clk,
			      .control_state = control_state_new(),
			      .known_jwts = known_jwts_new() };
	return 0;
}

static int end(void **)
{
	control_state_free(edge.control_state);
	known_jwts_free(edge.known_jwts);
	jwks_free(edge.jwks);
	return 0;
}

static int ask(const char *credential, bool suspect)
{
	static struct http_head head;
	char value[1024] = "Bearer ";

	assert_true(strlen(credential) < sizeof(value) - strlen(value));
	memcpy(value + strlen(value), credential, strlen(credential));
	head = (struct http_head){ .n_headers = 1 };
	head.headers[0].name = SLICE("Authorization");
	head.headers[0].value = slice_of(value);
	err = (struct cay_err){};
	return authenticate_request(&edge, &head, suspect, &who, &by, &err);
}

static void sign(unsigned number, uint8_t secret, uint64_t until)
{
	struct push p = {
		.kind = PUSH_TOKEN_KEY, .value = (uint8_t)number, .number = 1, .time = until
	};

	memset(p.secret, secret, sizeof(p.secret));
	assert_int_equal(control_state_apply(edge.control_state, &p), 0);
}

static const char *token(unsigned number, uint8_t secret, uint64_t not_after)
{
	static char text[TOKEN_TEXT_LEN + 1];
	struct token t = { .scope = SCOPE_READ,
			   .tenant = A_TENANT,
			   .sandbox = { ID_SANDBOX, { 2 } },
			   .epoch = 1,
			   .not_after = not_after };
	struct token_key key = { .number = (uint8_t)number };

	memset(key.secret, secret, sizeof(key.secret));
	assert_int_equal(token_sign(&t, &key, text, &err), 0);
	return text;
}

static void a_token_is_good_with_either_key(void **)
{
	sign(7, 'a', NOW_MS + 5000);
	sign(8, 'b', PUSH_NEVER);
	assert_int_equal(ask(token(7, 'a', 1001), true), 0);
	assert_true(who.one_sandbox && who.scope == SCOPE_READ);
	assert_int_equal(by.kind, CREDENTIAL_TOKEN);
	assert_int_equal(by.until_ms, 1002 * 1000); /* behind its last second */
	assert_int_equal(by.signer_generation,
			 control_state_find_signer(edge.control_state, 1)->generation);
	assert_int_equal(ask(token(8, 'b', 1001), false), 0); /* cheap */
	assert_int_equal(by.signer_generation,
			 control_state_find_signer(edge.control_state, 0)->generation);
	/* another key, another number, another time */
	assert_true(ask(token(7, 'b', 1001), true) < 0);
	assert_true(ask(token(9, 'a', 1001), true) < 0);
	assert_true(ask(token(7, 'a', 999), true) < 0);
	assert_int_equal(err.code, CAY_E_UNAUTHENTICATED);
}

/* Who has an old key that got out could else sign with it for ever. */
static void a_key_of_tokens_is_over_by_time(void **)
{
	sign(7, 'a', NOW_MS + 5000);
	sign(8, 'b', PUSH_NEVER);
	clk_test_advance(&clk, 5 * NS_PER_S);
	assert_true(ask(token(7, 'a', 2000), true) < 0);
	assert_int_equal(ask(token(8, 'b', 2000), true), 0);
}

static void a_key_is_looked_at_whatever_happened_before(void **)
{
	static const char text[] = "cay_00000000_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
	struct push p = { .kind = PUSH_KEY,
			  .value = SCOPE_WRITE,
			  .time = NOW_MS + 1000,
			  .id = { ID_KEY, { 3 } },
			  .tenant = A_TENANT };

	key_hash(slice_of(text), p.secret);
	assert_true(ask(text, true) < 0);
	assert_int_equal(control_state_apply(edge.control_state, &p), 0);
	for (unsigned suspect = 0; suspect < 2; suspect++) {
		assert_int_equal(ask(text, suspect), 0);
		assert_true(who.scope == SCOPE_WRITE && id_eq(&who.key, &p.id));
		assert_int_equal(by.kind, CREDENTIAL_KEY);
		assert_memory_equal(by.hash, p.secret, sizeof(by.hash));
	}
	clk_test_advance(&clk, NS_PER_S);
	assert_true(ask(text, true) < 0);
}

static size_t append_base64url(char *text, size_t at, const void *bytes, size_t n)
{
	base64url_encode(bytes, n, text + at);
	at += BASE64URL_TEXT(n);
	text[at] = 0;
	return at;
}

/* HS256 with "kid" h2 and the secret above. */
static const char *signed_by_issuer(unsigned sub)
{
	static const char header[] = "{\"alg\":\"HS256\",\"kid\":\"h2\"}";
	static char text[900];
	char claims[300];
	uint8_t mac[32];
	unsigned n = sizeof(mac);
	size_t at = 0;

	assert_true(snprintf(claims, sizeof(claims),
			     "{\"iss\":\"i\",\"aud\":\"a\",\"sub\":\"s%u\",\"tenant\":\"tn%s\","
			     "\"scope\":\"read\",\"exp\":1100}",
			     sub, "000000000000000000000000") > 0);
	at = append_base64url(text, 0, header, strlen(header));
	text[at++] = '.';
	at = append_base64url(text, at, claims, strlen(claims));
	assert_non_null(
		HMAC(EVP_sha256(), shared, sizeof(shared), (const uint8_t *)text, at, mac, &n));
	text[at++] = '.';
	(void)append_base64url(text, at, mac, n);
	return text;
}

static void trust_issuer(void)
{
	char k[64], text[200];

	(void)append_base64url(k, 0, shared, sizeof(shared));
	assert_true(snprintf(text, sizeof(text),
			     "{\"keys\":[{\"kty\":\"oct\",\"alg\":\"HS256\",\"kid\":\"h2\",\"k\":"
			     "\"%s\"}]}",
			     k) > 0);
	assert_int_equal(jwks_parse(slice_of(text), &edge.jwks, &err), 0);
	memcpy(edge.settings.jwt_issuer, "i", 2);
	memcpy(edge.settings.jwt_audience, "a", 2);
}

/* The budget of all suspects is used up: what is new is not verified, what is known passes. */
static void a_known_jwt_costs_nothing(void **)
{
	char first[900];

	assert_true(ask("a.b.c", false) < 0); /* no issuer is trusted */
	assert_int_equal(err.code, CAY_E_UNAUTHENTICATED);
	trust_issuer();
	memcpy(first, signed_by_issuer(1), sizeof(first));
	assert_int_equal(ask(first, true), 0);
	assert_int_equal(by.kind, CREDENTIAL_JWT);
	assert_int_equal(by.until_ms, (1100 + 60) * 1000);
	signature_budget_spend(&edge.signature_budget, SIGNATURE_BURST_NS);
	assert_true(ask("a.b.c", true) < 0);
	assert_int_equal(err.code, CAY_E_RATE);
	assert_true(ask(signed_by_issuer(2), true) < 0);
	assert_int_equal(err.code, CAY_E_RATE);
	assert_int_equal(ask(first, true), 0);
	assert_true(who.scope == SCOPE_READ && who.tenant.noun == ID_TENANT);
	/* an address of its own */
	assert_int_equal(ask(signed_by_issuer(2), false), 0);
	/* and some time later */
	clk_test_advance(&clk, NS_PER_MS);
	assert_int_equal(ask(signed_by_issuer(3), true), 0);
	/* what is known is not known for longer than it is good */
	clk_test_advance(&clk, 160 * NS_PER_S);
	assert_true(ask(first, true) < 0);
	assert_int_equal(err.code, CAY_E_UNAUTHENTICATED);
}

/* A quarter of the time, with at most a tenth of a second at once. */
static void suspects_have_a_quarter_of_the_time(void **)
{
	struct signature_budget b = {};
	uint64_t now = NS_PER_S, spent = 0;

	for (; now < 11 * NS_PER_S; now += NS_PER_MS / 2)
		if (signature_budget_has_time(&b, now)) {
			signature_budget_spend(&b, NS_PER_MS);
			spent += NS_PER_MS;
		}
	assert_in_range(spent, 25 * NS_PER_S / 10, 27 * NS_PER_S / 10);
	now += NS_PER_S;
	for (spent = 0; signature_budget_has_time(&b, now); spent += NS_PER_MS)
		signature_budget_spend(&b, NS_PER_MS);
	assert_in_range(spent, SIGNATURE_BURST_NS, SIGNATURE_BURST_NS);
}

/* More than there is room for: the newest are known, and what is in the table is right. */
static void the_table_of_known_jwts_is_bounded(void **)
{
	struct known_jwt jwt = { .tenant = A_TENANT, .scope = SCOPE_READ }, got;
	unsigned found = 0;

	for (unsigned i = 1; i <= 3 * KNOWN_JWTS; i++) {
		uint8_t hash[32];

		key_hash((struct slice){ (const char *)&i, sizeof(i) }, hash);
		jwt.until_ms = i;
		known_jwt_add(edge.known_jwts, hash, &jwt);
		assert_true(known_jwt_find(edge.known_jwts, hash, 0, &got) && got.until_ms == i);
		assert_false(known_jwt_find(edge.known_jwts, hash, i, &got));
	}
	for (unsigned i = 1; i <= 3 * KNOWN_JWTS; i++) {
		uint8_t hash[32];

		key_hash((struct slice){ (const char *)&i, sizeof(i) }, hash);
		found += known_jwt_find(edge.known_jwts, hash, 0, &got);
	}
	assert_in_range(found, KNOWN_JWTS / 2, KNOWN_JWTS);
}

#define BOX "sb000000000000000000000001"

static int get(const char *method, const char *target, const char *credential)
{
	static struct http_head head;

	head = (struct http_head){ .method = slice_of(method),
				   .target = slice_of(target),
				   .n_headers = credential ? 1 : 0 };
	head.headers[0].name = SLICE("Authorization");
	head.headers[0].value = slice_of(credential ? credential : "");
	err = (struct cay_err){};
	return authenticate_request(&edge, &head, true, &who, &by, &err);
}

static void an_export_is_one_target(void **)
{
	static const uint8_t random[EXPORT_TOKEN_RANDOM] = { 9 };
	struct push box = { .kind = PUSH_SANDBOX, .value = SB_RUNNING, .tenant = A_TENANT };
	struct push one = { .kind = PUSH_EXPORTS, .number = 1 };
	char token[TOKEN_TEXT_LEN + 1], url[300], other[300];

	export_token_format(random, token);
	assert_int_equal(strlen(token), TOKEN_TEXT_LEN);
	assert_int_equal(id_parse(ID_SANDBOX, SLICE(BOX), &box.id), 0);
	one.id = box.id;
	assert_true(snprintf(url, sizeof(url), "/v1/sandboxes/%s/files/content?path=x&token=%s",
			     BOX, token) > 0);
	export_tag(slice_of(url), one.secret);
	assert_int_equal(get("GET", url, NULL), -EACCES);
	assert_int_equal(control_state_apply(edge.control_state, &box), 0);
	assert_int_equal(get("GET", url, NULL), -EACCES);
	assert_int_equal(err.code, CAY_E_FORBIDDEN);
	assert_int_equal(control_state_apply(edge.control_state, &one), 0);
	assert_int_equal(get("GET", url, NULL), 0);
	assert_true(who.one_sandbox && who.scope == SCOPE_READ && id_eq(&who.sandbox, &box.id) &&
		    id_eq(&who.tenant, &box.tenant));
	assert_int_equal(by.kind, CREDENTIAL_EXPORT);
	/* another path, another sandbox, another method, beside a key, as one */
	for (size_t at = 0; at < strlen(url); at++) {
		memcpy(other, url, sizeof(url));
		other[at] ^= 1;
		assert_true(get("GET", other, NULL) < 0);
	}
	assert_true(get("PUT", url, NULL) < 0);
	assert_true(get("GET", url, "Bearer x") < 0);
	assert_true(ask(token, false) < 0);
	/* and nothing that is too short for one */
	assert_true(get("GET", url + strlen(url) - TOKEN_TEXT_LEN - 7, NULL) < 0);
	assert_true(get("GET", "", NULL) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_token_is_good_with_either_key, begin, end),
		cmocka_unit_test_setup_teardown(a_key_of_tokens_is_over_by_time, begin, end),
		cmocka_unit_test_setup_teardown(a_key_is_looked_at_whatever_happened_before, begin,
						end),
		cmocka_unit_test_setup_teardown(a_known_jwt_costs_nothing, begin, end),
		cmocka_unit_test(suspects_have_a_quarter_of_the_time),
		cmocka_unit_test_setup_teardown(an_export_is_one_target, begin, end),
		cmocka_unit_test_setup_teardown(the_table_of_known_jwts_is_bounded, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
