/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pty-tail - what a program wrote last to its terminal is there after its death
 *
 * Leans on it: the end of an exec with a terminal (docs/adr/0042-terminals.md).  A pipe
 * tells by FIONREAD how much is in it when its writer is dead; a terminal does not: bytes
 * wait in two places, and a worker of the kernel moves them.
 *
 * Checked: a session leader that fills its terminal and exits loses nothing of it, though
 * its exit hangs the terminal up; FIONREAD sees less than there is; a read that does not
 * wait says EAGAIN or EIO only when everything was read, also while somebody still has
 * the terminal open; TIOCGPTPEER gives the other side without a name.
 *
 * If it failed: somebody inside who holds the terminal until its output was read.
 */
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "platform.h"

#define FILL 65536

struct pty {
	int master, slave;
};

static struct pty open_pty(void)
{
	struct pty p = { .master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK) };
	struct termios t;

	NEED(p.master >= 0 && ioctl(p.master, TIOCSPTLCK, &(int){ 0 }) == 0, "a terminal");
	p.slave = ioctl(p.master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	NEED(p.slave >= 0, "its other side, without a name");
	NEED(tcgetattr(p.slave, &t) == 0, "its modes");
	t.c_oflag &= ~(tcflag_t)OPOST;
	NEED(tcsetattr(p.slave, TCSANOW, &t) == 0, "raw output");
	return p;
}

/* As much as goes in, then its number through the pipe, then death. */
static _Noreturn void fill(const struct pty *p, int tell)
{
	static char bytes[FILL];
	ssize_t n;

	if (setsid() < 0 || ioctl(p->slave, TIOCSCTTY, 0) < 0 ||
	    fcntl(p->slave, F_SETFL, O_NONBLOCK) < 0)
		platform_die("own a terminal");
	n = write(p->slave, bytes, sizeof(bytes));
	if (write(tell, &n, sizeof(n)) != (ssize_t)sizeof(n))
		platform_die("tell");
	_exit(0);
}

static void try_end(const char *what, bool held)
{
	auto_child child = CHILD_INIT;
	struct pty p = open_pty();
	ssize_t wrote = 0, got = 0, n;
	char bytes[FILL];
	int tell[2], counted = 0, why;

	NEED(pipe2(tell, O_CLOEXEC) == 0, "pipe");
	if (platform_fork(&child) == 0)
		fill(&p, tell[1]);
	if (!held)
		(void)close(p.slave);
	NEED(read(tell[0], &wrote, sizeof(wrote)) == (ssize_t)sizeof(wrote), "its report");
	NEED(platform_reap(&child) == 0, "its end");
	NEED(ioctl(p.master, FIONREAD, &counted) == 0, "FIONREAD");
	while ((n = read(p.master, bytes, sizeof(bytes))) > 0)
		got += n;
	why = n < 0 ? errno : 0;
	CHECK(wrote > 4096 && got == wrote, "%s: %zd of %zd bytes are there", what, got, wrote);
	CHECK(counted < wrote, "%s: FIONREAD sees %d of them", what, counted);
	CHECK(why == EIO || why == EAGAIN, "%s: then %s", what, why == EIO ? "EIO" : "EAGAIN");
	if (held)
		(void)close(p.slave);
	(void)close(p.master);
	(void)close(tell[0]);
	(void)close(tell[1]);
}

static void body(const struct plat *)
{
	try_end("alone", false);
	try_end("held open", true);
}

int main(int argc, char **argv)
{
	return platform_main(argc, argv, body);
}
