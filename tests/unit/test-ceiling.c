/* SPDX-License-Identifier: Apache-2.0 */
#include "life/ceiling.h"
#include "unit.h"

static const struct ceiling_machine machine = { .memory_total = UINT64_C(8) << 30,
						.disk_total = UINT64_C(100) << 30,
						.cores = 4 };

static struct settings defaults(void)
{
	struct settings s;

	conf_set_defaults(&settings_table, &s);
	return s;
}

/* Each limit, by its name in the API, and a value above what the defaults allow. */
static const struct {
	const char *name, *setting;
	uint64_t max;
} rows[CEILING_NUM] = {
	{ "memory_bytes", "sandbox.memory", UINT64_C(4) << 30 },
	{ "cpu_milli", "sandbox.cpu", 4000 },
	{ "pids", "sandbox.pids", 32768 },
	{ "nofile", "sandbox.nofile", 65536 },
	{ "shm_bytes", "sandbox.shm", UINT64_C(4) << 30 },
	{ "output_bytes", "sandbox.output", UINT64_C(256) << 20 },
	{ "disk_bytes", "sandbox.disk", UINT64_C(50) << 30 },
	{ "disk_inodes", "sandbox.inodes", 16777216 },
};

/* A request with one limit. */
static void decode(const char *name, uint64_t value, struct arena *arena, struct limits *ret)
{
	char text[128];
	int n = snprintf(text, sizeof(text), "{\"%s\":%llu}", name, (unsigned long long)value);

	assert_true(n > 0 && (size_t)n < sizeof(text));
	assert_int_equal(field_decode_text(&limits_table, slice_of(text), &json_control_limits,
					   arena, ret, NULL),
			 0);
}

static void the_ceiling_is_granted_and_one_more_is_not(void **)
{
	struct settings s = defaults();
	struct ceiling_set set;

	ceilings_set_node(&s, &machine, &set);
	for (size_t i = 0; i < CEILING_NUM; i++) {
		auto_arena arena = ARENA_INIT(KIB(4));
		struct sandbox_create spec = {};
		struct cay_err err = {};

		decode(rows[i].name, rows[i].max, &arena, &spec.limits);
		row_check(i, ceilings_bound_create(&set, &spec, &err) == 0);
		spec = (struct sandbox_create){};
		decode(rows[i].name, rows[i].max + 1, &arena, &spec.limits);
		row_check(i, ceilings_bound_create(&set, &spec, &err) < 0);
		row_check(i, err.code == CAY_E_INVALID && strstr(err.field, rows[i].name));
		row_check(i, strstr(err.msg, rows[i].setting) != NULL);
	}
}

static void a_default_is_lowered(void **)
{
	auto_arena arena = ARENA_INIT(KIB(4));
	struct sandbox_create spec = {};
	struct settings s = defaults();
	struct ceiling_set set;

	s.sandbox_memory = 64 << 20;
	s.sandbox_disk = 1 << 30;
	ceilings_set_node(&s, &machine, &set);
	decode("pids", 100, &arena, &spec.limits);
	assert_int_equal(spec.limits.memory_bytes, 512 << 20);
	assert_int_equal(ceilings_bound_create(&set, &spec, NULL), 0);
	assert_int_equal(spec.limits.memory_bytes, 64 << 20);
	assert_int_equal(spec.limits.pids, 100);
	assert_int_equal(spec.disk_ceiling, 1 << 30);
}

/* A sandbox that has more than a ceiling keeps it: only what is raised is checked. */
static void a_change_is_bounded(void **)
{
	struct settings s = defaults();
	struct ceiling_set set;

	ceilings_set_node(&s, &machine, &set);
	for (size_t i = 0; i < CEILING_NUM; i++) {
		auto_arena arena = ARENA_INIT(KIB(4));
		struct limits low = {}, most = {}, above = {};
		struct cay_err err = {};

		decode("pids", 8, &arena, &low);
		decode(rows[i].name, rows[i].max, &arena, &most);
		decode(rows[i].name, rows[i].max + 1, &arena, &above);
		row_check(i, ceilings_check_change(&set, &low, &most, &err) == 0);
		row_check(i, ceilings_check_change(&set, &low, &above, &err) < 0);
		row_check(i, str_eq(err.field, rows[i].name));
		row_check(i, ceilings_check_change(&set, &above, &above, &err) == 0);
	}
}

/* Of the files there may be more already. */
static void a_start_is_bounded_except_for_files(void **)
{
	struct settings s = defaults();
	struct ceiling_set set;

	ceilings_set_node(&s, &machine, &set);
	for (size_t i = 0; i < CEILING_NUM; i++) {
		auto_arena arena = ARENA_INIT(KIB(4));
		struct limits above = {}, bound;
		bool files =
			str_eq(rows[i].name, "disk_bytes") || str_eq(rows[i].name, "disk_inodes");
		struct cay_err err = {};

		decode(rows[i].name, rows[i].max + 1, &arena, &above);
		bound = above;
		ceilings_bound_start(&set, &bound);
		/* what was not lowered may not be raised to */
		row_check(i, (ceilings_check_change(&set, &bound, &above, &err) == 0) == files);
	}
}

static void a_small_machine_has_ceilings_that_a_schema_allows(void **)
{
	static const struct ceiling_machine tiny = { 1 << 20, 1 << 20, 1 };
	struct settings s = defaults();
	struct ceiling_set set;

	ceilings_set_node(&s, &tiny, &set);
	assert_int_equal(set.max[CEILING_MEMORY], 16 << 20);
	assert_int_equal(set.max[CEILING_DISK], 1 << 20);
}

static void the_size_of_a_volume_is_bounded_like_a_disk(void **)
{
	struct settings s = defaults();
	struct ceiling_set set;
	struct cay_err err = {};
	uint64_t bytes = UINT64_C(50) << 30;

	ceilings_set_node(&s, &machine, &set);
	assert_int_equal(ceilings_bound_volume(&set, true, &bytes, &err), 0);
	bytes++;
	assert_true(ceilings_bound_volume(&set, true, &bytes, &err) < 0);
	assert_true(err.code == CAY_E_INVALID && str_eq(err.field, "size_bytes"));
	assert_non_null(strstr(err.msg, "sandbox.disk"));
	assert_int_equal(ceilings_bound_volume(&set, false, &bytes, &err), 0);
	assert_int_equal(bytes, UINT64_C(50) << 30);
	ceilings_lower(&set, &(struct ceilings){ .has_disk_bytes = true, .disk_bytes = 1000 });
	err = (struct cay_err){};
	assert_true(ceilings_bound_volume(&set, true, &bytes, &err) < 0);
	assert_non_null(strstr(err.msg, "of this tenant"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_size_of_a_volume_is_bounded_like_a_disk),
		cmocka_unit_test(the_ceiling_is_granted_and_one_more_is_not),
		cmocka_unit_test(a_default_is_lowered),
		cmocka_unit_test(a_change_is_bounded),
		cmocka_unit_test(a_start_is_bounded_except_for_files),
		cmocka_unit_test(a_small_machine_has_ceilings_that_a_schema_allows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
