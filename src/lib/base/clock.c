/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>

static uint64_t clk_read_ns(clockid_t id)
{
	struct timespec ts;
	int r = clock_gettime(id, &ts);

	assert(r == 0);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static uint64_t clk_system_boot_ns(const struct clk *)
{
	return clk_read_ns(CLOCK_BOOTTIME);
}

static uint64_t clk_system_wall_ns(const struct clk *)
{
	return clk_read_ns(CLOCK_REALTIME);
}

const struct clk clk_system = { clk_system_boot_ns, clk_system_wall_ns };

static const struct clk_test *clk_test_from_clk(const struct clk *c)
{
	static_assert(offsetof(struct clk_test, clk) == 0);
	return (const void *)c;
}

static uint64_t clk_test_boot_ns(const struct clk *c)
{
	return clk_test_from_clk(c)->boot;
}

static uint64_t clk_test_wall_ns(const struct clk *c)
{
	return clk_test_from_clk(c)->wall;
}

struct clk_test clk_test_create(uint64_t boot_ns, uint64_t wall_ns)
{
	return (struct clk_test){ { clk_test_boot_ns, clk_test_wall_ns }, boot_ns, wall_ns };
}

void clk_test_advance(struct clk_test *t, uint64_t ns)
{
	t->boot += ns;
	t->wall += ns;
}

void clk_format_rfc3339(uint64_t wall_ns, char ret[static CLK_TEXT_LEN + 1])
{
	static constexpr uint64_t LAST_MS = UINT64_C(253402300799999);
	uint64_t ms = wall_ns / NS_PER_MS;
	struct tm tm = {};
	time_t sec;
	int n;

	if (ms > LAST_MS)
		ms = LAST_MS;
	sec = (time_t)(ms / 1000);
	(void)gmtime_r(&sec, &tm);
	/* the casts show the compiler that every number has two digits */
	n = snprintf(ret, CLK_TEXT_LEN + 1, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ",
		     (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)(tm.tm_mon + 1) % 100,
		     (unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100,
		     (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100, (unsigned)(ms % 1000));
	assert(n == CLK_TEXT_LEN);
}

int clk_read_boot_id(char ret[static BOOT_ID_LEN + 1])
{
	auto_close int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, ret, BOOT_ID_LEN);
	if (n != BOOT_ID_LEN)
		return n < 0 ? -errno : -EIO;
	ret[BOOT_ID_LEN] = 0;
	return 0;
}
