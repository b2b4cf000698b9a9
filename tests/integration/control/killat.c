/* SPDX-License-Identifier: Apache-2.0 */
/*
 * killat PID KIND N - SIGKILL at the N-th system call
 *
 * strace's injection counts for each process alone, so what comes early in a runtime
 * is out of its reach: its worker would have died before.  Here the calls of one kind
 * of process are counted together, and only that kind dies:
 *
 *	main     PID and its threads
 *	worker   what it has forked
 *	runtime  what those start, until it executes a sandbox's PID 1, which is let go
 *
 * Says "ready" when all there is of PID is followed.  Then "killed KIND NUMBER", the
 * number being the call's, or on SIGTERM how many calls there were of each kind.  When
 * it ends, the kernel lets go of everybody else.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRACEES_MAX 1024
#define OPTIONS \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | \
	 PTRACE_O_TRACEEXEC)

enum kind { MAIN, WORKER, RUNTIME, NUM_KINDS };

static const char *const kinds[NUM_KINDS] = { "main", "worker", "runtime" };

struct tracee {
	pid_t tid;  /* 0: free */
	bool known; /* its parent has said that it made it */
	bool waits; /* stopped before its parent said so */
	enum kind kind;
};

static struct tracee tracees[TRACEES_MAX];
static volatile sig_atomic_t stopping;
static uint64_t counts[NUM_KINDS];

static void on_term(int)
{
	stopping = 1;
}

static struct tracee *find(pid_t tid)
{
	struct tracee *empty = NULL;

	for (size_t i = 0; i < TRACEES_MAX; i++) {
		if (tracees[i].tid == tid)
			return &tracees[i];
		if (!tracees[i].tid && !empty)
			empty = &tracees[i];
	}
	if (!empty)
		exit(2);
	*empty = (struct tracee){ .tid = tid };
	return empty;
}

static void must_fit(int n, size_t room)
{
	if (n < 0 || (size_t)n >= room)
		abort();
}

static void comm_of(pid_t pid, char ret[static 32])
{
	char path[48];
	FILE *f;

	ret[0] = 0;
	must_fit(snprintf(path, sizeof(path), "/proc/%d/comm", pid), sizeof(path));
	f = fopen(path, "re");
	if (f) {
		if (!fgets(ret, 32, f))
			ret[0] = 0;
		(void)fclose(f);
	}
	ret[strcspn(ret, "\n")] = 0;
}

static void seize(pid_t tid, enum kind kind)
{
	struct tracee *t;

	if (ptrace(PTRACE_SEIZE, tid, 0, OPTIONS) < 0)
		return; /* it has ended */
	t = find(tid);
	t->known = true;
	t->kind = kind;
	(void)ptrace(PTRACE_INTERRUPT, tid, 0, 0);
}

static void seize_all(pid_t pid)
{
	char path[64], name[32], child_name[32];
	const struct dirent *e;
	int child;
	DIR *d;
	FILE *f;

	must_fit(snprintf(path, sizeof(path), "/proc/%d/task", pid), sizeof(path));
	d = opendir(path);
	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			seize((pid_t)strtol(e->d_name, NULL, 10), MAIN);
	if (d)
		(void)closedir(d);
	/* workers that wait for orders; not the sandboxes it has inherited */
	comm_of(pid, name);
	must_fit(snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid), sizeof(path));
	f = fopen(path, "re");
	while (f && fscanf(f, "%d", &child) == 1) { /* NOLINT(cert-err34-c): the kernel's */
		comm_of(child, child_name);
		if (strcmp(name, child_name) == 0)
			seize(child, WORKER);
	}
	if (f)
		(void)fclose(f);
}

static void go_on(pid_t tid, int sig)
{
	(void)ptrace(PTRACE_SYSCALL, tid, 0, sig);
}

static void born(const struct tracee *parent, pid_t tid)
{
	struct tracee *t = find(tid);
	char path[64];

	must_fit(snprintf(path, sizeof(path), "/proc/%d/task/%d", parent->tid, tid), sizeof(path));
	t->known = true;
	t->kind = parent->kind;
	if (access(path, F_OK) != 0 && t->kind < RUNTIME) /* not a thread */
		t->kind++;
	if (t->waits)
		go_on(tid, 0);
}

static void executed(struct tracee *t)
{
	char name[32];

	comm_of(t->tid, name);
	if (strcmp(name, "init") == 0) {
		(void)ptrace(PTRACE_DETACH, t->tid, 0, 0);
		t->tid = 0;
	} else {
		go_on(t->tid, 0);
	}
}

static bool called(const struct tracee *t, enum kind kind, uint64_t at)
{
	struct __ptrace_syscall_info info = {};

	if (ptrace(PTRACE_GET_SYSCALL_INFO, t->tid, sizeof(info), &info) <= 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY || ++counts[t->kind] != at || t->kind != kind) {
		go_on(t->tid, 0);
		return false;
	}
	(void)kill(t->tid, SIGKILL);
	printf("killed %s %llu\n", kinds[kind], (unsigned long long)info.entry.nr);
	return true;
}

static bool stopped(pid_t tid, int status, enum kind kind, uint64_t at)
{
	struct tracee *t = find(tid);
	int sig = WSTOPSIG(status), event = status >> 16;
	unsigned long child = 0;

	if (!t->known) {
		t->waits = true;
	} else if (sig == (SIGTRAP | 0x80)) {
		return called(t, kind, at);
	} else if (event == PTRACE_EVENT_EXEC) {
		executed(t);
	} else if (event == PTRACE_EVENT_STOP) {
		if (sig == SIGTRAP)
			go_on(tid, 0);
		else
			(void)ptrace(PTRACE_LISTEN, tid, 0, 0);
	} else if (event) {
		(void)ptrace(PTRACE_GETEVENTMSG, tid, 0, &child);
		born(t, (pid_t)child);
		go_on(tid, 0);
	} else {
		go_on(tid, sig);
	}
	return false;
}

int main(int argc, char **argv)
{
	pid_t pid = argc == 4 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
	uint64_t at = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;
	enum kind kind = MAIN;

	while (pid && kind < NUM_KINDS && strcmp(kinds[kind], argv[2]) != 0)
		kind++;
	if (!pid || kind == NUM_KINDS) {
		(void)fprintf(stderr, "usage: killat PID main|worker|runtime N\n");
		return 2;
	}
	(void)sigaction(SIGTERM, &(struct sigaction){ .sa_handler = on_term }, NULL);
	seize_all(pid);
	printf("ready\n");
	(void)fflush(stdout);
	while (!stopping) {
		int status = 0;
		pid_t tid = waitpid(-1, &status, __WALL);

		if (tid < 0 && errno == ECHILD)
			break; /* all have ended */
		if (tid > 0 && WIFSTOPPED(status) && stopped(tid, status, kind, at))
			return 0;
		if (tid > 0 && !WIFSTOPPED(status))
			find(tid)->tid = 0;
	}
	for (kind = MAIN; kind < NUM_KINDS; kind++)
		printf("%s %llu\n", kinds[kind], (unsigned long long)counts[kind]);
	return 0;
}
