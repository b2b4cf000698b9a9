/* SPDX-License-Identifier: Apache-2.0 */
#include "base/spawn.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/failpoint.h"

/* glibc's names for the two halves of a spawn, freed on every way out. */
struct spawn_plan {
	posix_spawnattr_t attr;
	posix_spawn_file_actions_t acts;
	bool has_attr, has_acts;
};

static void spawn_plan_fini(struct spawn_plan *p)
{
	if (p->has_attr)
		(void)posix_spawnattr_destroy(&p->attr);
	if (p->has_acts)
		(void)posix_spawn_file_actions_destroy(&p->acts);
}

static int spawn_plan_set_attr(struct spawn_plan *p, const struct spawn *s)
{
	short flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
	sigset_t all, none;
	int r = posix_spawnattr_init(&p->attr);

	if (r)
		return -r;
	p->has_attr = true;
	(void)sigfillset(&all);
	(void)sigemptyset(&none);
	(void)posix_spawnattr_setsigdefault(&p->attr, &all);
	(void)posix_spawnattr_setsigmask(&p->attr, &none);
	if (s->session)
		flags |= POSIX_SPAWN_SETSID;
	if (s->cgroup_fd >= 0) {
		flags |= POSIX_SPAWN_SETCGROUP;
		r = posix_spawnattr_setcgroup_np(&p->attr, s->cgroup_fd);
		if (r)
			return -r;
	}
	return -posix_spawnattr_setflags(&p->attr, flags);
}

/* Sources first move above every target, so that no dup2 overwrites an fd a later one needs. */
static int spawn_plan_set_fds(struct spawn_plan *p, const struct spawn *s,
			      int high[static SPAWN_FDS_MAX])
{
	int r = posix_spawn_file_actions_init(&p->acts);

	if (r)
		return -r;
	p->has_acts = true;
	for (unsigned i = 0; i < s->n_fds; i++) {
		if (s->fds[i] < 0)
			continue;
		high[i] = fcntl(s->fds[i], F_DUPFD_CLOEXEC, SPAWN_FDS_MAX);
		if (high[i] < 0)
			return -errno;
	}
	for (int i = 0; i < (int)s->n_fds || i < 3; i++) {
		int from = i < (int)s->n_fds ? high[i] : -EBADF;

		if (from >= 0)
			r = posix_spawn_file_actions_adddup2(&p->acts, from, i);
		else if (i < 3)
			r = posix_spawn_file_actions_addopen(&p->acts, i, "/dev/null", O_RDWR, 0);
		else
			r = posix_spawn_file_actions_addclose(&p->acts, i);
		if (r)
			return -r;
	}
	r = posix_spawn_file_actions_addclosefrom_np(&p->acts, s->n_fds > 3 ? (int)s->n_fds : 3);
	return -r;
}

int child_start(const struct spawn *s, struct child *ret, struct cay_err *err)
{
	CAY_CLEANUP(spawn_plan_fini) struct spawn_plan plan = {};
	const char *const no_env[] = { NULL };
	int high[SPAWN_FDS_MAX], pidfd = -EBADF, r;

	if (s->n_fds > SPAWN_FDS_MAX || s->path[0] != '/')
		return cay_fail(err, CAY_E_INTERNAL, "cannot start '%s': bad arguments", s->path);
	for (unsigned i = 0; i < SPAWN_FDS_MAX; i++)
		high[i] = -EBADF;
	r = failpoint_hit(FAULT_SPAWN_BEFORE);
	if (r >= 0)
		r = spawn_plan_set_attr(&plan, s);
	if (r >= 0)
		r = spawn_plan_set_fds(&plan, s, high);
	/* posix_spawn takes pointers to char that it does not write through */
	if (r >= 0)
		r = -pidfd_spawn(&pidfd, s->path, &plan.acts, &plan.attr,
				 (char *const *)(uintptr_t)s->argv,
				 (char *const *)(uintptr_t)(s->env ? s->env : no_env));
	for (unsigned i = 0; i < SPAWN_FDS_MAX; i++)
		cay_closep(&high[i]);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, r, "cannot start '%s'", s->path);
	ret->pidfd = pidfd;
	r = failpoint_hit(FAULT_SPAWN_AFTER);
	if (r < 0) {
		child_fini(ret);
		return cay_fail_sys(err, CAY_E_INTERNAL, r, "cannot start '%s'", s->path);
	}
	return 0;
}

pid_t child_fork(struct child *ret)
{
	int pidfd = -EBADF;
	long pid = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, NULL, &pidfd, NULL, NULL);

	if (pid < 0)
		return -errno;
	if (pid > 0)
		ret->pidfd = pidfd;
	return (pid_t)pid;
}

int child_wait(struct child *c, int *ret_status)
{
	siginfo_t si = {};
	int r;

	do
		r = waitid(P_PIDFD, (id_t)c->pidfd, &si, WEXITED);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	(void)close(c->pidfd);
	c->pidfd = -EBADF;
	*ret_status = si.si_code == CLD_EXITED ? si.si_status : -si.si_status;
	return 0;
}

int child_kill(const struct child *c, int sig)
{
	return pidfd_send_signal(c->pidfd, sig, NULL, 0) < 0 ? -errno : 0;
}

void child_fini(struct child *c)
{
	int status;

	if (c->pidfd < 0)
		return;
	(void)child_kill(c, SIGKILL);
	if (child_wait(c, &status) < 0) {
		(void)close(c->pidfd);
		c->pidfd = -EBADF;
	}
}
