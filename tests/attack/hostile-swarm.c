/* SPDX-License-Identifier: Apache-2.0 */
/*
 * swarm - processes without end, processes that do not end, and all the time there is
 *
 *	hostile swarm KIND [N]
 *
 * A bomb (fork, vfork, threads) goes on for ever; what is hard to end is made N times,
 * "# ready" is said, and it stays; what burns says "# at it" and burns.
 */
#include "hostile.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

[[noreturn]] static void stay(void)
{
	for (;;)
		(void)pause();
}

/* Bombs */

[[noreturn]] static void bomb_fork(unsigned)
{
	for (;;)
		if (fork() < 0)
			(void)sched_yield();
}

/* Each waits, unkillable but by SIGKILL, for the one it made. */
[[noreturn]] static void bomb_vfork(unsigned)
{
	for (;;)
		if (vfork() < 0)
			stay();
}

[[noreturn]] static void *thread_stays(void *)
{
	stay();
}

[[noreturn]] static void bomb_threads(unsigned)
{
	pthread_attr_t small;
	pthread_t t;

	(void)pthread_attr_init(&small);
	(void)pthread_attr_setstacksize(&small, 65536);
	for (;;)
		if (pthread_create(&t, &small, thread_stays, NULL) != 0)
			(void)sched_yield();
}

/* Hard to end: what each of N does */

static void be_zombie(void)
{
	_exit(0);
}

static void be_orphan(void)
{
	for (int i = 0; i < 3; i++)
		if (fork() > 0)
			_exit(0);
}

static void be_session(void)
{
	(void)setsid();
	if (fork() > 0)
		_exit(0);
	(void)setsid();
}

static void be_deaf(void)
{
	for (int i = 1; i < NSIG; i++)
		(void)signal(i, SIG_IGN);
}

static void be_stopped(void)
{
	(void)raise(SIGSTOP);
}

static void be_traced(void)
{
	(void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	(void)raise(SIGSTOP);
}

static void be_hung(void)
{
	if (vfork() == 0)
		stay();
}

/* Burning */

static void *spin(void *)
{
	volatile unsigned long n = 0;

	while (n < UINT64_MAX)
		n = n + 1;
	return NULL;
}

[[noreturn]] static void burn_threads(unsigned n)
{
	pthread_t t;

	for (unsigned i = 1; i < n; i++)
		(void)pthread_create(&t, NULL, spin, NULL);
	fact("at it");
	(void)spin(NULL);
	stay();
}

[[noreturn]] static void burn_spin(unsigned n)
{
	burn_threads(n);
}

[[noreturn]] static void burn_nice(unsigned n)
{
	judge("nice -20", setpriority(PRIO_PROCESS, 0, -20) < 0 ? errno : 0);
	burn_threads(n);
}

[[noreturn]] static void burn_fifo(unsigned n)
{
	static const int policies[] = { SCHED_FIFO, SCHED_RR };

	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		struct sched_param p = { .sched_priority = 1 };

		judge(i ? "SCHED_RR" : "SCHED_FIFO",
		      sched_setscheduler(0, policies[i], &p) < 0 ? errno : 0);
	}
	burn_threads(n);
}

static void ticked(int) {}

[[noreturn]] static void burn_itimer(unsigned n)
{
	struct itimerval it = { { 0, 1 }, { 0, 1 } };

	(void)signal(SIGALRM, ticked);
	fact("at it"); /* with a signal a microsecond there is no time for it any more */
	for (unsigned i = 1; i < n; i++)
		if (fork() == 0)
			break;
	(void)setitimer(ITIMER_REAL, &it, NULL);
	stay();
}

[[noreturn]] static void burn_timers(unsigned n)
{
	struct itimerspec it = { { 0, 1000 }, { 0, 1000 } };
	timer_t t;

	(void)signal(SIGALRM, ticked);
	fact("at it");
	for (unsigned i = 0; i < n; i++) {
		int fd = timerfd_create(CLOCK_MONOTONIC, 0);

		if (fd >= 0)
			(void)timerfd_settime(fd, 0, &it, NULL);
		if (timer_create(CLOCK_MONOTONIC, NULL, &t) == 0)
			(void)timer_settime(t, 0, &it, NULL);
	}
	stay();
}

static const struct {
	const char *name;
	void (*bomb)(unsigned n);
	void (*be)(void);
} kinds[] = {
	{ "fork", bomb_fork, NULL },       { "vfork", bomb_vfork, NULL },
	{ "threads", bomb_threads, NULL }, { "zombies", NULL, be_zombie },
	{ "orphans", NULL, be_orphan },    { "sessions", NULL, be_session },
	{ "deaf", NULL, be_deaf },         { "stopped", NULL, be_stopped },
	{ "traced", NULL, be_traced },     { "hung", NULL, be_hung },
	{ "spin", burn_spin, NULL },       { "nice", burn_nice, NULL },
	{ "fifo", burn_fifo, NULL },       { "itimer", burn_itimer, NULL },
	{ "timers", burn_timers, NULL },
};

int mode_swarm(int argc, char **argv)
{
	unsigned n = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;

	for (size_t k = 0; argc > 1 && k < ARRAY_SIZE(kinds); k++) {
		if (strcmp(kinds[k].name, argv[1]) != 0)
			continue;
		if (kinds[k].bomb) {
			if (!kinds[k].be && k < 3)
				fact("at it");
			kinds[k].bomb(n);
		}
		for (unsigned i = 0; kinds[k].be && i < n; i++)
			if (fork() == 0) {
				kinds[k].be();
				stay();
			}
		fact("ready");
		stay();
	}
	return 2;
}
