/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hoard - whatever the kernel counts, until it refuses
 *
 *	hostile hoard KIND        by several processes; "# KIND N ERRNO", and stays
 *	hostile hoard KIND one    takes one: exit 0, or the errno
 */
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HANDS 8 /* processes */
#define MOST 200000u

static int bad(long r)
{
	return r < 0 ? errno : 0;
}

static int take_pty(unsigned)
{
	return bad(open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC));
}

static int take_socket(unsigned)
{
	return bad(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

/* One hand's do not meet another's: looking for a free one takes the kernel long. */
static int take_port(unsigned at)
{
	unsigned first = 1024 + (unsigned)getpid() % HANDS * 4096;
	struct sockaddr_in any = { .sin_family = AF_INET,
				   .sin_port = htons((uint16_t)(first + at)) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&any, sizeof(any)) < 0)
		return errno;
	return bad(listen(fd, 1));
}

static int take_fd(unsigned)
{
	return bad(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

static int take_inotify(unsigned)
{
	return bad(inotify_init1(IN_CLOEXEC));
}

static int take_watch(unsigned at)
{
	static int in = -1;
	char path[64];

	if (!at)
		in = inotify_init1(IN_CLOEXEC);
	if (in < 0 || !fill(path, "/dev/shm/watch-%d-%u", (int)getpid(), at))
		return errno;
	if (mknod(path, S_IFREG | 0600, 0) < 0)
		return errno;
	return bad(inotify_add_watch(in, path, IN_ALL_EVENTS));
}

static int take_queue(unsigned at)
{
	char name[64];

	if (!fill(name, "/hoard-%d-%u", (int)getpid(), at))
		return ENAMETOOLONG;
	return bad(mq_open(name, O_CREAT | O_RDWR | O_EXCL, 0600, NULL));
}

static int take_key(unsigned at)
{
	char name[64];

	if (!fill(name, "hoard-%d-%u", (int)getpid(), at))
		return ENAMETOOLONG;
	return bad(syscall(SYS_add_key, "user", name, "x", 1, -2));
}

static int take_timer(unsigned)
{
	struct sigevent nothing = { .sigev_notify = SIGEV_NONE };
	timer_t t;

	return bad(timer_create(CLOCK_MONOTONIC, &nothing, &t));
}

static int take_mount(unsigned)
{
	return bad(mount("none", "/tmp", "tmpfs", 0, NULL));
}

static int take_userns(unsigned)
{
	return bad(unshare(CLONE_NEWUSER));
}

static int take_semaphores(unsigned)
{
	return bad(semget(IPC_PRIVATE, 1, IPC_CREAT | 0600));
}

static int take_pipe(unsigned)
{
	int p[2];

	return bad(pipe2(p, O_CLOEXEC));
}

static const struct {
	const char *name;
	int (*take)(unsigned at);
} kinds[] = {
	{ "pty", take_pty },      { "socket", take_socket },   { "port", take_port },
	{ "fd", take_fd },        { "inotify", take_inotify }, { "watch", take_watch },
	{ "mqueue", take_queue }, { "key", take_key },         { "timer", take_timer },
	{ "mount", take_mount },  { "userns", take_userns },   { "semaphores", take_semaphores },
	{ "pipe", take_pipe },
};

struct total {
	unsigned n;
	int last;
};

static struct total until_refused(int (*take)(unsigned at))
{
	struct total t = {};

	while (!t.last && t.n < MOST) {
		t.last = take(t.n);
		t.n += !t.last;
	}
	return t;
}

int mode_hoard(int argc, char **argv)
{
	struct total all = {}, t;
	int p[2];

	for (size_t k = 0; argc > 1 && k < ARRAY_SIZE(kinds); k++) {
		if (strcmp(kinds[k].name, argv[1]) != 0)
			continue;
		if (argc > 2)
			return kinds[k].take(0);
		if (pipe2(p, O_CLOEXEC) < 0)
			return 1;
		for (int i = 0; i < HANDS; i++)
			if (fork() == 0) {
				t = until_refused(kinds[k].take);
				if (write(p[1], &t, sizeof(t)) != sizeof(t))
					_exit(1);
				for (;;)
					(void)pause();
			}
		for (int i = 0; i < HANDS && read(p[0], &t, sizeof(t)) == sizeof(t); i++) {
			all.n += t.n;
			all.last = t.last;
		}
		fact("%s %u %s", argv[1], all.n, result_text(all.last));
		for (;;)
			(void)pause();
	}
	return 2;
}
