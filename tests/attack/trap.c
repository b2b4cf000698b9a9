/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile-trap.so - a library that leaves a mark wherever it is loaded
 *
 * `hostile replace` names it in ld.so.preload and nsswitch.conf.  It may only ever
 * be loaded by programs inside.
 */
#include <fcntl.h>
#include <unistd.h>

static void leave_mark(const char *path)
{
	static const char text[] = "library loaded\n";
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

	if (fd < 0)
		return;
	if (write(fd, text, sizeof(text) - 1) < 0)
		(void)unlink(path);
	(void)close(fd);
}

__attribute__((constructor)) static void loaded(void)
{
	leave_mark("/cay-trap-sprung");
	leave_mark("/tmp/cay-trap-sprung");
}
