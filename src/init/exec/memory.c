/* SPDX-License-Identifier: Apache-2.0 */
#include "init/exec/memory.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/path.h"
#include "base/str.h"
#include "init/core/signals.h"
#include "init/exec/exec.h"

#define SMALL_FILE KIB(4)

enum memory_file { LIMIT, USED, PEAK, EVENTS, NUM_FILES };

static const char *const memory_file_names[2][NUM_FILES] = {
	{ "memory.max", "memory.current", "memory.peak", "memory.events" },
	{ "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.max_usage_in_bytes",
	  "memory.oom_control" },
};

struct memory memory_from_cgroup(int cgroup, int v1)
{
	return v1 >= 0 ? (struct memory){ v1, true } : (struct memory){ cgroup, false };
}

static int memory_read_number(const struct memory *m, enum memory_file file, uint64_t *ret)
{
	auto_buf text = BUF_INIT(SMALL_FILE);
	int r = m->dir < 0 ? -EBADF : path_read(m->dir, memory_file_names[m->v1][file], &text);

	if (r < 0 || !text.len)
		return r < 0 ? r : -EINVAL;
	return str_parse_u64((struct slice){ text.data, text.len - 1 }, 0, UINT64_MAX, ret);
}

/* The sum of the lines of a file that have one of two words; 0 without. */
static uint64_t memory_sum_stat_lines(const struct memory *m, const char *name, const char *a,
				      const char *b)
{
	auto_buf text = BUF_INIT(2 * SMALL_FILE);
	struct slice rest;
	uint64_t sum = 0, n;

	if (m->dir < 0 || path_read(m->dir, name, &text) < 0)
		return 0;
	rest = (struct slice){ text.data, text.len };
	while (rest.p) {
		struct slice line = slice_cut(&rest, '\n'), word = slice_cut(&line, ' ');

		if ((slice_eq(word, slice_of(a)) || slice_eq(word, slice_of(b))) &&
		    str_parse_u64(line, 0, UINT64_MAX, &n) >= 0)
			sum += n;
	}
	return sum;
}

uint64_t memory_count_oom_kills(const struct memory *m)
{
	return memory_sum_stat_lines(m, memory_file_names[m->v1][EVENTS], "oom_kill", "oom_kill");
}

uint64_t memory_cache_bytes(const struct memory *m)
{
	return memory_sum_stat_lines(m, "memory.stat", m->v1 ? "total_active_file" : "active_file",
				     m->v1 ? "total_inactive_file" : "inactive_file");
}

int memory_read_usage(const struct memory *m, struct memory_usage *ret)
{
	int r = memory_read_number(m, LIMIT, &ret->limit);

	if (r >= 0)
		r = memory_read_number(m, USED, &ret->used);
	if (r >= 0 && memory_read_number(m, PEAK, &ret->peak) < 0)
		ret->peak = ret->used; /* Linux 5.19 and later say it */
	return r;
}

/* The end of loadavg. */
pid_t proc_last_pid(void)
{
	auto_close int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	char text[128];
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text));
	struct slice rest = { text, got > 0 ? (size_t)got - 1 : 0 }, word = {};
	uint64_t n = 0;

	if (got <= 0)
		return 0;
	while (rest.p)
		word = slice_cut(&rest, ' ');
	return str_parse_u64(word, 1, INT32_MAX, &n) < 0 ? 0 : (pid_t)n;
}

/* Evidence beside the reason, whatever that is. */
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
	if (e->reason == END_OOM)
		n = snprintf(exec->detail, sizeof(exec->detail), "memory limit %llu, peak %llu",
			     (unsigned long long)now.limit, (unsigned long long)now.peak);
	else
		n = snprintf(exec->detail, sizeof(exec->detail),
			     "processes killed for memory meanwhile: %llu; limit %llu, peak %llu",
			     (unsigned long long)kills, (unsigned long long)now.limit,
			     (unsigned long long)now.peak);
	e->detail = n > 0 && n < (int)sizeof(exec->detail) ? exec->detail : NULL;
}

void exec_end_determine(struct exec *exec)
{
	struct end *e = &exec->end;
	uint64_t kills = memory_count_oom_kills(&exec->init->memory) - exec->oom_kills;

	*e = (struct end){};
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
			e->reason = END_OOM;
			/* the kernel counts and does not name: it was this one for certain when
			 * there was no other */
			e->inferred = !exec->started_alone || proc_last_pid() != exec->first_pid;
		}
	}
	if (kills)
		exec_end_add_memory(exec, kills);
}
