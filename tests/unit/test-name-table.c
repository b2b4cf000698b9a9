/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "egress/name-table.h"
#include "unit.h"

#define NET UINT32_C(0x19c00000) /* 25.192.0.0 */

static const uint8_t key[SIPHASH_KEY_LEN] = {
	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
};

static struct host_name name_of(size_t i)
{
	struct host_name name;
	char text[64];
	int n = snprintf(text, sizeof(text), "host-%zu.example.com", i);

	assert_true(n > 0 && (size_t)n < sizeof(text));
	assert_int_equal(host_name_parse(slice_of(text), &name), 0);
	return name;
}

/* Of the paper, appendix A. */
static void the_hash_is_siphash(void **)
{
	uint8_t in[15];

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)i;
	assert_int_equal(siphash(key, in, sizeof(in)), UINT64_C(0xa129ca6149be45e5));
}

static void a_name_keeps_its_address(void **)
{
	static uint32_t addresses[NAME_TABLE_MAX];
	static uint8_t taken[65536];
	struct name_table t;
	struct host_name found;
	uint32_t again;
	size_t slots;

	name_table_init(&t, key, NET, 16); /* so small that hashes collide */
	assert_false(name_table_find_address(&t, NET + 1, &found));
	assert_null(t.slots);
	for (size_t i = 0; i < NAME_TABLE_MAX; i++) {
		struct host_name name = name_of(i);

		assert_int_equal(name_table_add(&t, &name, &addresses[i]), 0);
		assert_in_range(addresses[i], NET + 1, NET + 65534);
		assert_int_equal(taken[addresses[i] - NET]++, 0);
	}
	for (size_t i = 0; i < NAME_TABLE_MAX; i++) {
		struct host_name name = name_of(i);

		assert_int_equal(name_table_add(&t, &name, &again), 0);
		assert_int_equal(again, addresses[i]);
		assert_true(name_table_find_address(&t, again, &found));
		assert_string_equal(found.text, name.text);
		assert_int_equal(found.n, name.n);
	}
	for (uint32_t i = 0; i < 65536; i++)
		if (!taken[i])
			assert_false(name_table_find_address(&t, NET + i, &found));
	assert_false(name_table_find_address(&t, NET - 1, &found));
	assert_false(name_table_find_address(&t, NET + 65536 + 5, &found));
	/* a name too many costs no memory */
	slots = t.n_slots;
	found = name_of(NAME_TABLE_MAX);
	assert_int_equal(name_table_add(&t, &found, &again), -ENOSPC);
	assert_int_equal(t.n_slots, slots);
	assert_int_equal(slots, 2 * NAME_TABLE_MAX);
	name_table_fini(&t);
}

static void long_names_fill_it_earlier(void **)
{
	struct name_table t;
	struct host_name name = {};
	uint32_t address;
	size_t n = 0;
	int r;

	name_table_init(&t, key, NET, 10);
	do {
		char text[HOST_NAME_MAX_LEN + 1];

		memset(text, 'a', HOST_NAME_MAX_LEN);
		for (size_t i = 63; i < HOST_NAME_MAX_LEN; i += 64)
			text[i] = '.';
		text[HOST_NAME_MAX_LEN] = 0;
		for (size_t i = 0, v = n; i < 6; i++, v /= 10)
			text[i] = (char)('a' + v % 10);
		assert_int_equal(host_name_parse(slice_of(text), &name), 0);
		r = name_table_add(&t, &name, &address);
		n += r == 0;
	} while (r == 0);
	assert_int_equal(r, -ENOSPC);
	assert_int_equal(n, NAME_TABLE_BYTES_MAX / (HOST_NAME_MAX_LEN + 1));
	name = name_of(1);
	name_table_fini(&t);
}

/* Whatever the order, as long as no two have the same hash. */
static void the_address_is_that_of_the_name(void **)
{
	struct name_table a, b;
	struct host_name one = name_of(1), two = name_of(2);
	uint32_t a1, a2, b1, b2;

	name_table_init(&a, key, NET, 10);
	name_table_init(&b, key, NET, 10);
	assert_int_equal(name_table_add(&a, &one, &a1) | name_table_add(&a, &two, &a2), 0);
	assert_int_equal(name_table_add(&b, &two, &b2) | name_table_add(&b, &one, &b1), 0);
	assert_int_equal(a1, b1);
	assert_int_equal(a2, b2);
	assert_int_equal(a1, NET + 1 + siphash(key, one.text, one.n) % ((1 << 22) - 2));
	name_table_fini(&a);
	name_table_fini(&b);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_hash_is_siphash),
		cmocka_unit_test(a_name_keeps_its_address),
		cmocka_unit_test(long_names_fill_it_earlier),
		cmocka_unit_test(the_address_is_that_of_the_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
