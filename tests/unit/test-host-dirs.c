/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/host-dirs.h"
#include "unit.h"

#define TENANT "tn0001000g00000000000000tr"

static int parse(const char *text, struct host_dir *ret)
{
	struct cay_err err = {};
	int r = host_dir_parse(slice_of(text), "f", ret, &err);

	assert_true(r >= 0 || (err.code == CAY_E_INVALID && strncmp(err.msg, "f:", 2) == 0));
	return r;
}

static void a_file_names_one_directory(void **)
{
	struct host_dir d;

	assert_int_equal(parse("[directory]\npath = /srv/models\ntenants = all\n", &d), 0);
	assert_string_equal(d.path, "/srv/models");
	assert_int_equal(d.mode, HOST_DIR_RO);
	assert_int_equal(d.n_tenants, 0);
	assert_int_equal(d.as, 0);
	assert_int_equal(
		parse("# a comment\n[directory]\npath = /srv/work\nmode = rw\ntenants = " TENANT
		      "\nas = 1000\n",
		      &d),
		0);
	assert_int_equal(d.mode, HOST_DIR_RW);
	assert_int_equal(d.n_tenants, 1);
	assert_int_equal(d.as, 1000);
}

static void what_is_not_meant_is_refused(void **)
{
	static const char *const bad[] = {
		"",
		"[directory]\npath = /srv\n", /* of nobody */
		"[directory]\ntenants = all\n",
		"[directory]\npath = /\ntenants = all\n",
		"[directory]\npath = srv\ntenants = all\n",
		"[directory]\npath = /srv/\ntenants = all\n",
		"[directory]\npath = /srv/../etc\ntenants = all\n",
		"[directory]\npath = /srv/./a\ntenants = all\n",
		"[directory]\npath = /srv//a\ntenants = all\n",
		"[directory]\npath = /srv\ntenants = all " TENANT "\n",
		"[directory]\npath = /srv\ntenants = sb0001000g00000000000000tr\n",
		"[directory]\npath = /srv\nmode = rw\ntenants = all\n", /* nobody is named */
		"[directory]\npath = /srv\nmode = yes\ntenants = all\n",
		"[directory]\npath = /srv\ntenants = all\nas = 65534\n",
		"[directory]\npath = /srv\ntenants = all\nuser = 0\n",
		"[other]\npath = /srv\ntenants = all\n",
	};
	struct host_dir d;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		row_check(i, parse(bad[i], &d) < 0);
}

static void a_tenant_finds_what_is_for_it(void **)
{
	struct id one = { .noun = ID_TENANT, .bits = { 1 } }, two = { ID_TENANT, { 2 } };
	struct host_dir rows[] = { { .name = "all" },
				   { .name = "one", .tenants = { one }, .n_tenants = 1 } };
	struct host_dirs all = { rows, ARRAY_SIZE(rows) };

	assert_ptr_equal(host_dirs_find(&all, "all", &two), &rows[0]);
	assert_ptr_equal(host_dirs_find(&all, "one", &one), &rows[1]);
	assert_null(host_dirs_find(&all, "one", &two));
	assert_null(host_dirs_find(&all, "on", &one));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_names_one_directory),
		cmocka_unit_test(what_is_not_meant_is_refused),
		cmocka_unit_test(a_tenant_finds_what_is_for_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
