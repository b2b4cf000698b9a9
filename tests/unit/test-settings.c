/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/settings.h"
#include "unit.h"

static void the_real_table_is_complete(void **)
{
	struct settings s;

	conf_set_defaults(&settings_table, &s);
	assert_string_equal(s.state_dir, "/var/lib/cay");
	for (size_t i = 0; i < settings_table.n; i++) {
		const struct conf_key *k = &settings_table.keys[i];

		row_check(i, k->help[0] && k->section[0] && k->key[0]);
		row_check(i, k->type != CONF_CHOICE || k->choices);
		row_check(i, k->offset < sizeof(s));
		for (size_t n = 0; n < i; n++)
			row_check(i, !str_eq(k->section, settings_table.keys[n].section) ||
					     !str_eq(k->key, settings_table.keys[n].key));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_real_table_is_complete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
