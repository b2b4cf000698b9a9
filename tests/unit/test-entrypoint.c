/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "unit.h"
#include "wire/entrypoint.h"

static const struct entrypoint_status sample = {
	.state = ENTRYPOINT_ENDED,
	.exit_code = 3,
	.exec = { ID_EXEC, { 0, 1, 0, 2, [14] = 0xff } },
};
static const uint8_t golden[ENTRYPOINT_STATUS_SIZE] = {
	'C', 'A', 'Y', 'E', 2, 0, 3, 0, ID_EXEC, 0, 1, 0, 2, [23] = 0xff,
};

static void the_bytes_are_fixed(void **)
{
	uint8_t out[ENTRYPOINT_STATUS_SIZE];
	struct entrypoint_status back;

	entrypoint_status_encode(&sample, out);
	assert_memory_equal(out, golden, sizeof(golden));
	assert_int_equal(entrypoint_status_decode(golden, sizeof(golden), &back), 0);
	assert_memory_equal(&back, &sample, sizeof(back));
}

static void anything_else_is_refused(void **)
{
	static const struct {
		size_t at;
		uint8_t value;
	} bad[] = {
		{ 0, 'X' },                /* magic */
		{ 4, ENTRYPOINT_NONE },    /* none was started: that is a 404 */
		{ 4, 3 },                  /* a state there is not */
		{ 4, ENTRYPOINT_RUNNING }, /* it runs, and has an exit code */
		{ 5, 9 },                  /* a signal and an exit code */
		{ 7, 1 },                  /* where nothing is */
		{ 31, 1 },
		{ 8, ID_SANDBOX }, /* not the id of an exec */
	};
	uint8_t in[ENTRYPOINT_STATUS_SIZE + 1] = {};
	struct entrypoint_status e;

	memcpy(in, golden, sizeof(golden));
	for (size_t n = 0; n <= sizeof(in); n++)
		assert_int_equal(entrypoint_status_decode(in, n, &e),
				 n == ENTRYPOINT_STATUS_SIZE ? 0 : -EPROTO);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		memcpy(in, golden, sizeof(golden));
		in[bad[i].at] = bad[i].value;
		row_check(i, entrypoint_status_decode(in, ENTRYPOINT_STATUS_SIZE, &e) == -EPROTO);
	}
	memcpy(in, golden, sizeof(golden));
	in[6] = 0;
	in[5] = 64;
	assert_int_equal(entrypoint_status_decode(in, ENTRYPOINT_STATUS_SIZE, &e), 0);
	in[5] = 65;
	assert_int_equal(entrypoint_status_decode(in, ENTRYPOINT_STATUS_SIZE, &e), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_bytes_are_fixed),
		cmocka_unit_test(anything_else_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
