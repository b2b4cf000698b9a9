/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/refusal.h"
#include "unit.h"

static void from(struct refusals *r, enum push_refusal why, unsigned peer, uint8_t key, unsigned n)
{
	uint8_t bytes[16] = { (uint8_t)(peer >> 8), (uint8_t)peer, 1 };
	struct id id = { ID_KEY, { key } };

	while (n--)
		refusal_add(r, why, bytes, key ? &id : NULL);
}

static void it_sums_up_by_peer_reason_and_key(void **)
{
	static struct refusals r;
	uint64_t sum = 0;
	unsigned n = 0;
	struct push p;

	assert_false(refusal_remove_next(&r, &p));
	from(&r, PUSH_NO_CREDENTIAL, 1, 0, 5);
	from(&r, PUSH_NO_CREDENTIAL, 2, 0, 7);
	from(&r, PUSH_NO_SCOPE, 1, 1, 11);
	from(&r, PUSH_NO_SCOPE, 1, 2, 13);
	from(&r, PUSH_NO_CREDENTIAL, 1, 0, 5);
	for (; refusal_remove_next(&r, &p); n++) {
		static const uint32_t want[] = { 7, 10, 13, 11 };

		row_check(n, n < ARRAY_SIZE(want) && p.number == want[n]);
		assert_int_equal(p.kind, PUSH_REFUSED);
		assert_int_equal(p.value, n < 2 ? PUSH_NO_CREDENTIAL : PUSH_NO_SCOPE);
		assert_int_equal(p.id.noun, n < 2 ? ID_NONE : ID_KEY);
		assert_int_equal(p.secret[1], n == 0 ? 2 : 1);
		sum += p.number;
	}
	assert_int_equal(n, 4);
	assert_int_equal(sum, 41);
	assert_false(refusal_remove_next(&r, &p)); /* told once */
}

/* The whole world at once is still one table, and nobody is lost. */
static void a_flood_is_bounded(void **)
{
	static struct refusals r;
	uint64_t sum = 0, several = 0;
	unsigned n = 0;
	struct push p;

	for (unsigned i = 0; i < 20000; i++)
		from(&r, PUSH_TOO_OFTEN, i, 0, 1);
	while (refusal_remove_next(&r, &p)) {
		uint8_t bytes[PUSH_SIZE];

		push_encode(&p, bytes);
		assert_int_equal(push_decode(bytes, &p), 0);
		n++;
		sum += p.number;
		several += p.secret[2] ? 0 : p.number;
	}
	assert_int_equal(n, REFUSALS_MAX + 1);
	assert_int_equal(sum, 20000);
	assert_int_equal(several, 20000 - REFUSALS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_sums_up_by_peer_reason_and_key),
		cmocka_unit_test(a_flood_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
