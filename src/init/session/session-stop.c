/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

#include "init/session/session.h"

#define SEEN_MAX 65536 /* processes checked */
#define KILL_ROUNDS 16

/* The session of a process, and its start time in ticks since boot. */
static bool process_read_session(const char *pid, long *ret_session, uint64_t *ret_began)
{
	char path[32], text[1024];
	const char *p;
	unsigned long long began;
	int n = snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	auto_close int fd =
		n < 0 || (size_t)n >= sizeof(path) ? -EBADF : open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (got <= 0)
		return false;
	text[got] = 0;
	/* its name may contain any byte, so start after the last bracket */
	p = strrchr(text, ')');
	if (!p || sscanf(p + 1,
			 " %*c %*d %*d %ld %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
			 "%*d %*d %llu",
			 ret_session, &began) != 2)
		return false;
	*ret_began = began;
	return true;
}

/* Processes in a session of their own are not signalled. */
unsigned session_signal_run(const struct session *s, int sig)
{
	const struct run *r = s->current_run;
	DIR *d = opendir("/proc");
	const struct dirent *e;
	unsigned seen = 0, found = 0;

	while (d && seen++ < SEEN_MAX && (e = readdir(d))) {
		uint64_t pid, began;
		long session;

		if (str_parse_u64(slice_of(e->d_name), 2, INT32_MAX, &pid) < 0 ||
		    (pid_t)pid == s->exec->pid ||
		    !process_read_session(e->d_name, &session, &began))
			continue;
		if (session != s->exec->pid || began < r->born_ticks ||
		    (began == r->born_ticks && (pid_t)pid <= r->last_pid))
			continue;
		found++;
		(void)kill((pid_t)pid, sig);
		if (sig != SIGKILL)
			(void)kill((pid_t)pid, SIGCONT);
	}
	if (d)
		(void)closedir(d);
	return found;
}

/* PID 1 reaps none meanwhile, so with the sandbox's limit of processes reached there is no place
 * for new ones; else those that the first round missed are found by the next. */
unsigned session_kill_rest_of_run(const struct session *s)
{
	unsigned first = session_signal_run(s, SIGKILL), before = 0, now = first;

	for (int i = 0; i < KILL_ROUNDS && now > before; i++) {
		before = now;
		now = session_signal_run(s, SIGKILL);
	}
	return now > first ? now : first;
}
