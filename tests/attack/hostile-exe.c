/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exe - overwriting the programs of others through /proc/<pid>/exe
 *
 * CVE-2019-5736's class.  `exe plant` leaves a script whose interpreter is
 * /proc/self/exe: whoever execs it becomes a second copy of itself, which lives
 * in here and has a writable-looking link to its own file.  The driver has PID 1
 * exec it and then runs `exe`.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hostile.h"

#define FNV_BASIS 0xcbf29ce484222325u
#define FNV_PRIME 0x100000001b3u
#define PLANTED "/tmp/hostile-self-exe"

static uint64_t hash_of(int fd)
{
	static unsigned char room[65536];
	uint64_t h = FNV_BASIS;
	ssize_t n;

	while ((n = read(fd, room, sizeof(room))) > 0) {
		for (ssize_t i = 0; i < n; i++)
			h = (h ^ room[i]) * FNV_PRIME;
	}
	return h;
}

static bool is_own_program(const char *path)
{
	struct stat own, other;

	return stat("/proc/self/exe", &own) == 0 && stat(path, &other) == 0 &&
	       own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

/* Whether the program lies in our own root file system: ours to break. */
static bool is_of_image(const char *path)
{
	struct stat root, other;

	return stat("/", &root) == 0 && stat(path, &other) == 0 && root.st_dev == other.st_dev;
}

static void look_at(pid_t pid)
{
	static const int flags[] = { O_WRONLY, O_RDWR, O_WRONLY | O_TRUNC };
	char path[64], target[PATH_BYTES], name[128];
	int fd = -1;
	ssize_t n;

	if (!fill(path, "/proc/%d/exe", pid))
		return;
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return held(path, "%s", strerrorname_np(errno));
	target[n] = '\0';
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		fact("pid %d runs %s, hash %016llx", pid, target, (unsigned long long)hash_of(fd));
		(void)close(fd);
	}
	/* what the image brought is the sandbox's own to change */
	if (is_own_program(path) || (pid != 1 && is_of_image(path)))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		bool truncate = flags[i] & O_TRUNC;

		/* the last one by name, as /proc/1/exe says it is called */
		if (!fill(name, "%s of pid %d with flags %x", truncate ? "the name" : "the link",
			  pid, (unsigned)flags[i]))
			return;
		fd = open(truncate ? target : path, (flags[i] & ~O_TRUNC) | O_CLOEXEC);
		if (fd < 0) {
			held(name, "%s", strerrorname_np(errno));
			continue;
		}
		through(name, "%s opens for writing", target);
		(void)close(fd);
	}
}

static bool init_program(char ret[static PATH_BYTES])
{
	ssize_t n = readlink("/proc/1/exe", ret, PATH_BYTES - 1);

	ret[n > 0 ? n : 0] = '\0';
	/* PID 1 hides it from us; this is where the keeper puts it */
	return n > 0 || fill_n(ret, PATH_BYTES, "/dev/cay/init");
}

/* A busy program cannot be written by anybody; its mode and its directory can. */
static int change_mode(const void *arg)
{
	struct stat st;

	if (stat(arg, &st) < 0)
		return errno;
	return chmod(arg, st.st_mode & 07777) < 0 ? errno : 0;
}

static int make_beside(const void *arg)
{
	char path[PATH_BYTES];
	int fd;

	if (!fill(path, "%s-hostile", (const char *)arg))
		return ENAMETOOLONG;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno;
	(void)close(fd);
	(void)unlink(path);
	return 0;
}

/* A rename onto itself does nothing and needs all that a real one needs. */
static int rename_it(const void *arg)
{
	return rename(arg, arg) < 0 ? errno : 0;
}

static int plant(void)
{
	static const char script[] = "#!/proc/self/exe\n";
	int fd = open(PLANTED, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	if (fd < 0 || write(fd, script, strlen(script)) < 0 || fchmod(fd, 0755) < 0)
		return 1;
	(void)close(fd);
	printf("%s\n", PLANTED);
	return 0;
}

int mode_exe(int argc, char **argv)
{
	char program[PATH_BYTES];
	pid_t pids[PIDS_MAX];
	size_t n;

	if (argc == 2 && strcmp(argv[1], "plant") == 0)
		return plant();
	n = pids_visible(pids, ARRAY_SIZE(pids));
	for (size_t i = 0; i < n; i++)
		look_at(pids[i]);
	judge("the program of PID 1 by its link", file_writable("/proc/1/exe"));
	/* what the image brought is the sandbox's own to change */
	if (init_program(program) && !is_of_image(program)) {
		judge("the mode of PID 1's program", attempt(change_mode, program));
		judge("a file beside PID 1's program", attempt(make_beside, program));
		judge("PID 1's program renamed", attempt(rename_it, program));
	}
	return mode_end("exe");
}
