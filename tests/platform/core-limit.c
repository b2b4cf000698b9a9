/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core-limit - with a limit of one byte a crash starts no program of the host
 *
 * Leans on it: RLIMIT_CORE of sandboxes (docs/adr/0063).  Where core_pattern is a pipe the kernel
 * starts its program as root, in the first namespaces and outside every limit.
 *
 * Checked: for a limit of 1 it does not, and no core is written either.  And the trap: for a
 * limit of 0, which says "no cores" everywhere else, it does.
 *
 * core_pattern belongs to the whole machine, so a pipe is tried only in the guest (dev/guest);
 * elsewhere a crash shows that there is no core, whatever the pattern.
 *
 * If it failed: `cay doctor` would have to refuse a machine whose core_pattern is a pipe.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "platform.h"

#define PATTERN "/proc/sys/kernel/core_pattern"
#define DEADLINE_MS 20000
#define CRASHES 5

/* The status of a process that crashes in the work directory. */
static int crash(const struct plat *p, rlim_t bytes)
{
	struct rlimit limit = { bytes, bytes };
	int status = 0;
	pid_t pid = fork();

	NEED(pid >= 0, "fork");
	if (pid == 0) {
		if (fchdir(p->work_fd) < 0 || setrlimit(RLIMIT_CORE, &limit) < 0 ||
		    prctl(PR_SET_DUMPABLE, 1) < 0)
			platform_die("prepare");
		(void)signal(SIGABRT, SIG_DFL);
		(void)raise(SIGABRT);
		_exit(0);
	}
	NEED(waitpid(pid, &status, 0) == pid, "its end");
	NEED(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "it crashed");
	return status;
}

static unsigned count_log(const struct plat *p, const char *line)
{
	auto_buf text = BUF_INIT(KIB(8));
	unsigned n = 0;

	if (!platform_get(p->work_fd, "log", &text))
		return 0;
	for (const char *at = buf_str(&text); (at = strstr(at, line)); at++)
		n++;
	return n;
}

static bool helper_ran(void *arg)
{
	return count_log(arg, "limit-0\n") > 0;
}

/* The helper writes its argument, the limit of the process that crashed, to a file. */
static void try_pipe(const struct plat *p)
{
	auto_free char *script =
		platform_format("#!/bin/sh\necho \"limit-$1\" >>%s/log\n", p->work);
	auto_free char *pattern = platform_format("|%s/helper %%c", p->work);
	auto_buf before = BUF_INIT(KIB(1));
	struct plat own = *p;
	bool ran;

	platform_write(p->work_fd, "helper", script);
	NEED(fchmodat(p->work_fd, "helper", 0755, 0) == 0, "a helper");
	NEED(platform_get(AT_FDCWD, PATTERN, &before), "read " PATTERN);
	NEED(platform_put(AT_FDCWD, PATTERN, pattern) == 0, "write " PATTERN);
	for (int i = 0; i < CRASHES; i++)
		(void)crash(p, 1);
	(void)crash(p, 0);
	ran = platform_wait(helper_ran, &own, DEADLINE_MS);
	NEED(platform_put(AT_FDCWD, PATTERN, buf_str(&before)) == 0, "restore " PATTERN);
	CHECK(ran, "trap: with a limit of 0 the program of core_pattern runs");
	CHECK(count_log(p, "limit-1\n") == 0, "with a limit of 1 it does not, in %d crashes",
	      CRASHES);
}

static void body(const struct plat *p)
{
	int status = crash(p, 1);

	CHECK(!WCOREDUMP(status), "with a limit of 1 there is no core");
	CHECK(faccessat(p->work_fd, "core", F_OK, 0) < 0 && errno == ENOENT, "nor a file of it");
	if (getenv("CAY_GUEST"))
		try_pipe(p);
	else
		platform_note("core_pattern is this machine's: a pipe is tried in the guest");
}

int main(int argc, char **argv)
{
	return platform_main(argc, argv, body);
}
