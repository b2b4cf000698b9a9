/* SPDX-License-Identifier: Apache-2.0 */
#include "init/proc/ports.h"
#include "unit.h"

#define HEAD \
	"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  " \
	"timeout inode\n"
#define ROW(local, st, uid, inode) \
	"   0: " local " 00000000:0000 " st " 00000000:00000000 00:00000000 00000000  " uid \
	"        0 " inode " 1 0000000000000000 100 0 0 10 0\n"

static void rows_that_listen(void **)
{
	static const char text[] =
		HEAD ROW("0100007F:1F90", "0A", "1000", "77") ROW("00000000:0050", "0A", "0", "78")
			ROW("0100007F:1F91", "01", "0", "79") ROW("0100007F:1F92", "0A", "0", "80");
	struct listener all[4];
	bool more;

	assert_int_equal(listeners_parse(slice_of(text), false, all, 4, &more), 2);
	assert_false(more);
	assert_int_equal(all[0].port, 8080);
	assert_int_equal(all[0].uid, 1000);
	assert_int_equal(all[0].inode, 77);
	assert_true(listener_is_on_loopback(&all[0]) && listener_is_on_loopback(&all[1]));
	assert_int_equal(listeners_parse(slice_of(text), false, all, 1, &more), 1);
	/* cut anywhere: no row that was not there, and never one too many */
	for (size_t n = 0; n < sizeof(text); n++) {
		size_t k = listeners_parse((struct slice){ text, n }, false, all, 4, &more);

		assert_true(k <= 2);
		for (size_t i = 0; i < k; i++)
			assert_int_equal(all[i].port, i ? 80 : 8080);
	}
}

static void where_a_tunnel_gets(void **)
{
	static const struct {
		bool v6;
		const char *local;
		bool reached;
	} rows[] = {
		{ false, "00000000:0050", true },
		{ false, "0100007F:0050", true },
		{ false, "0200007F:0050", false },
		{ false, "0100000A:0050", false },
		{ true, "00000000000000000000000000000000:0050", true },
		{ true, "00000000000000000000000001000000:0050", true },
		{ true, "0000000000000000FFFF00000100007F:0050", true },
		{ true, "0000000000000000FFFF00000200007F:0050", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_buf text = BUF_INIT(512);
		struct listener one;
		bool more;

		assert_int_equal(buf_printf(&text, HEAD "   0: %s 0:0 0A 0:0 0:0 0 0 0 9 1\n",
					    rows[i].local),
				 0);
		assert_int_equal(listeners_parse((struct slice){ text.data, text.len }, rows[i].v6,
						 &one, 1, &more),
				 1);
		assert_int_equal(listener_is_on_loopback(&one), rows[i].reached);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_that_listen),
		cmocka_unit_test(where_a_tunnel_gets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
