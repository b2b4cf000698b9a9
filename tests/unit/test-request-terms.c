/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <time.h>

#include "egress/policy.h"
#include "unit.h"

#ifdef CAY_SANITIZED
#define ROUNDS 2000
#else
#define ROUNDS 20000
#endif

static void paths(void **)
{
	static const struct {
		const char *target, *path; /* NULL: unclear */
	} cases[] = {
		{ "/", "/" },
		{ "/v1/status", "/v1/status" },
		{ "/v1/?a=/../b", "/v1/" },
		{ "/a%20b/%C3%BC", "/a b/\xc3\xbc" },
		{ "/%76%31/x", "/v1/x" },
		{ "/a..b/...", "/a..b/..." },
		{ "/a;b=c/d", "/a;b=c/d" },
		{ "", NULL },
		{ "*", NULL },
		{ "v1", NULL },
		{ "http://a.example/", NULL },
		{ "//", NULL },
		{ "//a", NULL },
		{ "/a//b", NULL },
		{ "/v1/../admin", NULL },
		{ "/v1/..", NULL },
		{ "/./a", NULL },
		{ "/v1/%2e%2e/admin", NULL },
		{ "/v1/%2E./admin", NULL },
		{ "/v1/..;/admin", NULL },
		{ "/v1/..;a=b", NULL },
		{ "/;/a", NULL },
		{ "/v1%2fadmin", NULL },
		{ "/v1\\admin", NULL },
		{ "/v1%5cadmin", NULL },
		{ "/v1/%252e%252e/admin", NULL },
		{ "/v1%00", NULL },
		{ "/v1%0a", NULL },
		{ "/v1%7f", NULL },
		{ "/v1%3f", NULL },
		{ "/v1#a", NULL },
		{ "/v1%", NULL },
		{ "/v1%2", NULL },
		{ "/v1%zz", NULL },
		{ "/v1/%c0%ae%c0%ae/", NULL }, /* dots in two bytes */
		{ "/\xc3\xbc", NULL },
		{ "/a b", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_buf b = BUF_INIT(KIB(1));
		int r = egress_path_decode(slice_of(cases[i].target), &b);

		row_check(i, (r == 0) == !!cases[i].path);
		if (r == 0)
			row_check(i, strcmp(buf_str(&b), cases[i].path) == 0);
	}
}

static void terms_of_a_rule(void **)
{
	static const struct {
		enum egress_term_kind kind;
		const char *text;
		bool good;
	} cases[] = {
		{ EGRESS_TERM_METHOD, "GET", true },
		{ EGRESS_TERM_METHOD, "M-SEARCH", true },
		{ EGRESS_TERM_METHOD, "get", false },
		{ EGRESS_TERM_METHOD, "", false },
		{ EGRESS_TERM_METHOD, "GET,HEAD", false },
		{ EGRESS_TERM_METHOD, "*", false },
		{ EGRESS_TERM_PATH, "/", true },
		{ EGRESS_TERM_PATH, "/*", true },
		{ EGRESS_TERM_PATH, "/v1*", true },
		{ EGRESS_TERM_PATH, "*/git-upload-pack", true },
		{ EGRESS_TERM_PATH, "*", false },
		{ EGRESS_TERM_PATH, "", false },
		{ EGRESS_TERM_PATH, "v1", false },
		{ EGRESS_TERM_PATH, "*.js", false },
		{ EGRESS_TERM_PATH, "*/a/*", false },
		{ EGRESS_TERM_PATH, "/a*b", false },
		{ EGRESS_TERM_PATH, "/a/../b", false },
		{ EGRESS_TERM_PATH, "/a//b", false },
		{ EGRESS_TERM_PATH, "/a/..*", false },
		{ EGRESS_TERM_PATH, "/%61", false },
		{ EGRESS_TERM_PATH, "/a?b", false },
		{ EGRESS_TERM_PATH, "/a b", false },
		{ EGRESS_TERM_PATH, "/a,b", false },
		{ EGRESS_TERM_CREDENTIAL, "my-key_1.x", true },
		{ EGRESS_TERM_CREDENTIAL, "", false },
		{ EGRESS_TERM_CREDENTIAL, "a/b", false },
		{ EGRESS_TERM_INSPECT, "", true },
		{ EGRESS_TERM_INSPECT, "x", false },
	};
	struct egress_terms all = {};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct egress_terms t = {};
		struct cay_err err = {};
		int r = egress_terms_add(&t, cases[i].kind, slice_of(cases[i].text), &err);

		row_check(i, cases[i].good ? r == 0 && t.n : r < 0 && !t.n);
		row_check(i, cases[i].good || err.code == CAY_E_INVALID);
		if (r == 0)
			row_check(i, egress_terms_select(egress_terms_slice(&t)) ==
					     (cases[i].kind <= EGRESS_TERM_PATH));
	}
	assert_int_equal(egress_terms_add(&all, EGRESS_TERM_CREDENTIAL, SLICE("a"), NULL), 0);
	assert_true(egress_terms_add(&all, EGRESS_TERM_CREDENTIAL, SLICE("b"), NULL) < 0);
	assert_true(egress_terms_add(&all, EGRESS_TERM_METHOD, SLICE("GET"), NULL) < 0);
	assert_int_equal(all.n, 3);
	for (size_t i = 0; i < 3 * EGRESS_TERMS_MAX; i++)
		if (egress_terms_add(&all, EGRESS_TERM_INSPECT, SLICE(""), NULL) < 0)
			assert_true(i);
	assert_int_equal(all.n, 5);
}

static void terms_end_with_their_bytes(void **)
{
	struct egress_terms t = {};

	char path[] = "/a-path";
	const size_t each = sizeof(path) - 1 + 2;

	while (egress_terms_add(&t, EGRESS_TERM_PATH, slice_of(path), NULL) == 0)
		;
	assert_true(t.n > EGRESS_TERMS_MAX - each && t.n <= EGRESS_TERMS_MAX);
	for (size_t n = 0; n <= t.n; n++)
		assert_true(egress_terms_are_valid((struct slice){ t.bytes, n }) == !(n % each));
	for (size_t i = 0; i < each; i++)
		for (unsigned bit = 0; bit < 8; bit++) {
			struct egress_terms changed = t;

			changed.bytes[i] = (char)(changed.bytes[i] ^ 1 << bit);
			if (egress_terms_are_valid(egress_terms_slice(&changed)))
				assert_true(i > 2); /* a letter of the path */
		}
}

static void add(struct egress_rule *r, enum egress_term_kind kind, const char *text)
{
	assert_int_equal(egress_terms_add(&r->terms, kind, slice_of(text), NULL), 0);
}

static struct egress_rule rule(enum egress_action action, const char *method, const char *path)
{
	struct egress_rule r = { .action = action };

	assert_int_equal(egress_target_parse(SLICE("a.example"), &r.to, NULL), 0);
	if (method)
		add(&r, EGRESS_TERM_METHOD, method);
	if (path)
		add(&r, EGRESS_TERM_PATH, path);
	return r;
}

static struct egress_verdict judge(const struct buf *b, const char *method, const char *path,
				   struct slice *credential)
{
	struct egress_request rq = { .method = slice_of(method),
				     .path = path ? slice_of(path) : (struct slice){} };
	struct host_name n;

	assert_int_equal(host_name_parse(SLICE("a.example"), &n), 0);
	return egress_judge_request((struct slice){ b->data, b->len }, &n, 443, &rq, credential);
}

/* The reference: texts and no compiled form. */

struct plain_rule {
	enum egress_action action;
	const char *method, *path; /* NULL: any */
};

static bool plain_has_path(const char *pattern, const char *path)
{
	size_t n = strlen(pattern) - 1;

	if (pattern[n] == '*')
		return strncmp(path, pattern, n) == 0;
	if (pattern[0] == '*')
		return strlen(path) >= n && strcmp(path + strlen(path) - n, pattern + 1) == 0;
	return strcmp(path, pattern) == 0;
}

static enum egress_action plain_judge(const struct plain_rule rules[3],
				      enum egress_action otherwise, const char *method,
				      const char *path)
{
	for (size_t i = 0; i < 3; i++) {
		if (rules[i].method && strcmp(rules[i].method, method) != 0)
			continue;
		if (rules[i].path && !path)
			return EGRESS_DENY;
		if (!rules[i].path || plain_has_path(rules[i].path, path))
			return rules[i].action;
	}
	return otherwise;
}

static void as_the_reference_judges(void **)
{
	static const char *const methods[] = { "GET", "POST", NULL };
	static const char *const patterns[] = { "/", "/v1*", "/v1/*", "/v1", "*/pack", NULL, NULL };
	static const char *const asked[] = { "/", "/v1", "/v1/", "/v1/pack", "/x/pack", NULL };
	unsigned seed =
		getenv("CAY_SEED") ? (unsigned)atoi(getenv("CAY_SEED")) : (unsigned)time(NULL);

	print_message("# seed %u\n", seed);
	srand(seed);
	for (size_t round = 0; round < ROUNDS; round++) {
		struct plain_rule plain[2][3];
		struct egress_rule rules[2][3];
		enum egress_action otherwise[2], want = EGRESS_ALLOW, mildest[2];
		struct egress_layer layers[2];
		auto_buf b = BUF_INIT(EGRESS_POLICY_MAX);
		const char *method = methods[rand() % 2];
		const char *path = asked[(size_t)rand() % ARRAY_SIZE(asked)];
		struct host_name n;
		struct slice credential;
		struct egress_verdict v;

		for (size_t l = 0; l < 2; l++) {
			bool open = true;

			mildest[l] = EGRESS_DENY;
			otherwise[l] = rand() % 2 ? EGRESS_ALLOW : EGRESS_DENY;
			for (size_t i = 0; i < 3; i++) {
				struct plain_rule *p = &plain[l][i];

				*p = (struct plain_rule){
					rand() % 2 ? EGRESS_ALLOW : EGRESS_DENY,
					methods[(size_t)rand() % ARRAY_SIZE(methods)],
					patterns[(size_t)rand() % ARRAY_SIZE(patterns)]
				};
				rules[l][i] = rule(p->action, p->method, p->path);
				if (open && p->action < mildest[l])
					mildest[l] = p->action;
				open = open && (p->method || p->path);
			}
			if (open && otherwise[l] < mildest[l])
				mildest[l] = otherwise[l];
			layers[l] = (struct egress_layer){ otherwise[l], rules[l], 3 };
			enum egress_action here = plain_judge(plain[l], otherwise[l], method, path);
			want = here > want ? here : want;
		}
		assert_int_equal(egress_policy_write(layers, 2, round, &b), 0);
		assert_int_equal(egress_policy_check((struct slice){ b.data, b.len }), 0);
		if (judge(&b, method, path, &credential).action != want)
			fail_msg("round %zu of seed %u: %s %s", round, seed, method, path);
		assert_int_equal(host_name_parse(SLICE("a.example"), &n), 0);
		v = egress_judge_name((struct slice){ b.data, b.len }, &n, 443);
		if (v.action != (mildest[0] > mildest[1] ? mildest[0] : mildest[1]))
			fail_msg("round %zu of seed %u: the connection", round, seed);
		if ((egress_judge_name_on_any_port((struct slice){ b.data, b.len }, &n) !=
		     EGRESS_DENY) != (v.action != EGRESS_DENY || (otherwise[0] == EGRESS_ALLOW &&
								  otherwise[1] == EGRESS_ALLOW)))
			fail_msg("round %zu of seed %u: the name", round, seed);
	}
}

/* A rule with methods that allows reading allows no upload with it, and none past it. */
static void a_body_where_there_should_be_none(void **)
{
	static const struct {
		enum egress_action action;
		const char *rule_method, *rule_path, *method, *path;
		enum egress_action without, with;
	} rows[] = {
		{ EGRESS_ALLOW, "GET", NULL, "GET", "/v1", EGRESS_ALLOW, EGRESS_DENY },
		{ EGRESS_ALLOW, "HEAD", NULL, "HEAD", "/v1", EGRESS_ALLOW, EGRESS_DENY },
		{ EGRESS_ALLOW, "POST", NULL, "POST", "/v1", EGRESS_ALLOW, EGRESS_ALLOW },
		{ EGRESS_ASK, "GET", NULL, "GET", "/v1", EGRESS_ASK, EGRESS_DENY },
		{ EGRESS_DENY, "GET", NULL, "GET", "/v1", EGRESS_DENY, EGRESS_DENY },
		{ EGRESS_ALLOW, "GET", "/v1", "GET", "/v1", EGRESS_ALLOW, EGRESS_DENY },
		/* the default of the layer decides */
		{ EGRESS_DENY, "GET", "/v1", "GET", "/v2", EGRESS_ALLOW, EGRESS_ALLOW },
		{ EGRESS_ALLOW, NULL, "/v1", "GET", "/v1", EGRESS_ALLOW, EGRESS_ALLOW },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct egress_rule one =
			rule(rows[i].action, rows[i].rule_method, rows[i].rule_path);
		struct egress_layer layer = { EGRESS_ALLOW, &one, 1 };
		struct egress_request rq = { .method = slice_of(rows[i].method),
					     .path = slice_of(rows[i].path) };
		auto_buf b = BUF_INIT(EGRESS_POLICY_MAX);
		struct slice credential, policy;
		struct host_name n;

		assert_int_equal(host_name_parse(SLICE("a.example"), &n), 0);
		assert_int_equal(egress_policy_write(&layer, 1, 1, &b), 0);
		policy = (struct slice){ b.data, b.len };
		row_check(i, egress_judge_request(policy, &n, 443, &rq, &credential).action ==
				     rows[i].without);
		rq.body = true;
		row_check(i, egress_judge_request(policy, &n, 443, &rq, &credential).action ==
				     rows[i].with);
	}
}

static void what_needs_inspection(void **)
{
	struct egress_rule rules[] = { rule(EGRESS_ALLOW, NULL, NULL),
				       rule(EGRESS_ALLOW, "GET", NULL) };
	struct egress_layer layers[] = { { EGRESS_ALLOW, NULL, 0 }, { EGRESS_DENY, rules, 2 } };
	auto_buf b = BUF_INIT(EGRESS_POLICY_MAX);
	struct slice credential, policy;
	struct host_name n;

	assert_int_equal(host_name_parse(SLICE("a.example"), &n), 0);
	assert_int_equal(egress_policy_write(layers, 2, 1, &b), 0);
	policy = (struct slice){ b.data, b.len };
	assert_true(egress_policy_inspects(policy));
	assert_false(egress_judge_name(policy, &n, 443).inspect); /* the first rule decides */
	for (size_t i = 0; i < 3; i++) {
		buf_clear(&b);
		rules[0].terms.n = 0;
		if (i == 0)
			add(&rules[0], EGRESS_TERM_PATH, "/v1/*");
		else if (i == 1)
			add(&rules[0], EGRESS_TERM_INSPECT, "");
		else
			add(&rules[0], EGRESS_TERM_CREDENTIAL, "key");
		assert_int_equal(egress_policy_write(layers, 2, 1, &b), 0);
		policy = (struct slice){ b.data, b.len };
		assert_true(egress_judge_name(policy, &n, 443).inspect);
		assert_false(egress_judge_name(policy, &n, 80).inspect);
		assert_int_equal(judge(&b, "PUT", "/v1/a", &credential).action, EGRESS_ALLOW);
		assert_true(slice_eq(credential, i == 2 ? SLICE("key") : SLICE("")));
		assert_int_equal(judge(&b, "PUT", "/v2", &credential).action,
				 i ? EGRESS_ALLOW : EGRESS_DENY);
	}
}

static void terms_of_a_policy_are_checked(void **)
{
	struct egress_rule one = rule(EGRESS_ALLOW, NULL, "/v1/*");
	struct egress_layer layer = { EGRESS_DENY, &one, 1 };
	auto_buf b = BUF_INIT(EGRESS_POLICY_MAX);

	assert_int_equal(egress_policy_write(&layer, 1, 1, &b), 0);
	for (size_t i = b.len - one.terms.n - 8; i < b.len; i++)
		for (unsigned bit = 0; bit < 8; bit++) {
			struct slice policy = { b.data, b.len };
			struct slice credential;

			b.data[i] = (char)(b.data[i] ^ 1 << bit);
			if (egress_policy_check(policy) == 0)
				(void)judge(&b, "GET", "/v1/a", &credential);
			if (i == b.len - 5) /* the slash that a path begins with */
				assert_true(egress_policy_check(policy) < 0);
			b.data[i] = (char)(b.data[i] ^ 1 << bit);
		}
}

static void where_requests_can_be_read(void **)
{
	struct egress_rule r = rule(EGRESS_ALLOW, "GET", NULL);
	static const struct {
		uint16_t from, to;
		bool credential, good;
	} cases[] = { { 443, 443, true, true },   { 80, 80, false, true },
		      { 80, 80, true, false },    { 80, 443, false, false },
		      { 1, 65535, false, false }, { 8443, 8443, false, false } };

	assert_int_equal(egress_rule_check_terms(&r, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct egress_rule one = r;

		one.ports[0] = (struct egress_ports){ cases[i].from, cases[i].to };
		one.n_ports = 1;
		if (cases[i].credential)
			add(&one, EGRESS_TERM_CREDENTIAL, "key");
		row_check(i, (egress_rule_check_terms(&one, NULL) == 0) == cases[i].good);
	}
	assert_int_equal(egress_target_parse(SLICE("192.0.2.0/24"), &r.to, NULL), 0);
	assert_true(egress_rule_check_terms(&r, NULL) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths),
		cmocka_unit_test(terms_of_a_rule),
		cmocka_unit_test(terms_end_with_their_bytes),
		cmocka_unit_test(as_the_reference_judges),
		cmocka_unit_test(a_body_where_there_should_be_none),
		cmocka_unit_test(what_needs_inspection),
		cmocka_unit_test(terms_of_a_policy_are_checked),
		cmocka_unit_test(where_requests_can_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
