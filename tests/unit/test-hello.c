/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "unit.h"
#include "wire/hello.h"

static const struct hello sample = {
	.proto_min = 1,
	.proto_max = 3,
	.features = UINT64_C(0x8000000000000005),
	.build = { 0xde, 0xad, [15] = 0xff },
};
static const uint8_t golden[HELLO_SIZE] = {
	'C', 'A', 'Y', 'H', 1, 0, 3, 0, 5, 0, 0, 0, 0, 0, 0, 0x80, 0xde, 0xad, [31] = 0xff,
};

static void the_bytes_are_fixed(void **)
{
	uint8_t out[HELLO_SIZE];
	struct hello back;

	hello_encode(&sample, out);
	assert_memory_equal(out, golden, sizeof(golden));
	assert_int_equal(hello_decode(golden, sizeof(golden), &back), 0);
	assert_memory_equal(&back, &sample, sizeof(back));
}

static void anything_else_is_refused(void **)
{
	uint8_t bad[HELLO_SIZE + 1];
	struct hello h;

	memcpy(bad, golden, sizeof(golden));
	for (size_t n = 0; n <= sizeof(bad); n++)
		assert_int_equal(hello_decode(bad, n, &h), n == HELLO_SIZE ? 0 : -EPROTO);
	bad[0] ^= 1;
	assert_int_equal(hello_decode(bad, HELLO_SIZE, &h), -EPROTO);
	memcpy(bad, golden, sizeof(golden));
	bad[4] = 0; /* version 0 */
	assert_int_equal(hello_decode(bad, HELLO_SIZE, &h), -EPROTO);
	bad[4] = 4; /* min above max */
	assert_int_equal(hello_decode(bad, HELLO_SIZE, &h), -EPROTO);
}

static void the_highest_common_version_is_spoken(void **)
{
	static const struct {
		uint16_t their_min, their_max, our_min, our_max;
		int want;
	} cases[] = {
		{ 1, 1, 1, 1, 1 },
		{ 1, 5, 2, 3, 3 },
		{ 2, 3, 1, 5, 3 },
		{ 3, 9, 1, 3, 3 },
		{ 4, 9, 1, 3, -EPROTONOSUPPORT },
		{ 1, 2, 3, 5, -EPROTONOSUPPORT },
		{ 1, 65535, 65533, 65535, 65535 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct hello h = { .proto_min = cases[i].their_min,
				   .proto_max = cases[i].their_max };

		row_check(i, hello_choose_version(&h, cases[i].our_min, cases[i].our_max) ==
				     cases[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_bytes_are_fixed),
		cmocka_unit_test(anything_else_is_refused),
		cmocka_unit_test(the_highest_common_version_is_spoken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
