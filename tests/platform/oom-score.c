/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oom-score - a floor for the OOM scores of a sandbox that PID 1 itself is below
 *
 * Leans on it: no process inside can make itself less likely to be killed than those of its
 * neighbours, while PID 1 is killed last (runtime_set_oom_score, docs/adr/0061).  A write of
 * oom_score_adj with CAP_SYS_RESOURCE also moves the floor below which a process without it cannot
 * go, and children inherit the floor; a write of the old oom_adj moves the score alone.
 *
 * Checked: after 1000 and then 8 of 15 the score is 470; a child without the capability may raise
 * itself to 1000, and then neither go back nor anywhere below.  Where root lacks the
 * capability: its own score does not go below the floor that it was given.
 *
 * If it failed: PID 1 would have the score of all others, and be killed where it is the largest.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "platform.h"

static int drop_sys_resource(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {};

	return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

static int score(int proc)
{
	auto_buf text = BUF_INIT(KIB(4));

	return platform_get(proc, "oom_score_adj", &text) ? atoi(buf_str(&text)) : -1; /* NOLINT */
}

/* A bit for each write that had the wrong outcome. */
static int child_tries(void *)
{
	static const char *const refused[] = { "999", "500", "470", "0", "-1000" };
	auto_close int proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int wrong = score(proc) != 470;

	if (drop_sys_resource() < 0)
		return 64;
	wrong |= (platform_put(proc, "oom_score_adj", "1000") < 0) << 1;
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		wrong |= (platform_put(proc, "oom_score_adj", refused[i]) >= 0) << 2;
	wrong |= (platform_put(proc, "oom_adj", "8") >= 0) << 3;
	wrong |= (score(proc) != 1000) << 4;
	return wrong;
}

static void body(const struct plat *)
{
	auto_close int proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	CHECK(platform_put(proc, "oom_score_adj", "1000") >= 0, "a score may always rise");
	if (platform_put(proc, "oom_adj", "8") < 0) {
		/* some machines' root has no CAP_SYS_RESOURCE: dev/guest has one that does */
		CHECK(platform_put(proc, "oom_score_adj", "-1000") < 0,
		      "without the capability it goes no lower than it was given: %d", score(proc));
		return;
	}
	CHECK(score(proc) == 470, "oom_adj moves the score and not the floor: %d", score(proc));
	r = platform_in_child(child_tries, NULL);
	CHECK(r == 0, "a child raises itself to the floor and cannot go below it (%d)", r);
}

int main(int argc, char **argv)
{
	return platform_main(argc, argv, body);
}
