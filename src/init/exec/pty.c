/* SPDX-License-Identifier: Apache-2.0 */
#include "init/exec/pty.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>

#define TERM_DEFAULT "xterm-256color"

void exec_set_pty(struct exec *exec, const struct exec_run *req)
{
	const char *term = req->tty.term ? req->tty.term : TERM_DEFAULT;

	if (!req->has_tty)
		return;
	exec->tty = true;
	exec->cols = (uint16_t)req->tty.cols;
	exec->rows = (uint16_t)req->tty.rows;
	memcpy(exec->term, term, strnlen(term, sizeof(exec->term) - 1));
}

static int pty_set_size(int master, unsigned cols, unsigned rows)
{
	struct winsize size = { .ws_col = (unsigned short)cols, .ws_row = (unsigned short)rows };

	return ioctl(master, TIOCSWINSZ, &size) < 0 ? -errno : 0;
}

static int pty_dup_fd(int fd, int *ret)
{
	*ret = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return *ret < 0 ? -errno : 0;
}

/* The slave is opened by the master, not by a name that the sandbox could have replaced.  The
 * line discipline is set to UTF-8, so that erasing a character erases all its bytes. */
static int pty_open(int *ret_master, int *ret_slave)
{
	struct termios t;

	*ret_master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (*ret_master < 0 || ioctl(*ret_master, TIOCSPTLCK, &(int){ 0 }) < 0)
		return -errno;
	*ret_slave = ioctl(*ret_master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (*ret_slave < 0 || tcgetattr(*ret_slave, &t) < 0)
		return -errno;
	t.c_iflag |= IUTF8;
	return tcsetattr(*ret_slave, TCSANOW, &t) < 0 ? -errno : 0;
}

int pty_create(const struct exec *exec, struct exec_pipes *p)
{
	int r = pty_open(&p->out[0], &p->out[1]);

	if (r >= 0)
		r = pty_set_size(p->out[0], exec->cols, exec->rows);
	if (r >= 0)
		r = pty_dup_fd(p->out[0], &p->in[1]);
	if (r >= 0)
		r = pty_dup_fd(p->out[1], &p->in[0]);
	if (r >= 0)
		r = pty_dup_fd(p->out[1], &p->err[1]);
	return r < 0 ? r : pipe_create(p->report, 0);
}

int exec_resize_pty(struct exec *exec, uint64_t cols, uint64_t rows, struct cay_err *err)
{
	int r;

	assert(cols && cols <= UINT16_MAX && rows && rows <= UINT16_MAX);
	if (!exec->tty)
		return cay_fail(err, CAY_E_STATE, "the command has no terminal");
	if (exec->in.fd < 0)
		return cay_fail(err, CAY_E_STATE, "the command has ended");
	r = pty_set_size(exec->in.fd, (unsigned)cols, (unsigned)rows);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "resize the terminal");
	exec->cols = (uint16_t)cols;
	exec->rows = (uint16_t)rows;
	output_notify_change(&exec->out[0]);
	return 0;
}
