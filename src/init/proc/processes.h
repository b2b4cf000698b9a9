/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_PROC_PROCESSES_H
#define CAY_INIT_PROC_PROCESSES_H
/*
 * procs - who runs inside, from /proc
 *
 * A command line lies in memory of its process and reading it waits for that memory, so
 * the whole of it is read by a child of PID 1's (child_process_list(),
 * child_process_descendants()).  What PID 1 itself looks at is one line of the kernel's own,
 * /proc/PID/stat, which waits for nobody.
 *
 * Bounded: PROCS_MAX processes, PROCS_COMMAND bytes of a command line, PROCS_JSON of text.
 */
#include "init/core/init.h"

#define PROCS_MAX 16384
#define PROCS_COMMAND 256
#define PROCS_JSON KIB(768)

struct process_stat {
	uint64_t pid, ppid, start; /* start: ticks since boot */
	uint64_t cpu_ticks, threads, rss_pages;
	char state;
	struct slice comm; /* into the text */
};

/* A line of /proc/PID/stat, where the name may be anything. */
[[nodiscard]] int process_stat_parse(struct slice text, struct process_stat *ret);
/* Bytes of a stranger as one line of UTF-8; ret holds max bytes and a 0. */
void process_text_to_utf8(const char *from, size_t n, char *ret, size_t max);
/* The exec a line of /proc/PID/cgroup names, or none (noun 0). */
struct id process_exec_from_cgroup(struct slice cgroup);

/* In the child of a proc_query: a ProcessList as JSON to standard output; its exit status. */
int child_process_list(void *arg);

/* The same processes as numbers: one and all below it, itself first. */
struct process_ref {
	uint64_t pid, start;
};
int child_process_descendants(void *arg);
/* The exec that a process belongs to, as PID 1 knows it; noun 0: none. */
struct id process_find_exec(const struct init *in, uint64_t pid);

/* In PID 1: to that process, if it is the one that began then.  -ESRCH: there is none
 * (or another one); others as pidfd_send_signal() has them. */
[[nodiscard]] int process_send_signal(uint64_t pid, const uint64_t *start, int sig);
#endif
