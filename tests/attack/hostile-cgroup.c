/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup - the ways out, or up, that lead through cgroups
 *
 * On a host with version 1 hierarchies a writable release_agent is a command
 * line of the host's root.  Each row is one way to such a file, to other limits
 * or to another cgroup; afterwards we must still be where we were.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostile.h"

#define MOUNTS_MAX 32
#define MOUNTINFO_BYTES 65536
#define CGROUP_BYTES 4096

/* Where cgroup file systems can be seen. */
static size_t visible(char ret[static MOUNTS_MAX][PATH_BYTES])
{
	static char text[MOUNTINFO_BYTES];
	char *save = NULL;
	size_t n = 0;

	if (file_get("/proc/self/mountinfo", text, sizeof(text)) <= 0)
		return 0;
	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		if (n < MOUNTS_MAX && strstr(l, " - cgroup") &&
		    sscanf(l, "%*s %*s %*s %*s %4095s", ret[n]) == 1)
			n++;
	}
	return n;
}

/* Try to write text into NAME of every cgroup file system, and of those above. */
static int put_everywhere(const char *name, const char *text)
{
	static const char *const ups[] = { "", "../", "../../", "../../../../" };
	static char at[MOUNTS_MAX][PATH_BYTES];
	size_t n = visible(at);
	int result = ENOENT;

	for (size_t i = 0; i < n; i++) {
		for (size_t up = 0; up < ARRAY_SIZE(ups); up++) {
			char path[PATH_BYTES], full[PATH_BYTES];

			if (!path_join(path, at[i], ups[up]) || !path_join(full, path, name))
				continue;
			result = file_put(full, text);
			if (result == 0)
				return 0;
		}
	}
	return result;
}

static int mount_at_tmp(const char *type, const char *data)
{
	static const char at[] = "/tmp/hostile-cgroup";
	int result;

	(void)mkdir(at, 0755);
	result = mount("none", at, type, 0, data) < 0 ? errno : 0;
	if (result == 0)
		(void)umount2(at, MNT_DETACH);
	return result;
}

static int mount_v1(const void *)
{
	static const char *const controllers[] = {
		"memory", "cpu",  "cpuset",  "devices", "freezer",          "blkio",
		"pids",   "rdma", "hugetlb", "misc",    "none,name=hostile"
	};
	int result = ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(controllers) && result != 0; i++)
		result = mount_at_tmp("cgroup", controllers[i]);
	return result;
}

static int mount_v2(const void *)
{
	return mount_at_tmp("cgroup2", NULL);
}

static int release_agent(const void *)
{
	return put_everywhere("release_agent", "/hostile-released");
}

static int notify(const void *)
{
	return put_everywhere("notify_on_release", "1");
}

static int devices_allow(const void *)
{
	return put_everywhere("devices.allow", "a *:* rwm");
}

static int leave_by_mount(const void *)
{
	return put_everywhere("cgroup.procs", "0");
}

/* An fd of a cgroup directory is a way to its cgroup.procs and to those above; so
 * is a working directory. */
static int leave_by_fd(const void *)
{
	static const char *const names[] = { "cgroup.procs", "../cgroup.procs",
					     "../../cgroup.procs" };
	int result = EBADF;

	for (int fd = FIRST_FD - 1; fd <= LAST_FD; fd++) {
		for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
			int to = openat(fd < FIRST_FD ? AT_FDCWD : fd, names[i],
					O_WRONLY | O_CLOEXEC);

			if (to < 0)
				continue;
			result = write(to, "0", 1) < 0 ? errno : 0;
			(void)close(to);
			if (result == 0)
				return 0;
		}
	}
	return result;
}

static int unshare_both(const void *)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWCGROUP | CLONE_NEWNS) < 0)
		return errno;
	return mount_at_tmp("cgroup2", NULL);
}

static int clone_cgroup_ns(const void *)
{
	long pid = syscall(SYS_clone, CLONE_NEWCGROUP | SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return errno;
	(void)waitpid((pid_t)pid, NULL, 0);
	return 0;
}

static int climb_from_init(const void *)
{
	static const char *const from[] = { "/proc/1/cwd", "/proc/1/root", "/proc/self/cwd" };
	int result = ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(from); i++) {
		char path[PATH_BYTES];
		struct stat root, above;

		if (!path_join(path, from[i], "../../../../../../../.."))
			continue;
		if (stat("/", &root) < 0 || stat(path, &above) < 0) {
			result = errno;
			continue;
		}
		if (root.st_dev != above.st_dev || root.st_ino != above.st_ino)
			return 0;
		if (path_join(path, from[i], "../../../../sys/fs/cgroup/cgroup.procs"))
			result = file_put(path, "0");
		if (result == 0)
			return 0;
	}
	return result;
}

static int write_limits(const void *)
{
	static const struct {
		const char *name, *text;
	} limits[] = {
		{ "memory.max", "max" },
		{ "memory.limit_in_bytes", "-1" },
		{ "pids.max", "max" },
		{ "cpu.max", "max" },
		{ "cpu.cfs_quota_us", "-1" },
		{ "cgroup.freeze", "0" },
		{ "cgroup.max.descendants", "max" },
	};
	int result = ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(limits) && result != 0; i++)
		result = put_everywhere(limits[i].name, limits[i].text);
	return result;
}

static int subtree_control(const void *)
{
	return put_everywhere("cgroup.subtree_control", "+memory +pids +cpu");
}

static const struct {
	const char *name;
	int (*fn)(const void *);
} variants[] = {
	{ "mount each version 1 controller", mount_v1 },
	{ "mount version 2", mount_v2 },
	{ "release_agent", release_agent },
	{ "notify_on_release", notify },
	{ "devices.allow", devices_allow },
	{ "leave through a mounted cgroupfs", leave_by_mount },
	{ "leave through an inherited fd or cwd", leave_by_fd },
	{ "unshare user and cgroup, then mount", unshare_both },
	{ "clone with a cgroup namespace", clone_cgroup_ns },
	{ "climb from /proc/1/cwd and root", climb_from_init },
	{ "raise the limits in /sys/fs/cgroup", write_limits },
	{ "subtree_control", subtree_control },
};
static_assert(ARRAY_SIZE(variants) == 12);

int mode_cgroup(int, char **)
{
	static char before[CGROUP_BYTES], after[CGROUP_BYTES];

	if (file_get("/proc/self/cgroup", before, sizeof(before)) <= 0)
		fact("no /proc/self/cgroup");
	for (size_t i = 0; i < ARRAY_SIZE(variants); i++)
		judge(variants[i].name, attempt(variants[i].fn, NULL));
	(void)file_get("/proc/self/cgroup", after, sizeof(after));
	if (strcmp(before, after) == 0)
		held("still in the own cgroup", "unchanged");
	else
		through("still in the own cgroup", "now elsewhere");
	return mode_end("cgroup");
}
