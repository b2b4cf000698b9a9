/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow - loaded before the C library, syncfs() takes three seconds more
 *
 * For what must not wait until files are on the disk.
 */
#include <dlfcn.h>
#include <unistd.h>

int syncfs(int fd);

int syncfs(int fd)
{
	int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "syncfs");

	(void)sleep(3);
	return real(fd);
}
