/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow - loaded before the C library, syncfs() takes three seconds more
 *
 * For what must not wait until files are on the disk.
 */
#include <dlfcn.h>
#include <poll.h>

int syncfs(int fd);

int syncfs(int fd)
{
	int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "syncfs");

	(void)poll(nullptr, 0, 3000);
	return real(fd);
}
