/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host - what makes the kernel start a program of the host's, as root and outside every limit
 *
 * A module it looks for (line disciplines, sockets, devices, formats of programs) is modprobe's,
 * a crash may be core_pattern's.  Here is tried what can be asked for; the driver counts what
 * the host ran.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostile.h"

#define NUMBERS 65536
#define STUCK_SECONDS 3
#define STUCK_MAX 32
#define STRIDE 256
#define NO_LDISC 20 /* no kernel has it built in, so it is a module to look for */
#define TYPES 16
#define PROTOCOLS 264
#define HIGH (UINT64_C(1) << 32) /* the kernel takes 32 bits of a number */

static unsigned forks;

static pid_t counted_fork(void)
{
	forks++;
	(void)fflush(stdout);
	return fork();
}

/* -- ioctl */

static int open_pty_master(void)
{
	int fd = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

	return fd < 0 || unlockpt(fd) < 0 ? -1 : fd;
}

static int open_pty(void)
{
	int fd = open_pty_master();

	return fd < 0 ? -1 : ioctl(fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
}

/* The controlling terminal by its own device. */
static int open_tty(void)
{
	int fd = setsid() < 0 ? -1 : open_pty();

	return fd < 0 || ioctl(fd, TIOCSCTTY, 0) < 0 ? -1 : open("/dev/tty", O_RDWR | O_NONBLOCK);
}

static int open_unix(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static int open_tcp(void)
{
	return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static int open_udp6(void)
{
	return socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static int open_netlink(void)
{
	return socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static int open_file(void)
{
	return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
}

static const struct {
	const char *name;
	int (*open)(void);
} kinds[] = {
	{ "pty master", open_pty_master }, { "pty", open_pty },   { "tty", open_tty },
	{ "unix socket", open_unix },      { "tcp", open_tcp },   { "udp6", open_udp6 },
	{ "netlink", open_netlink },       { "file", open_file },
};

/* The rest of a number is a direction and a size; those of these two letters have both. */
static const uint32_t rests[] = { 0, 0x40040000, 0x80040000, 0xc0040000 };

static void walk_numbers(int (*open_kind)(void), volatile uint32_t *at)
{
	int fd = open_kind();

	if (fd < 0)
		_exit(1);
	for (uint32_t n = *at; n < NUMBERS; n++) {
		unsigned char arg[512] = { NO_LDISC };

		*at = n + 1;
		if (n % STRIDE == 0)
			(void)alarm(STUCK_SECONDS); /* for those that wait, not for a slow walk */
		for (size_t i = 0; i < (n >> 8 == 0x54 || n >> 8 == 0x89 ? ARRAY_SIZE(rests) : 1);
		     i++)
			(void)syscall(SYS_ioctl, fd, rests[i] | n, arg);
	}
	_exit(0);
}

/* Every number; one that waits is left to itself. */
static void try_numbers(const char *name, int (*open_kind)(void))
{
	volatile uint32_t *at =
		mmap(NULL, sizeof(*at), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned stuck = 0;
	int status = 0;

	if (at == MAP_FAILED)
		return;
	while (*at < NUMBERS && stuck < STUCK_MAX) {
		pid_t pid = counted_fork();

		if (pid == 0) {
			(void)signal(SIGTTOU, SIG_IGN);
			(void)signal(SIGIO, SIG_IGN);
			(void)alarm(STUCK_SECONDS);
			walk_numbers(open_kind, at);
		}
		(void)waitpid(pid, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
			break;
		stuck++;
	}
	fact("%s: %u numbers, left %u times", name, *at, stuck);
	if (*at < NUMBERS)
		through(name, "only %u numbers were tried", *at);
	(void)munmap((void *)(uintptr_t)at, sizeof(*at));
}

static const struct {
	const char *name;
	int (*open)(void);
	uint32_t number;
} requests[] = {
	{ "TIOCSETD", open_pty, 0x5423 },     { "TIOCSTI", open_pty, 0x5412 },
	{ "TIOCLINUX", open_pty, 0x541c },    { "SIOCGIFBR", open_tcp, 0x8940 },
	{ "SIOCSIFBR", open_unix, 0x8941 },   { "SIOCGIFVLAN", open_tcp, 0x8982 },
	{ "SIOCSIFVLAN", open_unix, 0x8983 }, { "SIOCBRADDBR", open_tcp, 0x89a0 },
	{ "SIOCBRDELBR", open_udp6, 0x89a1 }, { "SIOCBRADDIF", open_tcp, 0x89a2 },
	{ "SIOCBRDELIF", open_unix, 0x89a3 },
};

/* Whatever the kernel says of it, it was asked; only the filter says that there is no such call. */
static void judge_asked(const char *name, const char *how, int result)
{
	char text[64];

	if (!fill(text, "%s%s", name, how))
		return;
	if (result == ENOSYS)
		held(text, "ENOSYS");
	else
		through(text, "the kernel said %s", result_text(result));
}

static int mode_host_ioctl(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		unsigned char arg[512] = {};
		int fd = requests[i].open();

		if (fd < 0) {
			through(requests[i].name, "nothing to try it on");
			continue;
		}
		judge_asked(requests[i].name, "",
			    syscall(SYS_ioctl, fd, requests[i].number, arg) < 0 ? errno : 0);
		judge_asked(requests[i].name, ", 33 bits",
			    syscall(SYS_ioctl, fd, HIGH | requests[i].number, arg) < 0 ? errno : 0);
		(void)close(fd);
	}
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		try_numbers(kinds[i].name, kinds[i].open);
	return mode_end("host ioctl");
}

/* -- socket: a pair that nothing is registered for is a module to look for */

static int mode_host_socket(void)
{
	static const int families[] = { AF_INET, AF_INET6 };
	unsigned asked = 0, opened = 0;

	for (size_t f = 0; f < ARRAY_SIZE(families); f++)
		for (int type = 0; type < TYPES; type++)
			for (int protocol = 0; protocol < PROTOCOLS; protocol++) {
				int fd = socket(families[f], type, protocol);

				if (fd >= 0) {
					opened++;
					(void)close(fd);
				} else if (errno == EPROTONOSUPPORT || errno == ESOCKTNOSUPPORT) {
					asked++;
				}
			}
	fact("%u sockets", opened);
	if (asked)
		through("pairs of type and protocol", "the kernel looked for %u", asked);
	else
		held("pairs of type and protocol", "none looked for");
	return mode_end("host socket");
}

/* -- MSG_OOB */

static int mode_host_oob(void)
{
	char byte = 'x';
	struct iovec iov = { &byte, 1 };
	struct mmsghdr m = { .msg_hdr = { .msg_iov = &iov, .msg_iovlen = 1 } };
	int p[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p) < 0)
		return 2;
	for (int i = 0; i < 2; i++) {
		uint64_t flags = MSG_OOB | (i ? HIGH : 0);
		const char *how = i ? ", 33 bits" : "";

#define ASKED(call, ...) judge_asked(#call, how, syscall(SYS_##call, __VA_ARGS__) < 0 ? errno : 0)
		ASKED(sendto, p[0], &byte, 1, flags, NULL, 0);
		ASKED(sendmsg, p[0], &m.msg_hdr, flags);
		ASKED(sendmmsg, p[0], &m, 1, flags);
		ASKED(recvfrom, p[1], &byte, 1, flags, NULL, NULL);
		ASKED(recvmsg, p[1], &m.msg_hdr, flags);
		ASKED(recvmmsg, p[1], &m, 1, flags, NULL);
#undef ASKED
	}
	if (send(p[0], "y", 1, MSG_NOSIGNAL) != 1 || recv(p[1], &byte, 1, MSG_DONTWAIT) != 1)
		through("plain bytes", "%s", strerrorname_np(errno));
	return mode_end("host oob");
}

/* -- crashes: with a limit of 1 byte the kernel starts no program for a core, with 0 it does */

static int set_core(uint64_t resource, rlim_t bytes, bool by_pid)
{
	struct rlimit r = { bytes, bytes };

	return (int)(by_pid ? syscall(SYS_prlimit64, 0, resource, &r, NULL)
			    : syscall(SYS_setrlimit, resource, &r));
}

static int mode_host_crash(int n)
{
	static const rlim_t bytes[] = { 0, RLIM_INFINITY };
	struct rlimit now = {};

	for (size_t i = 0; i < ARRAY_SIZE(bytes); i++)
		for (int k = 0; k < 4; k++)
			(void)set_core(RLIMIT_CORE | (k & 1 ? HIGH : 0), bytes[i], k & 2);
	if (getrlimit(RLIMIT_CORE, &now) < 0 || now.rlim_cur != 1 || now.rlim_max != 1)
		through("limit of cores", "%llu, %llu bytes", (unsigned long long)now.rlim_cur,
			(unsigned long long)now.rlim_max);
	else
		held("limit of cores", "1 byte");
	for (int i = 0; i < n; i++) {
		pid_t pid = counted_fork();
		int status = 0;

		if (pid == 0) {
			(void)prctl(PR_SET_DUMPABLE, 1);
			(void)raise(i & 1 ? SIGABRT : SIGSEGV);
			_exit(0);
		}
		(void)waitpid(pid, &status, 0);
		if (!WIFSIGNALED(status) || WCOREDUMP(status))
			through("crash", "status %x", (unsigned)status);
	}
	held("crashes", "%d", n);
	return mode_end("host crash");
}

/* -- programs of a format that no one knows */

static int mode_host_junk(int n)
{
	static const char path[] = "/tmp/junk";
	static char *const args[] = { NULL };
	int wrong = 0;

	for (int i = 0; i < n; i++) {
		const unsigned char magic[64] = { 1, 2, (unsigned char)i, 0x90 };
		int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755), status = 0;
		pid_t pid;

		if (fd < 0 || write(fd, magic, sizeof(magic)) < 0)
			return 2;
		(void)close(fd);
		pid = counted_fork();
		if (pid == 0) {
			(void)execve(path, args, args);
			_exit(errno == ENOEXEC ? 0 : 1);
		}
		(void)waitpid(pid, &status, 0);
		wrong += status != 0;
	}
	(void)unlink(path);
	if (wrong)
		through("junk", "%d of %d", wrong, n);
	else
		held("junk", "%d", n);
	return mode_end("host junk");
}

int mode_host(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[2]) : 20, r = 2;

	if (argc < 2)
		return 2;
	if (strcmp(argv[1], "ioctl") == 0)
		r = mode_host_ioctl();
	else if (strcmp(argv[1], "socket") == 0)
		r = mode_host_socket();
	else if (strcmp(argv[1], "oob") == 0)
		r = mode_host_oob();
	else if (strcmp(argv[1], "crash") == 0)
		r = mode_host_crash(n);
	else if (strcmp(argv[1], "junk") == 0)
		r = mode_host_junk(n);
	fact("%u forks", forks);
	return r;
}
