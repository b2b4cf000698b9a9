/* SPDX-License-Identifier: Apache-2.0 */
/* Ceilings of tenants by hand-made numbers: who may grow, who has to wait, who has to give. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cgroup/cgroup.h"
#include "cgroup/memory-tenants.h"
#include "unit.h"

#define ALL MIB(1024)
#define MARGIN MIB(64)

static void room_is_shared_while_there_is_some(void **)
{
	struct memory_share s[] = { { .need = MIB(100) }, { .need = MIB(300) } };

	memory_shares_settle(s, 2, ALL, MIB(400));
	assert_int_equal(memory_share_margin(ALL), MARGIN);
	assert_int_equal(memory_share_room(ALL, MIB(400)), MIB(560));
	assert_int_equal(s[0].slow, MIB(100 + 560 + 16));
	assert_int_equal(s[0].ceiling, MIB(100 + 560 + 48));
	assert_int_equal(s[1].ceiling, MIB(300 + 560));
	assert_true(s[1].slow == MEMORY_SHARE_NONE);
}

/* Also when it is as quick as can be: it meets its ceiling and the others still have the margin. */
static void one_that_takes_all_leaves_the_margin(void **)
{
	struct memory_share s[] = { { .need = MIB(300) }, { .need = MIB(660) } };

	memory_shares_settle(s, 2, ALL, MIB(960));
	assert_int_equal(s[1].ceiling, MIB(660));
	assert_int_equal(s[0].ceiling, MIB(300) + MARGIN / 4 * 3);
	assert_int_equal(s[0].slow, MIB(300) + MARGIN / 4);
}

static void the_largest_gives_when_the_margin_is_used(void **)
{
	struct memory_share s[] = { { .need = MIB(340) }, { .need = MIB(660) } };

	memory_shares_settle(s, 2, ALL, MIB(1000));
	assert_int_equal(s[1].ceiling, MIB(660) - (MARGIN - MIB(24)));
	/* the other goes on, into what is left of the margin */
	assert_true(s[0].slow > s[0].need && s[0].ceiling > s[0].slow);
	assert_true(s[0].ceiling < s[0].need + MIB(24));
}

/* Three that grow by all they may, again and again, before one process of the largest is gone:
 * none of them reaches the limit of all by itself, and no ceiling but the largest's is below what
 * its tenant has. */
static void only_the_largest_loses(void **)
{
	struct memory_share s[] = { { .need = MIB(20) },
				    { .need = MIB(900) },
				    { .need = MIB(30) } };

	for (int i = 0; i < 1000; i++) {
		uint64_t used = s[0].need + s[1].need + s[2].need;
		size_t grows = i % 2 ? 0 : 2;

		memory_shares_settle(s, 3, ALL, used);
		assert_true(s[0].ceiling >= s[0].need && s[2].ceiling >= s[2].need);
		assert_true(used - s[grows].need + s[grows].ceiling <= ALL);
		s[grows].need = s[grows].slow;
		if (i % 10 == 9 && s[1].ceiling < s[1].need)
			s[1].need = s[1].ceiling;
		if (s[0].need > MIB(300) || s[2].need > MIB(300))
			return; /* nearly an equal part */
	}
	fail_msg("%llu", (unsigned long long)s[0].need);
}

/* Whatever the sizes: when memory is full, the one that has to give has at least an equal part. */
static void one_within_its_part_never_gives(void **)
{
	unsigned x = 1;

	for (int i = 0; i < 10000; i++) {
		struct memory_share s[7] = {};
		uint64_t used = 0;

		for (int k = 0; k < 7; k++) {
			x = x * 1103515245 + 12345;
			s[k].need = MIB((x >> 16) % 300);
			used += s[k].need;
		}
		memory_shares_settle(s, 7, ALL, used);
		for (int k = 0; k < 7; k++)
			assert_true(s[k].ceiling >= s[k].need || s[k].need >= (ALL - MARGIN) / 7);
	}
}

/* One has all but the margin, one has come later and has a mind to grow, one is idle. */
static void settle_three(bool v1, struct memory_tenant ret[static 3])
{
	struct memory_share s[] = { { .need = MIB(20) }, { .need = MIB(940) }, {} };
	struct memory_tenant of[] = { { .need = MIB(20), .cache = MIB(7), .in_use = true },
				      { .need = MIB(940), .in_use = true },
				      {} };
	struct memory_tenants t = { .v1 = v1, .of = of, .shares = s, .n = 3, .n_in_use = 2 };

	memory_shares_settle(s, 3, ALL, MIB(960));
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(memory_tenant_is_largest(&t, i), i == 1);
		ret[i] = memory_tenant_settle(&t, i, ALL, MIB(960));
	}
}

/* However stale what was read: up to an equal part it waits and is not killed. */
static void one_within_its_part_is_not_killed_when_it_grows(void **)
{
	struct memory_tenant want[3];

	settle_three(false, want);
	assert_int_equal(want[0].ceiling, MIB(7) + (ALL - MARGIN) / 2);
	assert_int_equal(want[0].slow, MIB(7 + 20) + MARGIN / 4);
	assert_int_equal(want[0].low, (ALL - MARGIN) / 2);
	assert_int_equal(want[1].ceiling, MIB(940));
	assert_true(want[1].slow == MEMORY_SHARE_NONE);
	settle_three(true, want);
	assert_true(want[0].ceiling == MEMORY_SHARE_NONE);
	assert_int_equal(want[1].ceiling, MIB(940));
}

static void a_machine_without_tenants_has_no_ceilings(void **)
{
	memory_shares_settle(NULL, 0, ALL, 0);
	memory_shares_settle(NULL, 0, ALL, 2 * ALL);
}

/* All CPUs at 2 GiB/s must not fill what is free before the next sweep. */
static void sweeps_come_before_memory_is_used_up(void **)
{
	for (uint64_t used = 0; used < ALL - MARGIN - MIB(200); used += MIB(8)) {
		uint64_t ns = memory_shares_interval_ns(ALL, used, 4);

		assert_true(ns >= 10000000 && ns <= 1000000000);
		assert_true(4.0 * (double)MIB(2048) * (double)ns / 1e9 <= (double)(ALL - used));
	}
	assert_int_equal(memory_shares_interval_ns(ALL, ALL, 4), 10000000);
	assert_int_equal(memory_shares_interval_ns(UINT64_C(1) << 40, 0, 1), 1000000000);
}

static void what_is_in_swap_is_taken_from_the_memory(void **)
{
	static const struct {
		uint64_t limit, in_swap, memory, swap;
	} rows[] = {
		{ MIB(1024), 0, MIB(1024), 0 },
		{ MIB(1024), MIB(10), MIB(1024), MIB(74) },
		{ MIB(1024), MIB(264), MIB(824), MIB(328) },
		{ MIB(1024), MIB(1024), MIB(64), MIB(1024) },
		{ MIB(1024), MIB(4096), MIB(64), MIB(1024) }, /* its limit was lowered */
		{ MIB(80), MIB(50), MIB(40), MIB(60) },
		{ UINT64_MAX, MIB(100), UINT64_MAX - MIB(36), MIB(164) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct memory_split s = memory_split_limit(rows[i].limit, rows[i].in_swap);

		row_check(i, s.memory == rows[i].memory && s.swap == rows[i].swap);
		row_check(i, s.memory <= rows[i].limit && s.swap <= rows[i].limit);
	}
	for (uint64_t swap = 0; swap <= MIB(2048); swap += MIB(1) / 2) {
		struct memory_split s = memory_split_limit(MIB(1024), swap);

		assert_true(s.memory + s.swap <= MIB(1024 + 2 * 64) && s.memory >= MIB(64));
	}
}

static int put_file(int dir, const char *name, const char *text)
{
	auto_close int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	return fd < 0 ? -1 : (int)write(fd, text, strlen(text));
}

static void compressed_devices_are_counted(void **)
{
	char path[] = "/tmp/test-zram-XXXXXX";
	auto_close int dir = -EBADF;
	uint64_t n = 1;

	assert_non_null(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir >= 0);
	assert_int_equal(cgroup_read_compressed(dir, &n), 0);
	assert_int_equal(n, 0);
	for (unsigned i = 0; i < 3; i++) {
		static const char *const names[] = { "loop0", "zram0", "zram12" };

		assert_int_equal(mkdirat(dir, names[i], 0700), 0);
		auto_close int one = openat(dir, names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		assert_true(put_file(one, "mm_stat",
				     "  104857600 31457280    33554432        0 33554432      "
				     "   7        0        0        0\n") > 0);
	}
	assert_int_equal(cgroup_read_compressed(dir, &n), 0);
	assert_int_equal(n, 2 * 33554432);
	for (unsigned i = 0; i < 3; i++) {
		static const char *const names[] = { "loop0", "zram0", "zram12" };
		auto_close int one = openat(dir, names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		assert_int_equal(unlinkat(one, "mm_stat", 0), 0);
		assert_int_equal(unlinkat(dir, names[i], AT_REMOVEDIR), 0);
	}
	assert_int_equal(rmdir(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_in_swap_is_taken_from_the_memory),
		cmocka_unit_test(compressed_devices_are_counted),
		cmocka_unit_test(room_is_shared_while_there_is_some),
		cmocka_unit_test(one_that_takes_all_leaves_the_margin),
		cmocka_unit_test(the_largest_gives_when_the_margin_is_used),
		cmocka_unit_test(only_the_largest_loses),
		cmocka_unit_test(one_within_its_part_never_gives),
		cmocka_unit_test(one_within_its_part_is_not_killed_when_it_grows),
		cmocka_unit_test(a_machine_without_tenants_has_no_ceilings),
		cmocka_unit_test(sweeps_come_before_memory_is_used_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
