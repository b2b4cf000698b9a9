/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/memory-guard.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/path.h"
#include "cgroup/memory-tenants.h"

#define NO_LIMIT MEMORY_SHARE_NONE
#define RESERVE_PART 16
#define RESERVE_MOST (UINT64_C(2) << 30)
#define BUSY_PART 4 /* it sleeps so many times as long as it worked, also when memory is short */
#define LIMIT_TRIES 8
#define PRESS_MOST_MS 200
#define SAY_AGAIN_NS (5 * NS_PER_S)

struct memory_guard {
	struct keeper *k;
	int created; /* inotify: a new directory has no limits yet */
	int block;   /* the kernel's block devices, of which zram is one */
	bool top_limited, limited;
	uint64_t whole, all, used, margin, nudge; /* whole: with what zram uses */
	uint64_t compressed_ns;                   /* when that was read last */
	unsigned cpus;
	struct memory_tenants tenants;
	struct id blamed;
	uint64_t said_ns;
	uint64_t
		busy_ns; /* it sleeps at least this long: BUSY_PART times the CPU time of reading */
};

uint64_t memory_guard_limit_of_all(uint64_t wanted, uint64_t total, uint64_t reserve)
{
	uint64_t part = total / RESERVE_PART < RESERVE_MOST ? total / RESERVE_PART : RESERVE_MOST;

	if (wanted)
		return wanted;
	if (part < reserve)
		part = reserve;
	return total / 2 > part ? total - part : total / 2;
}

static int memory_guard_write(int dir, const char *name, uint64_t bytes, const char *none)
{
	auto_close int fd = path_open(dir, name, O_WRONLY, 0);
	char text[24];
	int len = bytes == NO_LIMIT
			  ? snprintf(text, sizeof(text), "%s", none)
			  : snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
	ssize_t n;

	if (fd < 0 || len <= 0 || len >= (int)sizeof(text))
		return fd < 0 ? fd : -EINVAL;
	do
		n = write(fd, text, (size_t)len);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

static int memory_guard_write_limit(const struct memory_guard *g, int dir, uint64_t bytes)
{
	return g->tenants.v1 ? memory_guard_write(dir, "memory.limit_in_bytes", bytes, "-1")
			     : memory_guard_write(dir, "memory.max", bytes, "max");
}

/* Every page of this process is there before it joins: a page fault would wait at the limit of all,
 * and this process is to make room. */
[[noreturn]] static void memory_guard_ask_v1(int dir, uint64_t bytes)
{
	auto_close int procs = path_open(dir, "cgroup.procs", O_WRONLY, 0);

	if (procs < 0 || mlockall(MCL_CURRENT) < 0 || write(procs, "0", 1) != 1 ||
	    mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) == MAP_FAILED)
		_exit(1);
	_exit(0);
}

/* v1 refuses a limit below the usage, where v2 would kill.  So a process asks for memory there: the
 * kernel then kills the largest process, as for any other limit.  One that waits is of no use:
 * the next sweep starts another, with a limit that has no room. */
static void memory_guard_press_v1(int dir, uint64_t bytes)
{
	pid_t pid = fork();
	auto_close int pidfd = pid > 0 ? pidfd_open(pid, 0) : -EBADF;
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	if (pid == 0)
		memory_guard_ask_v1(dir, bytes);
	if (pid > 0 && poll(&p, 1, PRESS_MOST_MS) == 0)
		(void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static int on_memory_guard_v1_dir(void *, int dirfd, const char *name)
{
	auto_close int dir = path_open(dirfd, name, O_RDONLY | O_DIRECTORY, 0);

	if (dir >= 0)
		(void)memory_guard_write(dir, "memory.oom_control", 0, "");
	return 0;
}

/* v1: at the limit of all, processes wait and nothing is killed.  A new directory inherits that,
 * and so do sandboxes created in it before this. */
static void memory_guard_enable_kills_v1(int dir)
{
	(void)memory_guard_write(dir, "memory.oom_control", 0, "");
	(void)path_for_each_entry(dir, on_memory_guard_v1_dir, NULL);
}

/* want below its need: processes have to go. */
static void memory_guard_limit_v1(const struct memory_guard *g, int dir,
				  const struct memory_tenant *d, uint64_t want)
{
	uint64_t usage = d->usage;

	if (memory_guard_write_limit(g, dir, want) == 0)
		return;
	/* its present usage and no more: with more, the limit of all could be met first */
	for (int i = 0; i < LIMIT_TRIES && memory_guard_write_limit(g, dir, usage) < 0; i++)
		if (cgroup_read_memory_usage(dir, true, &usage) < 0)
			return;
	if (want < d->need)
		memory_guard_press_v1(dir, d->need - want + KIB(512));
}

/* The kernel kills in a tenant above its limit.  A tenant that may wait (slow) is not to be killed:
 * the bytes that it got since its usage was read are added. */
static void memory_guard_limit_v2(const struct memory_guard *g, int dir, struct memory_tenant *want)
{
	uint64_t usage = 0;

	if (want->slow != NO_LIMIT && cgroup_read_memory_usage(dir, false, &usage) >= 0 &&
	    usage > want->usage)
		want->ceiling += usage - want->usage;
	(void)memory_guard_write_limit(g, dir, want->ceiling);
}

static bool memory_guard_is_near(const struct memory_guard *g, uint64_t a, uint64_t b)
{
	uint64_t slack = g->margin / 16;

	return a == b ||
	       (a && b && a != NO_LIMIT && b != NO_LIMIT && a <= b + slack && b <= a + slack);
}

static void memory_guard_limit_tenant(const struct memory_guard *g, struct memory_tenant *d,
				      struct memory_tenant *want)
{
	char name[ID_TEXT_LEN + 1];
	auto_close int dir = -EBADF;
	bool v1 = g->tenants.v1, ceiling = !memory_guard_is_near(g, d->ceiling, want->ceiling) ||
					   want->ceiling < d->need;
	bool slow = !v1 && !memory_guard_is_near(g, d->slow, want->slow);
	bool low = !v1 && !memory_guard_is_near(g, d->low, want->low);

	if (!ceiling && !slow && !low && (!v1 || d->seen_before))
		return;
	id_format(&d->id, name);
	dir = path_open(g->tenants.top, name, O_RDONLY | O_DIRECTORY, 0);
	if (dir < 0)
		return;
	if (v1 && !d->seen_before)
		memory_guard_enable_kills_v1(dir);
	if (slow)
		(void)memory_guard_write(dir, "memory.high", want->slow, "max");
	if (low)
		(void)memory_guard_write(dir, "memory.low", want->low, "max");
	if (ceiling && v1)
		memory_guard_limit_v1(g, dir, d, want->ceiling);
	else if (ceiling)
		memory_guard_limit_v2(g, dir, want);
	*d = *want;
}

static void memory_guard_blame(struct memory_guard *g, const struct id *tenant, uint64_t need)
{
	uint64_t now = clk_boot_ns(&clk_system);
	char name[ID_TEXT_LEN + 1];

	if (id_eq(&g->blamed, tenant) && now - g->said_ns < SAY_AGAIN_NS)
		return;
	g->blamed = *tenant;
	g->said_ns = now;
	id_format(tenant, name);
	log_warn(&g->k->log,
		 "memory is short: %llu MiB of %llu MiB are in use; tenant %s has %llu MiB and "
		 "gets no more, the kernel kills processes of its sandboxes",
		 (unsigned long long)(g->used >> 20), (unsigned long long)(g->all >> 20), name,
		 (unsigned long long)(need >> 20));
}

static void memory_guard_settle_tenant(struct memory_guard *g, size_t i)
{
	struct memory_tenant want = memory_tenant_settle(&g->tenants, i, g->all, g->used);

	memory_guard_limit_tenant(g, &g->tenants.of[i], &want);
}

/* The largest comes last: its write kills and takes long, and meanwhile the others have to wait. */
static void memory_guard_settle(struct memory_guard *g)
{
	struct memory_tenants *t = &g->tenants;
	size_t largest = t->n;

	memory_shares_settle(t->shares, t->n, g->all, g->used);
	for (size_t i = 0; i < t->n; i++)
		if (memory_tenant_is_largest(t, i))
			largest = i;
		else
			memory_guard_settle_tenant(g, i);
	if (largest == t->n)
		return;
	if (g->used + 2 * g->margin > g->all &&
	    t->shares[largest].need + g->margin / 8 >= t->shares[largest].ceiling)
		memory_guard_blame(g, &t->of[largest].id, t->shares[largest].need);
	memory_guard_settle_tenant(g, largest);
}

static void memory_guard_lift(struct memory_guard *g)
{
	for (size_t i = 0; i < g->tenants.n; i++) {
		struct memory_tenant want = g->tenants.of[i];

		want.ceiling = want.slow = NO_LIMIT;
		memory_guard_limit_tenant(g, &g->tenants.of[i], &want);
	}
}

/* With a lower setting than before, sandboxes may have more: first they are made to give, because
 * the kernel would choose among all. */
static void memory_guard_limit_all(struct memory_guard *g)
{
	if (g->top_limited || g->used + g->margin / 2 > g->all)
		return;
	g->top_limited = memory_guard_write_limit(g, g->tenants.top, g->all) == 0;
	if (g->tenants.v1)
		(void)memory_guard_write(g->tenants.top, "memory.oom_control", 1, "");
}

/* The kernel wakes those that wait at the limit of all when something is freed after they began to
 * wait, or when the limit rises. */
static bool memory_guard_wake_v1(struct memory_guard *g)
{
	if (!g->tenants.v1 || !cgroup_v1_has_waiters(g->tenants.top))
		return false;
	g->nudge = g->nudge ? 0 : KIB(64);
	(void)memory_guard_write_limit(g, g->tenants.top, g->all + g->nudge);
	return true;
}

/* What sandboxes have in compressed swap uses memory that no cgroup is charged with, and it cannot
 * be given to others.  At most half is taken for that: the rest has to be there for who runs. */
static void memory_guard_count_compressed(struct memory_guard *g)
{
	uint64_t now = clk_boot_ns(&clk_system), used = 0, all;

	if (g->block < 0 || (g->compressed_ns && now - g->compressed_ns < NS_PER_S) ||
	    cgroup_read_compressed(g->block, &used) < 0)
		return;
	g->compressed_ns = now;
	all = g->whole - (used < g->whole / 2 ? used : g->whole / 2);
	if (memory_guard_is_near(g, g->all, all))
		return;
	g->all = all;
	g->top_limited = false;
}

/* Returns how long to wait after busy_ns. */
static uint64_t memory_guard_sweep(struct memory_guard *g, bool created)
{
	uint64_t usage = 0, cache = 0, wait;
	clock_t began =
		clock(); /* not of the wall: it has to look more often when others are busy */
	bool limit, changed;

	if (cgroup_read_memory_usage(g->tenants.top, g->tenants.v1, &usage) < 0 ||
	    cgroup_read_memory_cache(g->tenants.top, g->tenants.v1, &cache) < 0)
		return NS_PER_S;
	g->used = usage > cache ? usage - cache : 0;
	memory_guard_count_compressed(g);
	memory_guard_limit_all(g);
	limit = g->used >= g->all / 8 || usage >= g->all / 4 * 3;
	changed = (limit || g->limited || created) && memory_tenants_read(&g->tenants) >= 0;
	/* what follows is rare and urgent */
	g->busy_ns = (uint64_t)(clock() - began) * (NS_PER_S / CLOCKS_PER_SEC) * BUSY_PART;
	if (changed && limit)
		memory_guard_settle(g);
	else if (changed)
		memory_guard_lift(g);
	g->limited = changed ? limit : g->limited;
	wait = memory_shares_interval_ns(g->all, memory_guard_wake_v1(g) ? g->all : g->used,
					 g->cpus);
	return wait > g->busy_ns ? wait - g->busy_ns : 0;
}

/* Until the next sweep is due, or a directory was created; returns whether one was. */
static bool memory_guard_wait(const struct memory_guard *g, uint64_t ns)
{
	struct pollfd p = { .fd = g->created, .events = POLLIN };
	char events[KIB(4)];

	(void)poll(NULL, 0, (int)(g->busy_ns / NS_PER_MS));
	return poll(&p, 1, (int)(ns / NS_PER_MS)) > 0 &&
	       read(g->created, events, sizeof(events)) > 0;
}

static void memory_guard_watch(struct memory_guard *g)
{
	char path[32];
	int n = snprintf(path, sizeof(path), "/proc/self/fd/%d", g->tenants.top);

	g->created = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (g->created < 0 || n < 0 || n >= (int)sizeof(path) ||
	    inotify_add_watch(g->created, path, IN_CREATE) < 0)
		log_warn(&g->k->log, "memory guard: watch cgroup.path: %m");
}

[[noreturn]] static void memory_guard_main(struct keeper *k)
{
	struct memory_guard g = { .k = k, .limited = true };
	struct sysinfo machine = {};
	sigset_t none;
	int top;

	(void)signal(SIGCHLD, SIG_DFL);
	(void)signal(SIGTERM, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)prctl(PR_SET_NAME, "cay-memory");
	/* it must act when nothing else gets memory or a CPU */
	(void)mlockall(MCL_CURRENT | MCL_FUTURE);
	(void)setpriority(PRIO_PROCESS, 0, -20);
	g.tenants.v1 = k->cgroups.top.v1[CG_MEMORY] >= 0;
	g.tenants.top = top = g.tenants.v1 ? k->cgroups.top.v1[CG_MEMORY] : k->cgroups.top.v2;
	/* not the connection of a client, which must end when the keeper closes it */
	if (top > 3)
		(void)close_range(3, (unsigned)top - 1, 0);
	(void)close_range((unsigned)top + 1, ~0u, 0);
	g.cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	if (sysinfo(&machine) < 0)
		_exit(1);
	g.whole = g.all = memory_guard_limit_of_all(k->settings.node_sandbox_memory,
						    (uint64_t)machine.totalram * machine.mem_unit,
						    k->settings.node_memory);
	g.block = open("/sys/devices/virtual/block", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	g.margin = memory_share_margin(g.all);
	memory_guard_watch(&g);
	for (bool created = true;;)
		created = memory_guard_wait(&g, memory_guard_sweep(&g, created));
}

int memory_guard_start(struct keeper *k, struct cay_err *err)
{
	pid_t keeper = getpid(), pid = fork();
	int fd;

	if (pid == 0) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != keeper)
			_exit(1);
		memory_guard_main(k);
	}
	fd = pid < 0 ? -1 : pidfd_open(pid, 0);
	return fd < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, errno, "start the memory guard") : fd;
}
