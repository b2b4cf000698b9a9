/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/spawn.h"
#include "egress/special-net.h"
#include "unit.h"

static void address_of(const char *text, uint8_t ret[static 16])
{
	char mapped[INET6_ADDRSTRLEN + 7];
	int n = snprintf(mapped, sizeof(mapped), "%s%s", strchr(text, ':') ? "" : "::ffff:", text);

	assert_true(n > 0 && (size_t)n < sizeof(mapped));
	assert_int_equal(inet_pton(AF_INET6, mapped, ret), 1);
}

static void what_is_special(void **)
{
	static const struct {
		const char *text;
		bool special;
	} cases[] = {
		{ "8.8.8.8", false },
		{ "25.192.0.1", false },
		{ "100.63.255.255", false },
		{ "2606:4700::1111", false },
		{ "2a00:1450:4001::1", false },
		{ "64:ff9b::8.8.8.8", false },
		{ "127.0.0.1", true },
		{ "0.0.0.0", true },
		{ "10.1.2.3", true },
		{ "100.64.0.1", true },
		{ "169.254.169.254", true },
		{ "172.31.255.255", true },
		{ "192.168.1.1", true },
		{ "198.19.255.255", true },
		{ "224.0.0.1", true },
		{ "255.255.255.255", true },
		{ "::", true },
		{ "::1", true },
		{ "::8.8.8.8", true },
		{ "64:ff9b::10.0.0.1", true },
		{ "64:ff9b::1:8.8.8.8", true },
		{ "64:ff9b:1::8.8.8.8", true },
		{ "2002:a00:1::", true },
		{ "2002:808:808::", true },
		{ "2001:0:102:304::f5ff:fffe", true }, /* Teredo of 10.0.0.1 */
		{ "2001:db8::1", true },
		{ "3fff:fff::1", true },
		{ "5f00::1", true },
		{ "fd00:ec2::254", true },
		{ "fe80::1", true },
		{ "fec0::1", true },
		{ "ff02::1", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t address[16];

		address_of(cases[i].text, address);
		row_check(i, address_is_special(address) == cases[i].special);
	}
}

static void the_address_behind_a_gateway(void **)
{
	static const char *const pairs[][2] = { { "64:ff9b::192.0.2.1", "192.0.2.1" },
						{ "192.0.2.1", "192.0.2.1" },
						{ "64:ff9b:1::192.0.2.1", "64:ff9b:1::192.0.2.1" },
						{ "2001:db8::1", "2001:db8::1" } };

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		uint8_t address[16], want[16];

		address_of(pairs[i][0], address);
		address_of(pairs[i][1], want);
		address_unmap(address, address);
		row_check(i, memcmp(address, want, 16) == 0);
	}
}

static void python_agrees(void **)
{
	auto_buf script = BUF_INIT(4096);
	const char *argv[] = { "python3", NULL, NULL };
	struct spawn s = SPAWN_INIT("/usr/bin/python3", argv);
	auto_child child = CHILD_INIT;
	uint8_t row[17];
	int fds[2], status;
	size_t rows = 0;
	FILE *in;

	assert_int_equal(buf_printf(&script, "%s/tests/unit/special-net.py", getenv("CAY_SOURCE")),
			 0);
	argv[1] = buf_str(&script);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	s.fds[0] = -1;
	s.fds[1] = fds[1];
	s.fds[2] = STDERR_FILENO;
	s.n_fds = 3;
	assert_int_equal(child_start(&s, &child, NULL), 0);
	(void)close(fds[1]);
	in = fdopen(fds[0], "r");
	assert_non_null(in);
	for (; fread(row, sizeof(row), 1, in) == 1; rows++) {
		char text[INET6_ADDRSTRLEN];

		if (address_is_special(row) != row[16])
			fail_msg("%s", inet_ntop(AF_INET6, row, text, sizeof(text)));
	}
	(void)fclose(in);
	assert_int_equal(child_wait(&child, &status), 0);
	assert_int_equal(status, 0);
	assert_true(rows > 160000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_special),
		cmocka_unit_test(the_address_behind_a_gateway),
		cmocka_unit_test(python_agrees),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
