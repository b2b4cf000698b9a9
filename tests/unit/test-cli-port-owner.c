/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/port-owner.h"
#include "unit.h"

#define HEAD \
	"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  " \
	"timeout\n"
#define LINE(at, st, uid) \
	"   0: " at " 00000000:0000 " st " 00000000:00000000 00:00000000 00000000  " uid \
	"        0 12345 1 0000000000000000 100 0 0 10 0\n"
#define V6 "00000000000000000000000001000000:1B9E"

static int check(const char *text)
{
	static const unsigned uids[] = { 0, 998 };

	return port_owner_check_table(slice_of(text), 7070, uids, ARRAY_SIZE(uids));
}

static void those_of_ours_are_counted(void **)
{
	assert_int_equal(check(""), 0);
	assert_int_equal(check(HEAD), 0);
	assert_int_equal(check(HEAD LINE("0100007F:1B9E", "0A", "998")), 1);
	assert_int_equal(check(HEAD LINE("0100007F:1B9E", "0A", "  0") LINE(V6, "0A", "998")), 2);
}

static void what_is_not_that_port_or_does_not_listen_is_nothing(void **)
{
	assert_int_equal(check(HEAD LINE("0100007F:1B9F", "0A", "1000")), 0);
	assert_int_equal(check(HEAD LINE("0100007F:1B9E", "01", "1000")), 0);
	assert_int_equal(check(HEAD "0: 0100007F:1B9E\n\n   \n"), 0);
}

static void a_stranger_is_refused(void **)
{
	assert_int_equal(check(HEAD LINE("0100007F:1B9E", "0A", "1000")), -EACCES);
	assert_int_equal(check(HEAD LINE("0100007F:1B9E", "0A", "998") LINE(V6, "0A", "1000")),
			 -EACCES);
	assert_int_equal(check("0: 0100007F:1B9E 0:0 0A\n"), -EACCES);
	assert_int_equal(check("0: 0100007F:1B9E 0:0 0A 0:0 0:0 0 x\n"), -EACCES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(those_of_ours_are_counted),
		cmocka_unit_test(what_is_not_that_port_or_does_not_listen_is_nothing),
		cmocka_unit_test(a_stranger_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
