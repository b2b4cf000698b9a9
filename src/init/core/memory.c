/* SPDX-License-Identifier: Apache-2.0 */
#include "init/core/memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/path.h"
#include "base/str.h"

#define SMALL_FILE KIB(4)
/* The kernel charges several pages at once, and kills when they do not fit. */
#define LIMIT_SLACK MIB(1)

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

/* The sum of the lines that begin with one of two words; 0 without any. */
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

struct memory_kills memory_count_kills(const struct memory *m)
{
	struct memory_kills now = { .oom = memory_count_oom_kills(m) };

	if (!m->v1)
		now.hits = memory_sum_stat_lines(m, memory_file_names[0][EVENTS], "oom", "oom");
	return now;
}

bool memory_reached_own_limit(const struct memory *m, const struct memory_kills *before,
			      const struct memory_kills *now)
{
	struct memory_usage used;

	if (!m->v1)
		return now->hits != before->hits;
	return memory_read_usage(m, &used) < 0 || used.peak + LIMIT_SLACK >= used.limit;
}

uint64_t memory_cache_bytes(const struct memory *m)
{
	return memory_sum_stat_lines(m, "memory.stat", m->v1 ? "total_active_file" : "active_file",
				     m->v1 ? "total_inactive_file" : "inactive_file");
}

int memory_read_limit(const struct memory *m, uint64_t *ret)
{
	return memory_read_number(m, LIMIT, ret);
}

int memory_read_usage(const struct memory *m, struct memory_usage *ret)
{
	int r = memory_read_limit(m, &ret->limit);

	if (r >= 0)
		r = memory_read_number(m, USED, &ret->used);
	if (r >= 0 && memory_read_number(m, PEAK, &ret->peak) < 0)
		ret->peak = ret->used; /* memory.peak needs Linux 5.19 */
	return r;
}

/* The last field of loadavg. */
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

/* "PID (NAME) STATE PPID PGRP SESSION TTY TPGID FLAGS ..."; a name may have anything. */
bool proc_is_ending(pid_t pid)
{
	enum { FLAGS = 6, EXITING = 0x4 }; /* PF_EXITING of the kernel */
	char path[32], text[512];
	int len = snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	auto_close int fd = len > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text));
	const char *name_end = got > 0 ? memrchr(text, ')', (size_t)got) : NULL;
	struct slice rest = {}, word = {};
	uint64_t flags = 0;

	if (!name_end || text + got - name_end < 2)
		return true;
	rest = (struct slice){ name_end + 2, (size_t)(text + got - name_end) - 2 };
	for (int i = 0; i <= FLAGS; i++)
		word = slice_cut(&rest, ' ');
	return str_parse_u64(word, 0, UINT32_MAX, &flags) >= 0 && flags & EXITING;
}
