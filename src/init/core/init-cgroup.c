/* SPDX-License-Identifier: Apache-2.0 */
#include "init/core/init-cgroup.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/path.h"

static int init_cgroup_write_file(int dirfd, const char *name, const char *text)
{
	auto_close int fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

int init_cgroup_create(int dirfd, const char *name, int *ret)
{
	int fd;

	if (mkdirat(dirfd, name, 0755) < 0)
		return -errno;
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0) {
		int r = -errno;

		(void)unlinkat(dirfd, name, AT_REMOVEDIR);
		return r;
	}
	*ret = fd;
	return 0;
}

int init_cgroup_ensure(int dirfd, const char *name, int *fd)
{
	return dirfd < 0 || *fd >= 0 ? 0 : init_cgroup_create(dirfd, name, fd);
}

int init_cgroup_join(int fd)
{
	return init_cgroup_write_file(fd, "cgroup.procs", "0");
}

int init_cgroup_move(int fd, pid_t pid)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d", (int)pid);

	assert(n > 0 && (size_t)n < sizeof(text));
	return init_cgroup_write_file(fd, "cgroup.procs", text);
}

int init_cgroup_kill(int fd)
{
	return init_cgroup_write_file(fd, "cgroup.kill", "1");
}

int init_cgroup_remove(int dirfd, const char *name)
{
	return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}
