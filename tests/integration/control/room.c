/* SPDX-License-Identifier: Apache-2.0 */
/*
 * room - loaded before the C library, fstatvfs() says there is room for anything
 *
 * For what is filled between the look and the write: admission has seen a disk with room.
 */
#include <dlfcn.h>
#include <sys/statvfs.h>

int fstatvfs(int fd, struct statvfs *ret);

int fstatvfs(int fd, struct statvfs *ret)
{
	int (*real)(int, struct statvfs *) =
		(int (*)(int, struct statvfs *))dlsym(RTLD_NEXT, "fstatvfs");
	int r = real(fd, ret);

	ret->f_bavail = ret->f_blocks;
	ret->f_favail = ret->f_files;
	return r;
}
