/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/clock.h"
#include "edge/rate.h"
#include "unit.h"

static unsigned take(struct rate_limiter *r, const char *who, unsigned n, uint64_t now)
{
	unsigned got = 0;

	while (n--)
		got += rate_limiter_try_acquire(r, who, strlen(who), now);
	return got;
}

static void so_many_at_once_and_then_so_many_a_second(void **)
{
	struct rate_limiter *r = rate_limiter_new(600, 20);
	uint64_t now = 1000 * NS_PER_S;

	assert_int_equal(take(r, "a", 100, now), 20);
	assert_int_equal(take(r, "a", 100, now), 0);
	assert_int_equal(take(r, "a", 100, now + NS_PER_S), 10);
	assert_int_equal(take(r, "a", 100, now + NS_PER_S + NS_PER_S / 10), 1);
	/* who waits long has no more than all of them */
	assert_int_equal(take(r, "a", 100, now + 1000 * NS_PER_S), 20);
	rate_limiter_free(r);
}

static void everybody_has_their_own(void **)
{
	struct rate_limiter *r = rate_limiter_new(600, 20);
	uint64_t now = 1000 * NS_PER_S;

	assert_int_equal(take(r, "a", 100, now), 20);
	assert_int_equal(take(r, "b", 100, now), 20);
	assert_int_equal(take(r, "", 100, now), 20);
	rate_limiter_free(r);
}

/* Ten strangers for each bucket do not give somebody who is at the end more. */
static void strangers_do_not_wash_it_full(void **)
{
	struct rate_limiter *r = rate_limiter_new(60, 10);
	uint64_t now = 1000 * NS_PER_S;
	char who[16];

	assert_int_equal(take(r, "a", 100, now), 10);
	for (unsigned i = 0; i < 10 * RATE_BUCKETS; i++) {
		assert_true(snprintf(who, sizeof(who), "s%u", i) > 0);
		(void)rate_limiter_try_acquire(r, who, strlen(who), now);
	}
	assert_int_equal(take(r, "a", 100, now), 0);
	rate_limiter_free(r);
}

static void who_has_none_left_is_known_before(void **)
{
	struct rate_limiter *r = rate_limiter_new(10, 10);
	uint64_t now = 1000 * NS_PER_S;
	unsigned held = 0;
	char who[16];

	assert_false(rate_limiter_is_exhausted(r, "a", 1, now));
	assert_int_equal(take(r, "a", 9, now), 9);
	assert_false(rate_limiter_is_exhausted(r, "a", 1, now));
	assert_int_equal(take(r, "a", 9, now), 1);
	assert_true(rate_limiter_is_exhausted(r, "a", 1, now));
	assert_false(rate_limiter_is_exhausted(r, "b", 1, now));
	assert_true(rate_limiter_is_exhausted(r, "a", 1, now + 6 * NS_PER_S - 1));
	assert_false(rate_limiter_is_exhausted(r, "a", 1, now + 6 * NS_PER_S));
	/* every bucket is somebody's who has none left: nobody else is held for that */
	for (unsigned i = 0; i < 40 * RATE_BUCKETS; i++) {
		assert_true(snprintf(who, sizeof(who), "s%u", i / 10) > 0);
		(void)rate_limiter_try_acquire(r, who, strlen(who), now);
	}
	for (unsigned i = 0; i < 1000; i++) {
		assert_true(snprintf(who, sizeof(who), "n%u", i) > 0);
		held += rate_limiter_is_exhausted(r, who, strlen(who), now);
	}
	assert_int_equal(held, 0);
	rate_limiter_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_has_none_left_is_known_before),
		cmocka_unit_test(so_many_at_once_and_then_so_many_a_second),
		cmocka_unit_test(everybody_has_their_own),
		cmocka_unit_test(strangers_do_not_wash_it_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
