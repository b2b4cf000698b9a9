/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

#include "init/shell/shell.h"

#define STEP_MS 1000
#define SEEN_MAX 65536 /* processes checked */

/* Signals for the processes of a run, one step at a time; after the last step the shell ends. */
static const int shell_stop_signals[] = { SIGINT, SIGTERM, SIGKILL };

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

/* Processes of the shell's session that started during the run.  Background processes ignore
 * SIGINT, as bash arranges, and those in a session of their own are not signalled. */
static void shell_run_signal(const struct shell *s, int sig)
{
	DIR *d = opendir("/proc");
	const struct dirent *e;
	unsigned seen = 0;

	while (d && seen++ < SEEN_MAX && (e = readdir(d))) {
		uint64_t pid, began;
		long session;

		if (str_parse_u64(slice_of(e->d_name), 2, INT32_MAX, &pid) < 0 ||
		    (pid_t)pid == s->exec->pid ||
		    !process_read_session(e->d_name, &session, &began))
			continue;
		if (session != s->exec->pid || began < s->current_run->born_ticks ||
		    (began == s->current_run->born_ticks && (pid_t)pid <= s->current_run->last_pid))
			continue;
		(void)kill((pid_t)pid, sig);
		if (sig != SIGKILL)
			(void)kill((pid_t)pid, SIGCONT);
	}
	if (d)
		(void)closedir(d);
}

static void on_shell_stop_step(uv_timer_t *t)
{
	shell_stop_run(t->data);
}

void shell_stop_run(struct shell *s)
{
	if (!s->current_run || !s->exec || s->exec->pid <= 0 || s->phase == SHELL_PHASE_SETTLE)
		return;
	if (s->stop_step >= ARRAY_SIZE(shell_stop_signals)) {
		s->ended_why = "a run did not end when it was stopped";
		exec_kill(s->exec);
		return;
	}
	/* bash itself is never interrupted, which would end it: it leaves its loops.  It is
	 * signalled first, so that it does not begin the next command when the current one
	 * dies. */
	(void)kill(s->exec->pid, SCRIPT_STOP_SIGNAL);
	(void)kill(s->exec->pid, SIGCONT);
	shell_run_signal(s, shell_stop_signals[s->stop_step++]);
	(void)uv_timer_start(&s->timer, on_shell_stop_step, STEP_MS, 0);
}
