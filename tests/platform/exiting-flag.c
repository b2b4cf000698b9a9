/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exiting-flag - a process whose pipes closed by its end is marked as ending
 *
 * Leans on it: the end of a kernel (proc_is_ending(), src/init/core/memory.c).  PID 1 sees the end
 * of a kernel's channel before it can wait for the kernel.  It must tell a process that is ending,
 * killed for memory for example, from code that closed the channel.
 *
 * Checked: when a reader sees the end of a pipe because its only writer exited or was killed,
 * /proc/PID/stat of the writer has PF_EXITING in its flags, each time; when the writer closed the
 * pipe and lives, it has not.
 *
 * If it failed: a short wait for the end of the process in its place.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "platform.h"

#define TIMES 300
#define EXITING 0x4u

enum how { EXITS, IS_KILLED, CLOSES };

/* The seventh field after the name. */
static unsigned flags_of(pid_t pid)
{
	char path[32], text[512];
	unsigned flags = 0;
	ssize_t n;
	int fd, len = snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	const char *after;

	NEED(len > 0 && (fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0, "its stat");
	n = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	NEED(n > 0, "read it");
	text[n] = 0;
	after = strrchr(text, ')');
	NEED(after && sscanf(after, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1, "its flags");
	return flags;
}

static unsigned count_exiting(enum how how)
{
	unsigned n = 0;

	for (int i = 0; i < TIMES; i++) {
		auto_child child = CHILD_INIT;
		int fds[2];
		pid_t pid;
		char byte;

		NEED(pipe2(fds, O_CLOEXEC) == 0, "pipe");
		pid = platform_fork(&child);
		if (pid == 0) {
			if (how == EXITS)
				_exit(0);
			if (how == CLOSES)
				(void)close(fds[1]);
			for (;;)
				(void)pause();
		}
		(void)close(fds[1]);
		if (how == IS_KILLED)
			NEED(kill(pid, SIGKILL) == 0, "kill it");
		NEED(read(fds[0], &byte, 1) == 0, "the end of the pipe");
		n += (flags_of(pid) & EXITING) != 0;
		(void)close(fds[0]);
	}
	return n;
}

static void body(const struct plat *)
{
	unsigned exits = count_exiting(EXITS), killed = count_exiting(IS_KILLED),
		 closes = count_exiting(CLOSES);

	CHECK(exits == TIMES, "exited: %u of %d are marked", exits, TIMES);
	CHECK(killed == TIMES, "killed: %u of %d are marked", killed, TIMES);
	CHECK(closes == 0, "alive: %u of %d are marked", closes, TIMES);
}

int main(int argc, char **argv)
{
	return platform_main(argc, argv, body);
}
