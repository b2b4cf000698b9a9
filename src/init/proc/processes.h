/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_PROC_PROCESSES_H
#define CAY_INIT_PROC_PROCESSES_H
/*
 * processes - processes inside, from /proc
 *
 * A command line lies in the memory of its process and reading it may block, so a child of PID 1
 * reads it (child_process_list(), child_process_descendants()).  PID 1 itself only reads
 * /proc/PID/stat, which never blocks.
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

/* A line of /proc/PID/stat, in which the name may contain any byte. */
[[nodiscard]] int process_stat_parse(struct slice text, struct process_stat *ret);
/* Any bytes as one line of UTF-8; ret holds max bytes and a 0. */
void process_text_to_utf8(const char *from, size_t n, char *ret, size_t max);
/* The exec in a line of /proc/PID/cgroup, or none (noun 0). */
struct id process_exec_from_cgroup(struct slice cgroup);

/* In the child of a proc_query: a ProcessList as JSON to standard output; its exit status. */
int child_process_list(void *arg);

/* A process and its descendants, itself first, as struct process_ref to standard output. */
struct process_ref {
	uint64_t pid, start;
};
int child_process_descendants(void *arg);
/* The exec of a process, if a client can see it; noun 0: none. */
struct id process_find_exec(const struct init *in, uint64_t pid);

/* In PID 1: signal that process, if it started at `start` ticks.  -ESRCH: there is none, or
 * another one; otherwise the error of pidfd_send_signal(). */
[[nodiscard]] int process_send_signal(uint64_t pid, const uint64_t *start, int sig);
#endif
