/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/id.h"
#include "unit.h"

static void new_ids_read_back(void **)
{
	struct id id, back;
	char text[ID_TEXT_LEN + 1];

	for (unsigned noun = ID_NONE + 1; noun < ID_NUM_NOUNS; noun++) {
		assert_int_equal(id_generate((enum id_noun)noun, 0xABCD, 0x1234, &id), 0);
		id_format(&id, text);
		assert_int_equal(strlen(text), ID_TEXT_LEN);
		assert_true(str_is_dns_label(slice_of(text)));
		assert_int_equal(id_parse((enum id_noun)noun, slice_of(text), &back), 0);
		assert_true(id_eq(&id, &back));
		assert_int_equal(id_parse(ID_NONE, slice_of(text), &back), 0);
		assert_int_equal(id_cell(&back), 0xABCD);
		assert_int_equal(id_node(&back), 0x1234);
		assert_true(id_is_valid(&back, ID_NONE));
	}
}

static void the_spelling_is_fixed(void **)
{
	struct id id = { .noun = ID_SANDBOX, .bits = { 0, 1, 0, 2, 0xFF, 0x80 } };
	char text[ID_TEXT_LEN + 1];

	id_format(&id, text);
	assert_string_equal(text, "sb000g00qzg000000000000000");
}

static void one_id_has_one_spelling(void **)
{
	static const char *const bad[] = {
		"",
		"sb",
		"sb00000000000000000000000",   /* short */
		"sb0000000000000000000000000", /* long */
		"SB000000000000000000000000",
		"sb00000000000000000000000A",
		"sb00000000000000000000000i", /* not in Crockford's alphabet */
		"sb00000000000000000000000l",
		"sb00000000000000000000000o",
		"sb00000000000000000000000u",
		"sb_00000000000000000000000",
		"xx000000000000000000000000",
		"ex000000000000000000000000", /* another noun */
		"sb00000000000000000000000\xC3",
		" sb00000000000000000000000",
	};
	struct id id;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		row_check(i, id_parse(ID_SANDBOX, slice_of(bad[i]), &id) == -EINVAL);
	assert_int_equal(
		id_parse(ID_SANDBOX, (struct slice){ "sb000000000000000000000000\0", 26 }, &id), 0);
	assert_int_equal(id_parse(ID_SANDBOX,
				  (struct slice){ "sb\0"
						  "00000000000000000000000",
						  26 },
				  &id),
			 -EINVAL);
}

static void ids_differ(void **)
{
	struct id a, b;

	assert_int_equal(id_generate(ID_EXEC, 0, 0, &a), 0);
	assert_int_equal(id_generate(ID_EXEC, 0, 0, &b), 0);
	assert_false(id_eq(&a, &b));
	assert_false(id_is_valid(&a, ID_SANDBOX));
	a.noun = ID_NUM_NOUNS;
	assert_false(id_is_valid(&a, ID_NONE));
	assert_string_equal(id_noun_prefix((enum id_noun)200), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new_ids_read_back),
		cmocka_unit_test(the_spelling_is_fixed),
		cmocka_unit_test(one_id_has_one_spelling),
		cmocka_unit_test(ids_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
