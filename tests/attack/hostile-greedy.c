/* SPDX-License-Identifier: Apache-2.0 */
/*
 * greedy - memory of every kind there is, a MiB at a time
 *
 *	hostile greedy KIND MIB     until it has that much or is refused, and ends
 *	hostile greedy all          every kind in a child, again and again
 *	hostile greedy hold MIB N ADJ S  N processes that touch MIB at once, set their OOM score to
 *	                            ADJ ("-": do not) and keep both for S seconds
 *	hostile greedy storm MIB N S     N processes that fork others, each growing to MIB, for S
 *seconds
 *
 * What a kind holds goes with its process: files have no name, segments are marked
 * for removal.  "left" alone stays behind, as a file of /dev/shm.
 */
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STEP ((size_t)1 << 20)
/* a child that is not killed for it has this much at the most */
#define ALL_MIB "256"

/* A step adds about a MiB; 0 or an errno.  at counts steps. */
typedef int step_fn(unsigned at);

static int touch(void *p)
{
	if (p == MAP_FAILED)
		return errno;
	memset(p, 0x5a, STEP);
	return 0;
}

static int step_anon(unsigned)
{
	return touch(mmap(NULL, STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static int step_shared(unsigned)
{
	return touch(mmap(NULL, STEP, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}

static int step_locked(unsigned)
{
	void *p = mmap(NULL, STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED || mlock(p, STEP) < 0 ? errno : 0;
}

static int step_huge(unsigned)
{
	return touch(mmap(NULL, 2 * STEP, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0));
}

static int add_to(int fd, bool sync)
{
	static char block[STEP];

	memset(block, 0x5a, sizeof(block));
	if (fd < 0)
		return errno;
	for (size_t done = 0; done < STEP;) {
		ssize_t n = write(fd, block, STEP - done);

		if (n <= 0)
			return n ? errno : EIO;
		done += (size_t)n;
	}
	return sync && fsync(fd) < 0 ? errno : 0;
}

static int unnamed(const char *dir)
{
	return open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

static int step_tmpfs(unsigned at)
{
	static int fd = -1;

	if (!at)
		fd = unnamed("/dev/shm");
	return add_to(fd, false);
}

static int step_left(unsigned at)
{
	static int fd = -1;

	if (!at)
		fd = open("/dev/shm/left", O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
	return add_to(fd, false);
}

static int step_memfd(unsigned at)
{
	static int fd = -1;

	if (!at)
		fd = memfd_create("greedy", MFD_CLOEXEC);
	return add_to(fd, false);
}

static int step_cache(unsigned at)
{
	static int fd = -1;

	if (!at)
		fd = unnamed("/tmp");
	return add_to(fd, true);
}

static int step_dirty(unsigned at)
{
	static int fd = -1;

	if (!at)
		fd = unnamed("/tmp");
	return add_to(fd, false);
}

static int step_pipes(unsigned)
{
	static char block[65536];
	int p[2];

	for (int i = 0; i < 16; i++) {
		if (pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0)
			return errno;
		if (write(p[1], block, sizeof(block)) < 0)
			return errno;
	}
	return 0;
}

static int step_sockets(unsigned)
{
	static char block[65536];
	size_t held_here = 0;

	while (held_here < STEP) {
		int p[2];
		ssize_t n;

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p) < 0)
			return errno;
		while ((n = write(p[0], block, sizeof(block))) > 0)
			held_here += (size_t)n;
		held_here += 1024;
	}
	return 0;
}

/* Names that are not there are remembered too. */
static int step_names(unsigned at)
{
	char path[64];
	struct stat st;

	for (unsigned i = 0; i < 4096; i++)
		if (fill(path, "/tmp/no-%u-%u", at, i))
			(void)stat(path, &st);
	return 0;
}

static int step_watches(unsigned)
{
	int in = inotify_init1(IN_CLOEXEC), ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ev = { .events = EPOLLIN };

	if (in < 0 || ep < 0)
		return errno;
	for (unsigned i = 0; i < 512; i++) {
		int fd = eventfd(0, EFD_CLOEXEC);

		if (fd < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) < 0)
			return errno;
	}
	return inotify_add_watch(in, "/tmp", IN_ALL_EVENTS) < 0 ? errno : 0;
}

static int step_sysv(unsigned)
{
	int id = shmget(IPC_PRIVATE, STEP, IPC_CREAT | 0600);
	void *p = id < 0 ? MAP_FAILED : shmat(id, NULL, 0);

	if (id >= 0)
		(void)shmctl(id, IPC_RMID, NULL);
	return touch(p);
}

static const struct {
	const char *name;
	step_fn *step;
} kinds[] = {
	{ "anon", step_anon },    { "shared", step_shared }, { "tmpfs", step_tmpfs },
	{ "memfd", step_memfd },  { "cache", step_cache },   { "dirty", step_dirty },
	{ "mlock", step_locked }, { "pipes", step_pipes },   { "sockets", step_sockets },
	{ "huge", step_huge },    { "names", step_names },   { "watches", step_watches },
	{ "sysv", step_sysv },    { "left", step_left },
};

static int take(const char *kind, unsigned mib)
{
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		if (strcmp(kinds[k].name, kind) != 0)
			continue;
		for (unsigned at = 0; at < mib; at++) {
			int e = kinds[k].step(at);

			if (e) {
				fact("%s refused %s after %u", kind, result_text(e), at);
				return 0;
			}
			if (at % 8 == 7)
				fact("%s has %u", kind, at + 1);
		}
		fact("%s took %u", kind, mib);
		return 0;
	}
	return 2;
}

/* Without "left": that one ends the sandbox. */
static int all_again(void)
{
	fact("at it");
	for (size_t k = 0;; k = (k + 1) % (ARRAY_SIZE(kinds) - 1)) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(take(kinds[k].name, (unsigned)strtoul(ALL_MIB, NULL, 10)));
		if (pid > 0)
			(void)waitpid(pid, NULL, 0);
	}
}

static void hold_one(size_t bytes, const char *adj, unsigned seconds)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (strcmp(adj, "-") != 0)
		fact("score %s %s", adj,
		     write(fd, adj, strlen(adj)) < 0 ? result_text(errno) : "set");
	if (p == MAP_FAILED)
		_exit(3);
	memset(p, 0x5a, bytes);
	fact("holds %zu", bytes >> 20);
	(void)poll(NULL, 0, (int)seconds * 1000);
	_exit(p[bytes / 2] == 0x5a ? 0 : 4);
}

static int hold(char **argv)
{
	unsigned n = (unsigned)strtoul(argv[3], NULL, 10), killed = 0, kept = 0;
	size_t bytes = strtoul(argv[2], NULL, 10) << 20;

	for (unsigned i = 0; i < n; i++)
		if (fork() == 0)
			hold_one(bytes, argv[4], (unsigned)strtoul(argv[5], NULL, 10));
	for (int status; waitpid(-1, &status, 0) > 0;) {
		killed += WIFSIGNALED(status);
		kept += WIFEXITED(status) && WEXITSTATUS(status) == 0;
	}
	fact("killed %u kept %u", killed, kept);
	return 0;
}

static void storm_one(unsigned mib, uint64_t end_s)
{
	while ((uint64_t)time(NULL) < end_s) {
		pid_t pid = fork();

		if (pid == 0) {
			for (unsigned i = 0; i < mib && !step_anon(i); i++)
				;
			(void)poll(NULL, 0, 500);
			_exit(0);
		}
		if (pid < 0)
			(void)poll(NULL, 0, 10);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
	_exit(0);
}

static int storm(char **argv)
{
	unsigned mib = (unsigned)strtoul(argv[2], NULL, 10),
		 n = (unsigned)strtoul(argv[3], NULL, 10);
	uint64_t end_s = (uint64_t)time(NULL) + strtoul(argv[4], NULL, 10);

	for (unsigned i = 0; i < n; i++)
		if (fork() == 0)
			storm_one(mib, end_s);
	while (waitpid(-1, NULL, 0) > 0)
		;
	fact("stormed");
	return 0;
}

int mode_greedy(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[1], "storm") == 0)
		return storm(argv);
	if (argc == 6 && strcmp(argv[1], "hold") == 0)
		return hold(argv);
	if (argc == 2 && strcmp(argv[1], "all") == 0)
		return all_again();
	return argc == 3 ? take(argv[1], (unsigned)strtoul(argv[2], NULL, 10)) : 2;
}
