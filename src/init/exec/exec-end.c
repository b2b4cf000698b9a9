/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "init/core/signals.h"
#include "init/exec/exec.h"

#define RUSAGE_BLOCK 512 /* of ru_inblock, whatever the file system's blocks are */

/* Evidence in addition to the reason. */
static void exec_end_add_memory(struct exec *exec, uint64_t kills)
{
	struct end *e = &exec->end;
	struct memory_usage now = {};
	int n;

	if (memory_read_usage(&exec->init->memory, &now) < 0)
		return;
	e->has_memory_limit = e->has_memory_peak = true;
	e->memory_limit_bytes = now.limit;
	e->memory_peak_bytes = now.peak;
	if (e->reason == END_OOM || e->reason == END_NODE_OOM)
		n = snprintf(exec->detail, sizeof(exec->detail), "%smemory limit %llu, peak %llu",
			     e->reason == END_OOM ? "" : "the machine had no memory left; ",
			     (unsigned long long)now.limit, (unsigned long long)now.peak);
	else
		n = snprintf(exec->detail, sizeof(exec->detail),
			     "processes killed for memory meanwhile: %llu; limit %llu, peak %llu",
			     (unsigned long long)kills, (unsigned long long)now.limit,
			     (unsigned long long)now.peak);
	e->detail = n > 0 && n < (int)sizeof(exec->detail) ? exec->detail : NULL;
}

/* An exit status alone does not tell that a child was killed for memory, or that the client sent
 * the signal. */
static void exec_end_judge(struct exec *exec, uint64_t kills, bool own)
{
	struct end *e = &exec->end;

	end_judge(e, END_OF_PROCESS);
	if (e->blame != BLAME_TASK)
		return;
	if (kills && exec->status)
		end_judge_as(e, own ? BLAME_LIMIT : BLAME_INFRA);
	else if (WIFSIGNALED(exec->status) && WTERMSIG(exec->status) == exec->client_signal)
		end_judge_as(e, BLAME_CALLER);
}

static uint64_t timeval_ms(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000 + (uint64_t)t->tv_usec / 1000;
}

static void exec_end_add_used(struct end *e, const struct rusage *used)
{
	e->has_used = e->used.has_read = e->used.has_write = true;
	e->used.cpu_ms = timeval_ms(&used->ru_utime) + timeval_ms(&used->ru_stime);
	e->used.memory_peak_bytes = (uint64_t)used->ru_maxrss * KIB(1);
	e->used.read_bytes = (uint64_t)used->ru_inblock * RUSAGE_BLOCK;
	e->used.write_bytes = (uint64_t)used->ru_oublock * RUSAGE_BLOCK;
}

void exec_end_determine(struct exec *exec, const struct rusage *used)
{
	struct end *e = &exec->end;
	struct memory_kills now = memory_count_kills(&exec->init->memory);
	uint64_t kills = now.oom - exec->kills_before.oom;
	bool own = memory_reached_own_limit(&exec->init->memory, &exec->kills_before, &now);

	*e = (struct end){};
	exec_end_add_used(e, used);
	if (WIFSIGNALED(exec->status)) {
		signal_format(WTERMSIG(exec->status), exec->signal_name);
		e->signal = exec->signal_name;
		e->reason = END_SIGNAL;
	} else {
		e->reason = END_EXIT;
		e->has_exit_code = true;
		e->exit_code = (uint64_t)WEXITSTATUS(exec->status);
	}
	if (exec->timed_out) {
		e->reason = END_TIMEOUT;
	} else if (WIFSIGNALED(exec->status) && WTERMSIG(exec->status) == SIGKILL) {
		if (exec->killed) {
			e->reason = END_KILLED;
		} else if (kills) {
			e->reason = own ? END_OOM : END_NODE_OOM;
			/* the kernel counts and does not name: certain only if the sandbox had
			 * no other process */
			e->inferred = !exec->started_alone || proc_last_pid() != exec->first_pid;
		}
	}
	if (kills)
		exec_end_add_memory(exec, kills);
	exec_end_judge(exec, kills, own);
}

void exec_end_copy(const struct exec *exec, struct end *to,
		   char signal_name[static SIGNAL_TEXT_MAX], char detail[static END_DETAIL_MAX])
{
	*to = exec->end;
	memcpy(signal_name, exec->signal_name, SIGNAL_TEXT_MAX);
	memcpy(detail, exec->detail, END_DETAIL_MAX);
	if (to->signal)
		to->signal = signal_name;
	if (to->detail)
		to->detail = detail;
}
