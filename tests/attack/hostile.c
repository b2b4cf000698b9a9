/* SPDX-License-Identifier: Apache-2.0 */
#include "hostile.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ATTEMPT_SECONDS 10

static unsigned n_held, n_through;

int attempt(int (*fn)(const void *arg), const void *arg)
{
	int p[2], result = EIO, status;
	pid_t pid;

	(void)fflush(stdout);
	if (pipe2(p, O_CLOEXEC) < 0)
		return errno;
	pid = fork();
	if (pid < 0) {
		result = errno;
		(void)close(p[0]);
		(void)close(p[1]);
		return result;
	}
	if (pid == 0) {
		(void)alarm(ATTEMPT_SECONDS);
		result = fn(arg);
		_exit(write(p[1], &result, sizeof(result)) == sizeof(result) ? 0 : 1);
	}
	(void)close(p[1]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		result = RESULT_SIGNAL + WTERMSIG(status);
	else if (read(p[0], &result, sizeof(result)) != sizeof(result))
		result = EIO;
	(void)close(p[0]);
	return result;
}

const char *result_text(int result)
{
	static char other[32];
	const char *name;

	if (result == 0)
		return "ok";
	if (result == RESULT_MASKED)
		return "masked";
	if (result > RESULT_SIGNAL) {
		name = sigabbrev_np(result - RESULT_SIGNAL);
		return fill(other, "SIG%s", name ? name : "?") ? other : "?";
	}
	name = strerrorname_np(result);
	return name ? name : "?";
}

__attribute__((format(printf, 3, 0))) static void line(const char *name, const char *verdict,
						       const char *fmt, va_list ap)
{
	printf("%s|%s|", name, verdict);
	vprintf(fmt, ap);
	putchar('\n');
}

void held(const char *name, const char *fmt, ...)
{
	va_list ap;

	n_held++;
	va_start(ap, fmt);
	line(name, "held", fmt, ap);
	va_end(ap);
}

void through(const char *name, const char *fmt, ...)
{
	va_list ap;

	n_through++;
	va_start(ap, fmt);
	line(name, "through", fmt, ap);
	va_end(ap);
}

void judge(const char *name, int result)
{
	if (result == 0)
		through(name, "it worked");
	else
		held(name, "%s", result_text(result));
}

void fact(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("# ");
	vprintf(fmt, ap);
	putchar('\n');
	va_end(ap);
}

int mode_end(const char *mode)
{
	printf("%s: %u held, %u through\n", mode, n_held, n_through);
	/* nothing tried is nothing shown */
	return n_through == 0 && n_held > 0 ? 0 : 1;
}

bool fill_n(char *ret, size_t n, const char *fmt, ...)
{
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(ret, n, fmt, ap);
	va_end(ap);
	return len >= 0 && (size_t)len < n;
}

bool path_join(char ret[static PATH_BYTES], const char *dir, const char *name)
{
	return fill_n(ret, PATH_BYTES, "%s/%s", dir, name);
}

ssize_t file_get(const char *path, char *ret, size_t n)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	size_t at = 0;
	ssize_t got = -1;

	if (fd < 0)
		return -errno;
	while (at + 1 < n && (got = read(fd, ret + at, n - 1 - at)) > 0)
		at += (size_t)got;
	if (got < 0 && at == 0)
		got = -errno;
	ret[at] = '\0';
	(void)close(fd);
	return at > 0 ? (ssize_t)at : got;
}

int file_writable(const char *path)
{
	int fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return errno;
	(void)close(fd);
	return 0;
}

int file_put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC), result = 0;

	if (fd < 0)
		return errno;
	if (write(fd, text, strlen(text)) < 0)
		result = errno;
	(void)close(fd);
	return result;
}

int file_copy_self(const char *path, mode_t mode)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to = -1, result = 0;
	struct stat st;

	if (from < 0)
		return errno;
	(void)unlink(path);
	to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	if (to < 0 || fstat(from, &st) < 0) {
		result = errno;
	} else {
		for (off_t left = st.st_size; left > 0 && result == 0;) {
			ssize_t n = sendfile(to, from, NULL, (size_t)left);

			result = n < 0 ? errno : n == 0 ? EIO : 0;
			left -= n > 0 ? n : 0;
		}
		if (result == 0 && fchmod(to, mode) < 0)
			result = errno;
	}
	if (to >= 0)
		(void)close(to);
	(void)close(from);
	return result;
}

bool name_is_pid(const char *name, pid_t *ret)
{
	long value = 0;

	if (!*name)
		return false;
	for (const char *c = name; *c; c++) {
		if (!isdigit((unsigned char)*c) || value > 4194304)
			return false;
		value = value * 10 + (*c - '0');
	}
	*ret = (pid_t)value;
	return true;
}

size_t pids_visible(pid_t *ret, size_t n)
{
	DIR *dir = opendir("/proc");
	const struct dirent *e;
	size_t found = 0;

	if (!dir)
		return 0;
	while (found < n && (e = readdir(dir)))
		found += name_is_pid(e->d_name, &ret[found]);
	(void)closedir(dir);
	return found;
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} modes[] = {
	{ "probe", mode_probe, "the surface: system calls, sockets, files" },
	{ "abi32", mode_abi32, "the i386 and x32 entries" },
	{ "privs", mode_privs, "what it holds, and what a set-uid program adds" },
	{ "suid", mode_suid, "(run by privs)" },
	{ "cgroup", mode_cgroup, "cgroup escapes" },
	{ "procsys", mode_procsys, "every file of /proc and /sys, for writing" },
	{ "leak", mode_leak, "what can be read about the machine, to stdout" },
	{ "fds", mode_fds, "inherited and reachable file descriptors" },
	{ "exe", mode_exe, "[plant] overwriting running programs" },
	{ "neighbours", mode_neighbours, "MARK: objects of another sandbox" },
	{ "serve-neighbour", mode_serve_neighbour, "MARK: make such objects, and stay" },
	{ "devices", mode_devices, "[N] device nodes, N majors by N minors" },
	{ "replace", mode_replace, "put itself in place of sh, libc, tar ..." },
	{ "disk", mode_disk, "HOW DIR [MAX]: all there is to be had of a file system" },
	{ "disk-escape", mode_disk_escape, "DIR...: out of a quota" },
	{ "agent", mode_agent, "[--list | NUMBER] a hostile PID 1" },
	{ "greedy", mode_greedy, "KIND MIB | all: memory of each kind" },
	{ "swarm", mode_swarm, "KIND [N]: processes, and processor time" },
	{ "hoard", mode_hoard, "KIND [one]: what the kernel counts" },
	{ "host", mode_host, "ioctl | socket | oob | crash | junk [N]: programs of the host's" },
	{ "wiretap", mode_wiretap, "listen SECONDS | work | locks | mincore PATH: shared inodes" },
};

int main(int argc, char **argv)
{
	const char *name = argc > 0 ? strrchr(argv[0], '/') : NULL;

	name = name ? name + 1 : argc > 0 ? argv[0] : "hostile";
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	/* installed in place of cay-init, whatever it is called there */
	if (getpid() == 1 && strncmp(name, "hostile", strlen("hostile")) != 0)
		return mode_agent(argc, argv);
	if (strncmp(name, "hostile", strlen("hostile")) != 0)
		return trap_sprung(name);
	for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(modes); i++) {
		if (strcmp(argv[1], modes[i].name) == 0)
			return modes[i].run(argc - 1, argv + 1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
		(void)fprintf(stderr, "hostile %-16s %s\n", modes[i].name, modes[i].help);
	return 2;
}
