/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/clock.h"
#include "egress/address-cache.h"
#include "unit.h"

static struct address_cache cache = { .key = { 1, 2, 3 } };
static const struct id one = { ID_TENANT, { 1 } }, other = { ID_TENANT, { 2 } };

static struct host_name name_of(size_t i)
{
	struct host_name name;
	char text[64];
	int n = snprintf(text, sizeof(text), "host-%zu.example.com", i);

	assert_true(n > 0 && (size_t)n < sizeof(text));
	assert_int_equal(host_name_parse(slice_of(text), &name), 0);
	return name;
}

static struct dns_response response_of(uint8_t last, uint32_t ttl)
{
	return (struct dns_response){ .n = 1, .addresses = { { [15] = last } }, .ttl = ttl };
}

static void an_entry_is_good_for_its_time(void **)
{
	struct host_name name = name_of(1);
	struct dns_response r = response_of(7, 60);
	const uint64_t now = 5 * NS_PER_S;
	const struct address_cache_entry *found;

	assert_null(address_cache_find(&cache, &one, &name, now));
	address_cache_add(&cache, &one, &name, &r, now);
	found = address_cache_find(&cache, &one, &name, now + 60 * NS_PER_S - 1);
	assert_non_null(found);
	assert_int_equal(found->n, 1);
	assert_int_equal(found->addresses[0][15], 7);
	assert_null(address_cache_find(&cache, &one, &name, now + 60 * NS_PER_S));

	r = response_of(8, 0);
	address_cache_add(&cache, &one, &name, &r, now);
	assert_null(address_cache_find(&cache, &one, &name, now));
	r = response_of(9, UINT32_MAX);
	address_cache_add(&cache, &one, &name, &r, now);
	found = address_cache_find(&cache, &one, &name, now + 299 * NS_PER_S);
	assert_non_null(found);
	assert_int_equal(found->addresses[0][15], 9);
	assert_null(address_cache_find(&cache, &one, &name, now + 300 * NS_PER_S));
}

static void a_tenant_finds_its_own(void **)
{
	struct host_name name = name_of(2);
	struct dns_response mine = response_of(1, 60), theirs = response_of(2, 60);

	address_cache_add(&cache, &one, &name, &mine, 1);
	for (size_t i = 2; i < 10000; i++) { /* some share its place */
		struct id another = { ID_TENANT, { (uint8_t)i, (uint8_t)(i >> 8) } };

		assert_null(address_cache_find(&cache, &another, &name, 2));
	}
	address_cache_add(&cache, &other, &name, &theirs, 1);
	assert_int_equal(address_cache_find(&cache, &one, &name, 2)->addresses[0][15], 1);
	assert_int_equal(address_cache_find(&cache, &other, &name, 2)->addresses[0][15], 2);
}

/* Many more names than places: what is found is right, and the newest is found. */
static void a_full_cache_forgets(void **)
{
	size_t found = 0;

	for (size_t i = 0; i < 10000; i++) {
		struct host_name name = name_of(i);
		struct dns_response r = response_of((uint8_t)i, 60);

		address_cache_add(&cache, &one, &name, &r, i + 1);
		assert_non_null(address_cache_find(&cache, &one, &name, i + 1));
	}
	for (size_t i = 0; i < 10000; i++) {
		struct host_name name = name_of(i);
		const struct address_cache_entry *entry =
			address_cache_find(&cache, &one, &name, 10000);

		if (!entry)
			continue;
		assert_int_equal(entry->addresses[0][15], (uint8_t)i);
		assert_string_equal(entry->name.text, name.text);
		found++;
	}
	assert_in_range(found, ADDRESS_CACHE_SETS, ADDRESS_CACHE_SETS * ADDRESS_CACHE_WAYS);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_entry_is_good_for_its_time),
		cmocka_unit_test(a_tenant_finds_its_own),
		cmocka_unit_test(a_full_cache_forgets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
