/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/transfer/ustar.h"

#include "unit.h"

/* The sum as a reader of tar archives counts it. */
static unsigned sum_of(const uint8_t h[static USTAR_BLOCK])
{
	unsigned sum = 0;

	for (size_t i = 0; i < USTAR_BLOCK; i++)
		sum += i >= 148 && i < 156 ? ' ' : h[i];
	return sum;
}

static uint64_t octal_at(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++) {
		assert_true(p[i] >= '0' && p[i] <= '7');
		v = v * 8 + (uint64_t)(p[i] - '0');
	}
	return v;
}

static void a_head_is_what_posix_says(void **)
{
	static const struct {
		const char *name;
		uint64_t size;
		char type;
		unsigned mode;
	} cases[] = {
		{ "index.json", 0, '0', 0644 },
		{ "oci-layout", 30, '0', 0644 },
		{ "blobs/", 0, '5', 0755 },
		{ "big", (UINT64_C(1) << 33) - 1, '0', 0644 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t h[USTAR_BLOCK];

		row_check(i, ustar_write_header(cases[i].name, cases[i].size, h) == 0);
		row_check(i, str_eq((const char *)h, cases[i].name));
		row_check(i, octal_at(h + 100, 7) == cases[i].mode);
		row_check(i, octal_at(h + 124, 11) == cases[i].size);
		row_check(i, octal_at(h + 136, 11) == 0 && h[156] == (uint8_t)cases[i].type);
		row_check(i, memcmp(h + 257, "ustar\00000", 8) == 0);
		row_check(i, octal_at(h + 148, 6) == sum_of(h) && h[154] == 0 && h[155] == ' ');
	}
}

static void a_huge_file_has_a_binary_size(void **)
{
	uint64_t size = 0;
	uint8_t h[USTAR_BLOCK];

	assert_int_equal(ustar_write_header("huge", UINT64_C(1) << 33, h), 0);
	assert_int_equal(h[124], 0x80);
	for (size_t i = 125; i < 136; i++)
		size = size << 8 | h[i];
	assert_int_equal(size, UINT64_C(1) << 33);
	assert_int_equal(octal_at(h + 148, 6), sum_of(h));
}

static void names_are_bounded(void **)
{
	uint8_t h[USTAR_BLOCK];
	char name[USTAR_NAME_MAX + 2] = {};

	memset(name, 'n', USTAR_NAME_MAX);
	assert_int_equal(ustar_write_header(name, 0, h), 0);
	assert_int_equal(h[USTAR_NAME_MAX - 1], 'n');
	assert_int_equal(octal_at(h + 100, 7), 0644);
	name[USTAR_NAME_MAX] = 'n';
	assert_int_equal(ustar_write_header(name, 0, h), -ENAMETOOLONG);
	assert_int_equal(ustar_write_header("", 0, h), -ENAMETOOLONG);
}

static void padding_fills_a_block(void **)
{
	assert_int_equal(ustar_padding(0), 0);
	assert_int_equal(ustar_padding(1), 511);
	assert_int_equal(ustar_padding(511), 1);
	assert_int_equal(ustar_padding(512), 0);
	assert_int_equal(ustar_padding(513), 511);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_head_is_what_posix_says),
		cmocka_unit_test(a_huge_file_has_a_binary_size),
		cmocka_unit_test(names_are_bounded),
		cmocka_unit_test(padding_fills_a_block),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
