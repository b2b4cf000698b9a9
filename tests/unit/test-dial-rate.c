/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "egress/dial-rate.h"
#include "unit.h"

static struct id tenant_of(unsigned i)
{
	struct id id = { .noun = ID_TENANT };

	memcpy(id.bits, &i, sizeof(i));
	return id;
}

static unsigned take_all(struct dial_rates *r, const struct id *tenant, uint64_t now)
{
	unsigned n = 0;

	while (n < 100000 && dial_rates_take(r, tenant, now))
		n++;
	return n;
}

static void test_a_tenant_has_its_own(void **)
{
	struct dial_rates r = {};
	struct id a = tenant_of(1), b = tenant_of(2);
	uint64_t now = 5 * NS_PER_S;

	assert_int_equal(take_all(&r, &a, now), DIAL_RATE_PER_S);
	assert_int_equal(take_all(&r, &b, now), DIAL_RATE_PER_S);
	assert_int_equal(take_all(&r, &a, now + NS_PER_S / 2), DIAL_RATE_PER_S / 2);
	/* it saves nothing up */
	assert_int_equal(take_all(&r, &a, now + 100 * NS_PER_S), DIAL_RATE_PER_S);
	dial_rates_fini(&r);
}

static void test_it_remembers_no_more_than_it_must(void **)
{
	struct dial_rates r = {};
	struct id last = tenant_of(DIAL_RATE_TENANTS + 1);

	for (unsigned i = 1; i <= DIAL_RATE_TENANTS; i++) {
		struct id id = tenant_of(i);

		assert_true(dial_rates_take(&r, &id, NS_PER_S));
	}
	assert_false(dial_rates_take(&r, &last, NS_PER_S));
	assert_true(dial_rates_take(&r, &last, 2 * NS_PER_S));
	dial_rates_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_tenant_has_its_own),
		cmocka_unit_test(test_it_remembers_no_more_than_it_must),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
