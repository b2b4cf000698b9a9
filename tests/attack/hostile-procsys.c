/* SPDX-License-Identifier: Apache-2.0 */
/*
 * procsys, leak - every file of /proc and /sys: for writing, and for what it says
 *
 * procsys opens each for writing and writes nothing.  /proc/<pid> is left out:
 * those are our own processes, and the modes fds, exe and neighbours look at
 * them.  A file that is /dev/null in disguise is a mask and counts as held.
 *
 * leak prints what can be read, bounded per file, for the driver to search for
 * canaries and names of the host.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "hostile.h"

#define DEPTH_MAX 24
#define LEAK_FILE_BYTES 65536
#define LEAK_TOTAL_BYTES (64u << 20)

struct walk {
	void (*file)(struct walk *w, const char *path);
	unsigned files, dirs;
	size_t bytes;
	bool pids; /* go into /proc/<pid> too */
};

/* Endless, or a copy of what was seen already. */
static bool is_skipped(const struct walk *w, const char *dir, const char *name)
{
	pid_t pid;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return true;
	if (strcmp(dir, "/proc") == 0)
		return strcmp(name, "self") == 0 || strcmp(name, "thread-self") == 0 ||
		       (!w->pids && name_is_pid(name, &pid));
	return w->pids && (strcmp(name, "task") == 0 || strcmp(name, "pagemap") == 0 ||
			   strcmp(name, "mem") == 0 || strcmp(name, "trace_pipe") == 0 ||
			   strcmp(name, "map_files") == 0);
}

static void walk(struct walk *w, const char *dir, unsigned depth)
{
	DIR *d = opendir(dir);
	const struct dirent *e;

	if (!d)
		return;
	w->dirs++;
	while ((e = readdir(d))) {
		char path[PATH_BYTES];
		struct stat st;

		if (is_skipped(w, dir, e->d_name) || !path_join(path, dir, e->d_name) ||
		    lstat(path, &st) < 0)
			continue;
		if (S_ISDIR(st.st_mode)) {
			if (depth < DEPTH_MAX)
				walk(w, path, depth + 1);
		} else if (!S_ISLNK(st.st_mode)) {
			w->files++;
			w->file(w, path);
		}
	}
	(void)closedir(d);
}

static void open_to_write(struct walk *, const char *path)
{
	int fd = open(path, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return;
	if (fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3))
		through(path, "opens for writing");
	(void)close(fd);
}

int mode_procsys(int, char **)
{
	static const char *const named[] = {
		"/proc/sys/kernel/core_pattern",  "/proc/sysrq-trigger",
		"/sys/kernel/uevent_helper",      "/proc/sys/fs/binfmt_misc/register",
		"/proc/sys/kernel/modprobe",      "/proc/sys/vm/panic_on_oom",
		"/proc/sys/kernel/hotplug",       "/proc/kmsg",
		"/sys/kernel/security/lockdown",  "/proc/sys/kernel/hostname",
		"/sys/fs/cgroup/release_agent",   "/sys/firmware/efi/efivars",
		"/proc/irq/default_smp_affinity", "/proc/sys/net/ipv4/ip_forward",
	};
	struct walk w = { .file = open_to_write };

	walk(&w, "/proc", 0);
	walk(&w, "/sys", 0);
	for (size_t i = 0; i < ARRAY_SIZE(named); i++) {
		int result = file_writable(named[i]);

		/* those that open were named by the walk */
		if (result != 0)
			held(named[i], "%s", result_text(result));
	}
	fact("%u files in %u directories", w.files, w.dirs);
	if (w.files == 0)
		through("walk", "nothing to look at: no /proc, no test");
	return mode_end("procsys");
}

static void print_file(struct walk *w, const char *path)
{
	static char text[LEAK_FILE_BYTES];
	ssize_t n;

	if (w->bytes > LEAK_TOTAL_BYTES)
		return;
	n = file_get(path, text, sizeof(text));
	if (n <= 0)
		return;
	w->bytes += (size_t)n;
	printf("== %s\n", path);
	(void)fwrite(text, 1, (size_t)n, stdout);
	putchar('\n');
}

static int read_dmesg(const void *)
{
	static char text[LEAK_FILE_BYTES];
	long n = syscall(SYS_syslog, 3, text, (int)sizeof(text));

	if (n < 0)
		return errno;
	printf("== dmesg\n%.*s\n", (int)n, text);
	return fflush(stdout) == 0 ? 0 : EIO;
}

int mode_leak(int, char **)
{
	static char out[1 << 16];
	struct walk w = { .file = print_file, .pids = true };
	struct utsname u;

	(void)setvbuf(stdout, out, _IOFBF, sizeof(out));
	if (uname(&u) == 0)
		printf("== uname\n%s %s %s %s %s\n", u.sysname, u.nodename, u.release, u.version,
		       u.machine);
	printf("== environ\n");
	for (char **e = environ; *e; e++)
		printf("%s\n", *e);
	print_file(&w, "/proc/self/mountinfo");
	walk(&w, "/proc", 0);
	walk(&w, "/sys", 0);
	judge("dmesg", attempt(read_dmesg, NULL));
	fact("%u files in %u directories, %zu bytes", w.files, w.dirs, w.bytes);
	return mode_end("leak");
}
