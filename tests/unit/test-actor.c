/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "ops/actor.h"
#include "unit.h"

#define TN "tn0001000g00000000000000tr"
#define KY "ky0001000g00000000000000tr"
#define SB "sb0001000g00000000000000tr"
#define G63 "a23456789b23456789c23456789d23456789e23456789f23456789g23456789"
#define OTHER "sb0001000g00000000000000tg"

static const struct {
	const char *text;
	enum op_scope scope; /* SCOPE_NONE: it is refused */
	bool key, one;
	const char *group;
} texts[] = {
	{ "- public - -", SCOPE_PUBLIC, false, false },
	{ TN " read " KY " -", SCOPE_READ, true, false },
	{ TN " write - " SB, SCOPE_WRITE, false, true },
	{ TN " operator " KY " " SB, SCOPE_OPERATOR, true, true },
	{ TN " read " KY " - alice", SCOPE_READ, true, false, "alice" },
	{ TN " write - " SB " a/b:c", SCOPE_WRITE, false, true, "a/b:c" },
	{ TN " write " KY " - " G63, SCOPE_WRITE, true, false, G63 },
	{ TN " write " KY " - " G63 "x", SCOPE_NONE, false, false },
	{ TN " read " KY " - alice bob", SCOPE_NONE, false, false },
	{ TN " read " KY " - al\tice", SCOPE_NONE, false, false },
	{ "- public - - alice", SCOPE_NONE, false, false },
	{ "", SCOPE_NONE, false, false },
	{ "-", SCOPE_NONE, false, false },
	{ "- - - -", SCOPE_NONE, false, false },
	{ "-  - -", SCOPE_NONE, false, false },
	{ TN " read " KY, SCOPE_NONE, false, false },
	{ TN " read " KY " ", SCOPE_NONE, false, false },
	{ TN " read " KY " - ", SCOPE_NONE, false, false },
	{ TN " read " KY " - -", SCOPE_NONE, false, false },
	{ " " TN " read " KY " -", SCOPE_NONE, false, false },
	{ TN "  read " KY " -", SCOPE_NONE, false, false },
	{ TN "\tread\t" KY "\t-", SCOPE_NONE, false, false },
	{ TN " Read " KY " -", SCOPE_NONE, false, false },
	{ TN " readwrite " KY " -", SCOPE_NONE, false, false },
	{ TN "  " KY " -", SCOPE_NONE, false, false },
	{ TN " read " SB " -", SCOPE_NONE, false, false },
	{ KY " read " KY " -", SCOPE_NONE, false, false },
	{ TN " read " KY " " KY, SCOPE_NONE, false, false },
	/* somebody without a tenant may nothing, and nobody has a tenant */
	{ "- read - -", SCOPE_NONE, false, false },
	{ "- operator - -", SCOPE_NONE, false, false },
	{ TN " public - -", SCOPE_NONE, false, false },
	{ "- public " KY " -", SCOPE_NONE, false, false },
	{ "- public - " SB, SCOPE_NONE, false, false },
};

static void there_is_one_spelling(void **)
{
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct actor a = { .scope = SCOPE_NUM };
		char text[ACTOR_TEXT_MAX + 1];
		int r = actor_parse(slice_of(texts[i].text), &a);

		if (texts[i].scope == SCOPE_NONE) {
			row_check(i, r == -EINVAL && a.scope == SCOPE_NUM);
			continue;
		}
		row_check(i, r == 0 && a.scope == texts[i].scope);
		row_check(i, (a.key.noun == ID_KEY) == texts[i].key);
		row_check(i, a.one_sandbox == texts[i].one);
		row_check(i, str_eq(a.group, texts[i].group ? texts[i].group : ""));
		actor_format(&a, text);
		row_check(i, str_eq(text, texts[i].text));
	}
}

static void the_longest_fits(void **)
{
	assert_int_equal(strlen(TN " operator " KY " " SB " " G63), ACTOR_TEXT_MAX);
}

static struct actor actor_of(const char *text)
{
	struct actor a;

	assert_int_equal(actor_parse(slice_of(text), &a), 0);
	return a;
}

/* Every operation against every scope. */
static void a_scope_includes_those_below_it(void **)
{
	static const char *const actors[SCOPE_NUM] = {
		[SCOPE_PUBLIC] = "- public - -",
		[SCOPE_READ] = TN " read - -",
		[SCOPE_WRITE] = TN " write - -",
		[SCOPE_OPERATOR] = TN " operator - -",
	};

	for (unsigned i = 0; i < OP_NUM; i++)
		for (unsigned s = SCOPE_PUBLIC; s < SCOPE_NUM; s++) {
			struct actor a = actor_of(actors[s]);

			row_check(i, actor_check_access(&a, &ops[i], NULL) ==
					     (s >= ops[i].scope ? CAY_OK : CAY_E_FORBIDDEN));
		}
}

static void a_token_for_one_sandbox_is_for_that_one(void **)
{
	struct actor a = actor_of(TN " operator - " SB);
	struct id own, other;

	assert_int_equal(id_parse(ID_SANDBOX, SLICE(SB), &own), 0);
	assert_int_equal(id_parse(ID_SANDBOX, SLICE(OTHER), &other), 0);
	for (unsigned i = 0; i < OP_NUM; i++) {
		bool open = ops[i].scope == SCOPE_PUBLIC;

		row_check(i, actor_check_access(&a, &ops[i], &own) == CAY_OK);
		row_check(i, actor_check_access(&a, &ops[i], &other) ==
				     (open ? CAY_OK : CAY_E_FORBIDDEN));
		row_check(i, actor_check_access(&a, &ops[i], NULL) ==
				     (open ? CAY_OK : CAY_E_FORBIDDEN));
	}
	a = actor_of(TN " read - " SB);
	assert_int_equal(actor_check_access(&a, &ops[OP_EXEC_RUN], &own), CAY_E_FORBIDDEN);
}

/* It has what names a sandbox, whose group is checked later, and what is marked for groups. */
static void an_actor_with_a_group_has_no_more(void **)
{
	struct actor a = actor_of(TN " write " KY " - alice");
	struct id own, image = { .noun = ID_IMAGE };

	assert_int_equal(id_parse(ID_SANDBOX, slice_of(SB), &own), 0);
	assert_int_equal(actor_check_access(&a, &ops[OP_EXEC_RUN], &own), CAY_OK);
	assert_int_equal(actor_check_access(&a, &ops[OP_SANDBOX_LIST], NULL), CAY_OK);
	assert_int_equal(actor_check_access(&a, &ops[OP_IMAGE_GET], &image), CAY_OK);
	for (unsigned i = 0; i < OP_NUM; i++)
		row_check(i, ops[i].flags & OP_GROUPS || ops[i].scope == SCOPE_PUBLIC ||
				     actor_check_access(&a, &ops[i], NULL) == CAY_E_FORBIDDEN);
	assert_int_equal(actor_set_group(&a, SLICE("alice")), 0);
	assert_int_equal(actor_set_group(&a, SLICE("bob")), -EACCES);
	assert_true(actor_has_group(&a, "alice"));
	assert_false(actor_has_group(&a, "alic"));
	assert_false(actor_has_group(&a, NULL));
	a = actor_of(TN " write " KY " -");
	assert_true(actor_has_group(&a, NULL) && actor_has_group(&a, "bob"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_actor_with_a_group_has_no_more),
		cmocka_unit_test(there_is_one_spelling),
		cmocka_unit_test(the_longest_fits),
		cmocka_unit_test(a_scope_includes_those_below_it),
		cmocka_unit_test(a_token_for_one_sandbox_is_for_that_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
