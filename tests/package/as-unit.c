/* SPDX-License-Identifier: Apache-2.0 */
/*
 * as-unit MDWE FILTER... -- CMD... - the last steps of what systemd does before it starts CMD
 *
 * FILTERs are files of BPF.  Static, for roots that have nothing.
 */
#include <err.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void load(const char *path)
{
	static struct sock_filter rows[BPF_MAXINSNS];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, rows, sizeof(rows));
	struct sock_fprog filter = { .filter = rows };

	if (n <= 0 || n % (ssize_t)sizeof(rows[0]))
		err(125, "%s", path);
	filter.len = (unsigned short)(n / (ssize_t)sizeof(rows[0]));
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) < 0)
		err(125, "load %s", path);
}

int main(int argc, char **argv)
{
	int i = 2;

	if (argc < 4)
		errx(125, "usage: as-unit MDWE FILTER... -- CMD...");
	if (strcmp(argv[1], "yes") == 0 &&
	    prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) < 0)
		err(125, "MemoryDenyWriteExecute");
	for (; i < argc && strcmp(argv[i], "--") != 0; i++)
		load(argv[i]);
	if (i + 1 >= argc)
		errx(125, "there is no command");
	execv(argv[i + 1], argv + i + 1);
	err(125, "%s", argv[i + 1]);
}
