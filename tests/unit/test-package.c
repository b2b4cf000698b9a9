/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/package.h"
#include "unit.h"

static const struct {
	const char *manager, *name, *version;
	bool ok;
	const char *last[2]; /* of the command */
} rows[] = {
	{ "python", "pandas", "2.2.3", true, { "pandas==2.2.3" } },
	{ "python", "matplotlib", "", true, { "matplotlib" } },
	{ "python",
	  "zope.interface",
	  "1!2.0rc1+local.1",
	  true,
	  { "zope.interface==1!2.0rc1+local.1" } },
	{ "python", "A_b-c", "", true, { "A_b-c" } },
	{ "python", "-r", "", false, {} },
	{ "python", "--index-url=http://x", "", false, {} },
	{ "python", "a b", "", false, {} },
	{ "python", "a;b", "", false, {} },
	{ "python", "./x", "", false, {} },
	{ "python", "x.", "", false, {} },
	{ "python", "git+https://x/y", "", false, {} },
	{ "python", "a[b]", "", false, {} },
	{ "python", "", "", false, {} },
	{ "python", "a\n", "", false, {} },
	{ "python", "a", "1 --pre", false, {} },
	{ "python", "a", "-1", false, {} },
	{ "python", "a", "1,>2", false, {} },
	{ "python", "a", "*", false, {} },
	{ "python", "@a/b", "", false, {} },
	{ "node", "left-pad", "1.3.0", true, { "left-pad@1.3.0" } },
	{ "node", "@types/node", "", true, { "@types/node@latest" } },
	{ "node", "a/b", "", false, {} },
	{ "node", "@a", "", false, {} },
	{ "node", "@a/b/c", "", false, {} },
	{ "node", "@/b", "", false, {} },
	{ "node", "@-a/b", "", false, {} },
	{ "node", "a", "file:x", false, {} },
	{ "node", "a", "git+ssh://x", false, {} },
	{ "node", "A", "", false, {} },
	{ "r", "jsonlite", "1.8-9", true, { "jsonlite", "1.8-9" } },
	{ "r", "data.table", "", true, { "data.table", "latest" } },
	{ "r", "a_b", "", false, {} },
	{ "r", "a'", "", false, {} },
	{ "r", "a", "1)", false, {} },
	{ "r", "-e", "", false, {} },
};

static const struct package_manager *manager(const char *name)
{
	const struct package_manager *m = package_managers;

	while (m->name && !str_eq(m->name, name))
		m++;
	assert_non_null(m->name);
	return m;
}

static void put(struct packages *p, const struct package_manager *m, struct field_map map)
{
	memcpy((char *)p + m->offset, &map, sizeof(map));
}

static void names_and_versions(void **)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct package_manager *m = manager(rows[i].manager);
		const char *name = rows[i].name, *version = rows[i].version;
		auto_arena arena = ARENA_INIT(KIB(64));
		struct field_texts argv = {};
		struct packages p = {};
		struct cay_err err = {};
		size_t n = rows[i].last[1] ? 2 : 1;

		put(&p, m, (struct field_map){ &name, &version, 1 });
		row_check(i, (packages_check(&p, &err) == 0) == rows[i].ok);
		row_check(i, rows[i].ok ||
				     (err.code == CAY_E_INVALID && str_eq(err.field, "packages")));
		if (!rows[i].ok)
			continue;
		row_check(i, package_install_argv(m, packages_get_map(&p, m), &arena, &argv) == 0);
		for (size_t k = 0; k < n; k++)
			row_check(i, str_eq(argv.v[argv.n - n + k], rows[i].last[k]));
	}
}

static void names_have_a_length(void **)
{
	const struct package_manager *m = manager("python");
	char text[PACKAGE_NAME_MAX + 2];
	const char *name = text, *none = "";
	struct packages p = {};

	memset(text, 'a', sizeof(text));
	put(&p, m, (struct field_map){ &name, &none, 1 });
	text[PACKAGE_NAME_MAX + 1] = 0;
	assert_true(packages_check(&p, NULL) < 0);
	text[PACKAGE_NAME_MAX] = 0;
	assert_int_equal(packages_check(&p, NULL), 0);
	put(&p, m, (struct field_map){ &none, &name, 1 });
	none = "a";
	assert_true(packages_check(&p, NULL) < 0);
	text[PACKAGE_VERSION_MAX] = 0;
	assert_int_equal(packages_check(&p, NULL), 0);
	assert_true(packages_has_any(&p));
	assert_false(packages_has_any(&(struct packages){}));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_versions),
		cmocka_unit_test(names_have_a_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
