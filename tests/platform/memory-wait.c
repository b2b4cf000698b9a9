/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory-wait - a process that wants more memory waits until its cgroup gets it, and lives
 *
 * Leans on it: a tenant that may grow while another has all waits until the memory guard has taken
 * memory from that one (docs/adr/0061).  On v2 memory.high slows down whatever is above it, on v1
 * nothing is killed at a limit whose memory.oom_control is 1.
 *
 * Checked: a child that touches 64 MiB with 16 has not got there after a third of a second and is
 * alive; it gets there soon after the limit is raised.
 *
 * If it failed: the child would be killed by a limit before the guard can raise it.
 */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "platform.h"

#define BYTES ((size_t)64 << 20)
#define V1 "/sys/fs/cgroup/memory"

struct wait_case {
	int dir;
	const char *limit, *none;
};

static void touch_all(const struct wait_case *c)
{
	char *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || platform_put(c->dir, "cgroup.procs", "0") < 0)
		platform_die("join");
	memset(p, 1, BYTES);
	_exit(0);
}

static bool has_ended(void *arg)
{
	struct pollfd p = { .fd = ((const struct child *)arg)->pidfd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

static void check_waits(const struct wait_case *c)
{
	struct child child;

	NEED(platform_put(c->dir, c->limit, "16777216") >= 0, "%s", c->limit);
	if (platform_fork(&child) == 0)
		touch_all(c);
	CHECK(!platform_wait(has_ended, &child, 300), "%s: it waits", c->limit);
	CHECK(platform_put(c->dir, c->limit, c->none) >= 0, "%s: raise it", c->limit);
	CHECK(platform_wait(has_ended, &child, 20000), "%s: it goes on", c->limit);
	CHECK(platform_reap(&child) == 0, "%s: and was not killed", c->limit);
}

static void check_v1(const struct plat *p)
{
	auto_close int root = open(V1, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct wait_case c = { -EBADF, "memory.limit_in_bytes", "-1" };

	NEED(root >= 0 && mkdirat(root, p->name, 0755) >= 0, "mkdir " V1 "/%s", p->name);
	c.dir = openat(root, p->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	NEED(c.dir >= 0 && platform_put(c.dir, "memory.oom_control", "1") >= 0, "oom_control");
	check_waits(&c);
	(void)close(c.dir);
	CHECK(unlinkat(root, p->name, AT_REMOVEDIR) == 0, "remove it");
}

static void check_v2(const struct plat *p)
{
	struct wait_case c = { -EBADF, "memory.high", "max" };

	platform_mkdir(p->cgroup_fd, "own", 0755);
	platform_mkdir(p->cgroup_fd, "slow", 0755);
	NEED(platform_put(p->cgroup_fd, "own/cgroup.procs", "0") >= 0, "leave");
	NEED(platform_put(p->cgroup_fd, "cgroup.subtree_control", "+memory") >= 0, "+memory");
	c.dir = openat(p->cgroup_fd, "slow", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	NEED(c.dir >= 0, "open");
	check_waits(&c);
	(void)close(c.dir);
}

static void body(const struct plat *p)
{
	/* by the path, because the fd may lead nowhere above */
	auto_close int root = open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (access(V1, F_OK) == 0) {
		check_v1(p);
		return;
	}
	NEED(platform_put(root, "cgroup.subtree_control", "+memory") >= 0,
	     "+memory below the root");
	check_v2(p);
}

int main(int argc, char **argv)
{
	return platform_main(argc, argv, body);
}
