/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "egress/name-map.h"
#include "unit.h"

static void assert_mirror(const struct name_map *map, const char *name, const char *to,
			  unsigned port)
{
	const struct name_mirror *m;
	struct host_name n;

	assert_int_equal(host_name_parse(slice_of(name), &n), 0);
	m = name_map_find(map, &n);
	assert_int_equal(m != NULL, to != NULL);
	if (m)
		assert_true(str_eq(m->to.text, to) && m->port == port);
}

static void what_is_a_map(void **)
{
	struct name_map map;

	assert_int_equal(name_map_parse("", &map, NULL), 0);
	assert_int_equal(map.n, 0);
	assert_int_equal(name_map_parse("A.example=m.example:8080 b.example=M.example", &map, NULL),
			 0);
	assert_int_equal(map.n, 2);
	assert_mirror(&map, "a.example", "m.example", 8080);
	assert_mirror(&map, "b.example", "m.example", 0);
	assert_mirror(&map, "m.example", NULL, 0);
	assert_mirror(&map, "x.a.example", NULL, 0);
}

static void what_is_none(void **)
{
	static const char *const wrong[] = {
		"a.example",
		"a.example=",
		"=m.example",
		"a.example=m.example:",
		"a.example=m.example:0",
		"a.example=m.example:65536",
		"a.example=m.example:80x",
		"a.example=192.0.2.7",
		"a.example:443=m.example",
		"*.a.example=m.example",
		"a.example=b.example=c.example",
		"a.example=m.example A.example=n.example",
	};
	auto_buf many = BUF_INIT(KIB(8));
	struct name_map map;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct cay_err err = {};

		assert_true(name_map_parse(wrong[i], &map, &err) < 0);
		assert_true(err.code == CAY_E_INVALID && strstr(err.msg, "egress.map"));
	}
	for (unsigned i = 0; i <= NAME_MAP_MAX; i++)
		assert_int_equal(buf_printf(&many, "n%u.example=m.example ", i), 0);
	assert_true(name_map_parse(buf_str(&many), &map, NULL) < 0);
	assert_int_equal(map.n, NAME_MAP_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_a_map),
		cmocka_unit_test(what_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
