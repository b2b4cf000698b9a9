/* SPDX-License-Identifier: Apache-2.0 */
/*
 * platform-guest - what the platform programs run inside a container
 *
 * Static and never sanitised, so that a root file system is this one file.
 *
 *	true            exit 0
 *	wait            say "ready" on fd 3, stay until it ends
 *	serve PATH      accept once on fd 3, answer with what is seen from inside:
 *	                of PATH, of the directory at fd 4, and of fds above
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_FD 3
#define DIR_FD 4

static int serve(const char *path)
{
	unsigned inside = 0, outside = 0, more_fds = 0;
	struct stat st, above;
	int fd, stat_errno, mkdir_errno;
	char request[16];
	bool closed;
	FILE *map;

	for (int other = DIR_FD + 1; other < 1024; other++)
		more_fds += fcntl(other, F_GETFD) >= 0;
	stat_errno = stat(path, &st) < 0 ? errno : 0;
	mkdir_errno = mkdirat(DIR_FD, "exec-1", 0755) < 0 ? errno : 0;
	closed = fstat(DIR_FD, &st) == 0 && fstatat(DIR_FD, "../../../..", &above, 0) == 0 &&
		 st.st_dev == above.st_dev && st.st_ino == above.st_ino;
	map = fopen("/proc/self/uid_map", "re");
	if (!map || fscanf(map, "%u %u", &inside, &outside) != 2)
		return 2;
	(void)fclose(map);
	fd = accept4(FIRST_FD, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0 || read(fd, request, sizeof(request)) <= 0)
		return 3;
	return dprintf(fd, "pid %d uid %u map %u more-fds %u stat %d mkdir %d closed %d\n",
		       getpid(), getuid(), outside, more_fds, stat_errno, mkdir_errno, closed) > 0
		       ? 0
		       : 4;
}

static int stay(void)
{
	char byte;

	if (write(FIRST_FD, "ready\n", 6) != 6)
		return 2;
	while (read(FIRST_FD, &byte, 1) > 0)
		;
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "true") == 0)
		return 0;
	if (argc == 2 && strcmp(argv[1], "wait") == 0)
		return stay();
	if (argc == 3 && strcmp(argv[1], "serve") == 0)
		return serve(argv[2]);
	return 1;
}
