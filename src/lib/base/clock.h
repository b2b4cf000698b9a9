/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BASE_CLOCK_H
#define CAY_BASE_CLOCK_H
/* clock - the current time, replaceable in tests.  Deadlines use CLOCK_BOOTTIME (it continues while
 * the machine sleeps and never jumps); wall time is for people and tokens only.  A deadline that
 * outlives the process is stored with its boot id. */
#include <stdint.h>

#include "base/mem.h"

#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

struct clk {
	uint64_t (*boot_ns)(const struct clk *c); /* since boot, for deadlines */
	uint64_t (*wall_ns)(const struct clk *c); /* since 1970, for people */
};

extern const struct clk clk_system;

/* A clock that stands still until it is set.  Pass &t.clk. */
struct clk_test {
	struct clk clk;
	uint64_t boot, wall;
};

struct clk_test clk_test_create(uint64_t boot_ns, uint64_t wall_ns);
/* Time passes: both hands move. */
void clk_test_advance(struct clk_test *t, uint64_t ns);

static inline uint64_t clk_boot_ns(const struct clk *c)
{
	return c->boot_ns(c);
}

static inline uint64_t clk_wall_ns(const struct clk *c)
{
	return c->wall_ns(c);
}

#define CLK_TEXT_LEN 24
/* RFC 3339 in UTC with milliseconds: 2026-11-15T01:50:43.123Z.  Wall times past
 * the year 9999 are written as its last millisecond. */
void clk_format_rfc3339(uint64_t wall_ns, char ret[static CLK_TEXT_LEN + 1]);

#define BOOT_ID_LEN 36
/* This boot's id, as the kernel spells it. */
[[nodiscard]] int clk_read_boot_id(char ret[static BOOT_ID_LEN + 1]);
#endif
