/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reclaim - write the memory of a sandbox that dozes to swap
 *
 * The kernel frees some pages in one call and gives up early, because pages on their way to the
 * disk are not free yet; so it is asked until nothing more comes.  A call is cut off by a timer:
 * between two of them a thaw, a removal or the end of the swap is noticed.  Nothing waits for a
 * reclaim: the sandbox's lock is held only until swap is allowed, and a thaw does not look at it.
 */
#include <fcntl.h>
#include <linux/ioprio.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/path.h"
#include "keeper/keeper-sandbox.h"

#define SLICE_US 50000
#define PAUSE_MS 20
#define IDLE_SLICES 10 /* that free less than LITTLE, until it is done */
#define LITTLE KIB(256)
#define LONGEST_NS (300 * NS_PER_S)

static void on_reclaim_alarm(int) {}

/* Only for what nobody else wants; a process cannot always undo this, so the worker exits. */
static void reclaim_set_idle(void)
{
	(void)sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){});
	(void)syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0,
		      IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
}

static bool swap_has_room(void)
{
	struct sysinfo now;

	return sysinfo(&now) == 0 && now.freeswap;
}

/* One call, for at most SLICE_US.  It fails where the kernel freed less than was asked for. */
static void reclaim_slice(int fd, const char *text)
{
	static const struct itimerval on = { { 0, SLICE_US }, { 0, SLICE_US } }, off = {};

	(void)setitimer(ITIMER_REAL, &on, NULL);
	(void)!write(fd, text, strlen(text));
	(void)setitimer(ITIMER_REAL, &off, NULL);
}

static int reclaim_until_thawed(const struct cgroup *c)
{
	bool v1 = c->v1[CG_MEMORY] >= 0;
	int dir = v1 ? c->v1[CG_MEMORY] : c->v2, r = 0;
	auto_close int fd =
		path_open(dir, v1 ? "memory.force_empty" : "memory.reclaim", O_WRONLY, 0);
	uint64_t end = clk_boot_ns(&clk_system) + LONGEST_NS, before = 0, after = 0;
	unsigned idle = 0;
	char text[24];

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd; /* Linux before 5.19 with v2 */
	while (idle < IDLE_SLICES && sandbox_cgroup_is_frozen(c) && swap_has_room() &&
	       clk_boot_ns(&clk_system) < end) {
		r = cgroup_read_memory_usage(dir, v1, &before);
		if (r < 0 || !before)
			break;
		if (snprintf(text, sizeof(text), "%llu", (unsigned long long)(v1 ? 0 : before)) >=
		    (int)sizeof(text))
			return -EINVAL;
		reclaim_slice(fd, text);
		r = failpoint_hit(FAULT_RECLAIM_SLICE);
		if (r >= 0)
			r = cgroup_read_memory_usage(dir, v1, &after);
		if (r < 0)
			break;
		idle = after + LITTLE > before ? idle + 1 : 0;
		if (idle) /* pages being written are free a moment later */
			(void)poll(NULL, 0, PAUSE_MS);
	}
	return r == -ENOENT || r == -ENODEV ? 0 : r; /* it was removed meanwhile */
}

/* reclaim: less memory for a sandbox that does not run.  An attacker who owns cayd can make any
 * frozen sandbox slow once, and fill the swap. */
int verb_reclaim(const struct keeper *k, const void *request, int, struct verb_result *,
		 struct cay_err *err)
{
	const struct verb_sandbox *q = request;
	const struct sigaction act = { .sa_handler = on_reclaim_alarm }; /* without SA_RESTART */
	auto_keeper_sandbox b = KEEPER_SANDBOX_INIT;
	int r = keeper_sandbox_open(k, &q->sandbox, q->generation, &b, err);

	if (r < 0)
		return r;
	if (b.cgroup.v2 < 0 || !sandbox_cgroup_is_frozen(&b.cgroup) || !swap_has_room())
		return 0;
	r = sandbox_cgroup_allow_swap(&b.cgroup); /* locked: a thaw comes after it, and settles */
	cay_closep(&b.dir);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "allow swap to %s", b.name);
	if (sigaction(SIGALRM, &act, NULL) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "set a handler");
	reclaim_set_idle();
	r = reclaim_until_thawed(&b.cgroup);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "reclaim memory of %s", b.name) : 0;
}
