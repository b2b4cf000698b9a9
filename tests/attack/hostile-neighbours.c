/* SPDX-License-Identifier: Apache-2.0 */
/*
 * neighbours - objects of another sandbox, by every name they have
 *
 * serve-neighbour makes one of each in one sandbox, under a mark; neighbours
 * looks for the mark in another.  In the same sandbox it must find them all,
 * which is how the driver knows that it can.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/ptrace.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostile.h"

#define TEXT_BYTES 65536
#define PID_LIMIT 65536
#define MARK_BYTES 64

/* Where one sandbox's file could be another's. */
static const char *const shared[] = {
	"/tmp", "/dev/shm", "/dev", "/dev/mqueue", "/dev/cay",
	"/run", "/var/tmp", "/sys", "/proc",       "/proc/self/fdinfo"
};

static key_t key_of(const char *mark)
{
	unsigned h = 5381;

	for (const char *c = mark; *c; c++)
		h = h * 33 + (unsigned char)*c;
	return (key_t)(h & 0x7fffffff) | 1;
}

static socklen_t abstract(struct sockaddr_un *ret, const char *mark)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	size_t n = strnlen(mark, sizeof(ret->sun_path) - 1);

	memcpy(ret->sun_path + 1, mark, n);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

static bool file_has(const char *path, const char *mark)
{
	static char text[TEXT_BYTES];
	ssize_t n = file_get(path, text, sizeof(text));

	return n > 0 && memmem(text, (size_t)n, mark, strlen(mark));
}

static int find_process(const void *arg)
{
	pid_t pids[PIDS_MAX];
	size_t n = pids_visible(pids, ARRAY_SIZE(pids));

	for (size_t i = 0; i < n; i++) {
		static const char *const what[] = { "cmdline", "environ" };

		for (size_t k = 0; k < ARRAY_SIZE(what) && pids[i] != getppid(); k++) {
			char path[64];

			if (pids[i] != getpid() && fill(path, "/proc/%d/%s", pids[i], what[k]) &&
			    file_has(path, arg))
				return 0;
		}
	}
	return ESRCH;
}

/* Numbers that answer to a signal without being in our /proc. */
static int find_hidden(const void *)
{
	for (pid_t pid = 1; pid < PID_LIMIT; pid++) {
		char path[64];

		if ((kill(pid, 0) == 0 || errno == EPERM) && fill(path, "/proc/%d", pid) &&
		    access(path, F_OK) < 0 && kill(pid, 0) == 0)
			return 0;
	}
	return ESRCH;
}

static int find_socket_row(const void *arg)
{
	return file_has("/proc/net/unix", arg) ? 0 : ENOENT;
}

static int find_socket(const void *arg)
{
	struct sockaddr_un sa;
	socklen_t n = abstract(&sa, arg);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd < 0 || connect(fd, (struct sockaddr *)&sa, n) < 0 ? errno : 0;
}

static int find_shm(const void *arg)
{
	return shmget(key_of(arg), 0, 0) < 0 ? errno : 0;
}

static int find_sem(const void *arg)
{
	return semget(key_of(arg), 0, 0) < 0 ? errno : 0;
}

static int find_msg(const void *arg)
{
	return msgget(key_of(arg), 0) < 0 ? errno : 0;
}

static int find_queue(const void *arg)
{
	char name[128];

	if (!fill(name, "/%s", (const char *)arg))
		return EINVAL;
	return mq_open(name, O_RDONLY) < 0 ? errno : 0;
}

static int find_key(const void *arg)
{
	long ring = syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user", arg, 0);

	return ring < 0 ? errno : 0;
}

static int find_key_row(const void *arg)
{
	return file_has("/proc/keys", arg) ? 0 : ENOENT;
}

static int find_file(const void *arg)
{
	for (size_t i = 0; i < ARRAY_SIZE(shared); i++) {
		char path[PATH_BYTES];

		if (path_join(path, shared[i], arg) && access(path, F_OK) == 0)
			return 0;
	}
	return ENOENT;
}

static int trace_init(const void *)
{
	return ptrace(PTRACE_SEIZE, 1, NULL, NULL) < 0 ? errno : 0;
}

static int write_init(const void *)
{
	return file_writable("/proc/1/mem");
}

static const struct {
	const char *name;
	int (*fn)(const void *);
} looks[] = {
	{ "process", find_process },
	{ "process out of sight", find_hidden },
	{ "abstract socket in /proc/net/unix", find_socket_row },
	{ "abstract socket", find_socket },
	{ "System V shared memory", find_shm },
	{ "System V semaphore", find_sem },
	{ "System V message queue", find_msg },
	{ "POSIX message queue", find_queue },
	{ "key of the user keyring", find_key },
	{ "key in /proc/keys", find_key_row },
	{ "file in a shared directory", find_file },
	{ "ptrace PID 1", trace_init },
	{ "memory of PID 1", write_init },
};

static void made(const char *name, long r)
{
	fact("%s: %s", name, r < 0 ? strerrorname_np(errno) : "made");
}

int mode_serve_neighbour(int argc, char **argv)
{
	struct sockaddr_un sa;
	char path[PATH_BYTES], name[128];
	socklen_t n;
	int fd;

	if (argc != 2)
		return 2;
	n = abstract(&sa, argv[1]);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	made("socket", fd < 0 || bind(fd, (struct sockaddr *)&sa, n) < 0 ? -1 : listen(fd, 8));
	made("shm", shmget(key_of(argv[1]), 4096, IPC_CREAT | 0666));
	made("sem", semget(key_of(argv[1]), 1, IPC_CREAT | 0666));
	made("msg", msgget(key_of(argv[1]), IPC_CREAT | 0666));
	if (fill(name, "/%s", argv[1]))
		made("mq", mq_open(name, O_RDWR | O_CREAT, 0666, NULL));
	made("key", syscall(SYS_add_key, "user", argv[1], "x", 1, KEY_SPEC_USER_KEYRING));
	for (size_t i = 0; i < ARRAY_SIZE(shared); i++) {
		if (path_join(path, shared[i], argv[1]))
			made(shared[i], open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
	}
	printf("serving\n");
	(void)fflush(stdout);
	(void)pause();
	return 0;
}

/* The control: a neighbour in our own sandbox.  Returns when it serves. */
static pid_t serve_at_home(char *mark)
{
	char *args[] = { (char *)(uintptr_t)"hostile", (char *)(uintptr_t)"serve-neighbour", mark,
			 NULL };
	char text[4096];
	size_t n = 0;
	ssize_t got;
	int out[2];
	pid_t pid;

	if (pipe2(out, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		if (dup2(out[1], STDOUT_FILENO) >= 0)
			(void)execv("/proc/self/exe", args);
		_exit(1);
	}
	(void)close(out[1]);
	while (n < sizeof(text) && (got = read(out[0], text + n, sizeof(text) - n)) > 0) {
		n += (size_t)got;
		if (memmem(text, n, "serving", strlen("serving")))
			break;
	}
	(void)close(out[0]);
	return pid;
}

/* Our own command line holds the mark as well. */
static bool take_mark(char *arg, char ret[static MARK_BYTES])
{
	bool fits = fill_n(ret, MARK_BYTES, "%s", arg);

	memset(arg, 'x', strlen(arg));
	return fits;
}

int mode_neighbours(int argc, char **argv)
{
	bool at_home = argc == 3 && strcmp(argv[1], "--at-home") == 0;
	char mark[MARK_BYTES];
	pid_t pid = 0;

	if ((argc != 2 && !at_home) || !take_mark(argv[argc - 1], mark))
		return 2;
	if (at_home)
		pid = serve_at_home(mark);
	for (size_t i = 0; i < ARRAY_SIZE(looks); i++)
		judge(looks[i].name, attempt(looks[i].fn, mark));
	if (pid > 0)
		(void)kill(pid, SIGKILL);
	return mode_end("neighbours");
}
