/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "text/hex.h"
#include "unit.h"

static void every_byte_comes_back(void **)
{
	uint8_t in[256], out[256] = {};
	char text[2 * sizeof(in) + 1];

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)i;
	hex_encode(in, sizeof(in), text);
	assert_int_equal(strlen(text), 2 * sizeof(in));
	assert_memory_equal(text, "000102", 6);
	assert_string_equal(text + 2 * sizeof(in) - 6, "fdfeff");
	assert_int_equal(hex_decode(text, strlen(text), out, sizeof(out)), 0);
	assert_memory_equal(in, out, sizeof(in));
}

static void has_one_spelling(void **)
{
	static const char *const bad[] = { "", "0", "000", "0g", "0G", "0A", "0 ", "-1", "0x" };
	uint8_t out = 7;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		row_check(i, hex_decode(bad[i], strlen(bad[i]), &out, 1) == -EINVAL && out == 7);
	assert_int_equal(hex_decode("0\0", 2, &out, 1), -EINVAL); /* not the end of the digits */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_comes_back),
		cmocka_unit_test(has_one_spelling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
