/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "init/shell/shell.h"

#define STEP_MS 1000

/* Signals for the processes of a run, one step at a time; after the last step the shell ends.
 * Background processes ignore SIGINT, as bash arranges. */
static const int shell_stop_signals[] = { SIGINT, SIGTERM, SIGKILL };

static void on_shell_stop_step(uv_timer_t *t)
{
	shell_stop_run(t->data);
}

void shell_stop_run(struct session *s)
{
	if (!s->current_run || !s->exec || s->exec->pid <= 0 || s->settling)
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
	session_signal_run(s, shell_stop_signals[s->stop_step++]);
	(void)uv_timer_start(&s->timer, on_shell_stop_step, STEP_MS, 0);
}
