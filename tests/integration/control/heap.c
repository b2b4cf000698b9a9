/* SPDX-License-Identifier: Apache-2.0 */
/* heap MIB - hold so much memory, half of it random, and write all of it to the FIFO `heap`
 * whenever somebody reads there */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static int fill(char *heap, size_t n)
{
	for (size_t at = 0; at < n / 2;) {
		ssize_t got = getrandom(heap + at, n / 2 - at, 0);

		if (got < 0)
			return -1;
		at += (size_t)got;
	}
	memset(heap + n / 2, 'x', n - n / 2);
	return 0;
}

int main(int argc, char **argv)
{
	size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) << 20 : 0;
	char *heap = malloc(n);

	(void)signal(SIGPIPE, SIG_IGN);
	if (!heap || fill(heap, n) < 0 || (mkfifo("heap", 0600) < 0 && errno != EEXIST))
		return 1;
	(void)puts("ready");
	(void)fflush(stdout);
	for (;;) {
		int fd = open("heap", O_WRONLY | O_CLOEXEC);
		ssize_t put = 0;

		if (fd < 0)
			return 1;
		for (size_t at = 0; at < n && put >= 0; at += (size_t)put)
			put = write(fd, heap + at, n - at);
		/* until the reader, who takes exactly so much, has left */
		(void)poll(&(struct pollfd){ .fd = fd }, 1, -1);
		(void)close(fd);
	}
}
