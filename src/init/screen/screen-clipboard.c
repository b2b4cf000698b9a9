/* SPDX-License-Identifier: Apache-2.0 */
/* The clipboard of the screen: read by a request, kept by a process that outlives the one it set */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "init/core/handlers.h"
#include "init/exec/exec.h"
#include "init/screen/screen.h"
#include "init/screen/x-clipboard.h"

#define DEADLINE_MS 30000
#define OWNER_MS 8000
#define OWNER_REPORT_FD 3

/* Keep nothing of PID 1 but memory, and of the request nothing. */
static int owner_detach(const struct init *in, int report)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (null < 0)
		return -errno;
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (dup2(null, fd) < 0)
			return -errno;
	if (dup2(report, OWNER_REPORT_FD) < 0 ||
	    syscall(SYS_close_range, OWNER_REPORT_FD + 1, ~0u, 0) < 0 || setsid() < 0)
		return -errno;
	(void)signal(SIGTERM, SIG_DFL);
	(void)prctl(PR_SET_NAME, "cay-clipboard");
	exec_free_rings(in);
	return 0;
}

[[noreturn]] static void owner_main(const struct init *in, struct slice text, int report)
{
	auto_x_conn c = X_CONN_INIT;
	struct x_clipboard b;
	struct cay_err err = {};

	if (owner_detach(in, report) < 0 || screen_open(in, &c, &err) < 0 ||
	    x_own_clipboard(&c, &b, &err) < 0 || write(OWNER_REPORT_FD, "", 1) != 1)
		_exit(1);
	(void)close(OWNER_REPORT_FD);
	x_serve_clipboard(&c, &b, text);
	_exit(0);
}

int screen_copy(const struct init *in, const char *text, struct cay_err *err)
{
	int report[2], r = 0;
	struct pollfd p;
	pid_t pid;
	char byte;

	if (pipe2(report, O_CLOEXEC) < 0)
		return cay_fail_sys(err, CAY_E_LIMIT, errno, "create a pipe");
	pid = fork();
	if (pid == 0)
		owner_main(in, slice_of(text), report[1]);
	(void)close(report[1]);
	p = (struct pollfd){ .fd = report[0], .events = POLLIN };
	if (pid < 0) {
		r = cay_fail(err, CAY_E_LIMIT, "cannot create a process for the clipboard");
	} else if (poll(&p, 1, OWNER_MS) <= 0 || read(report[0], &byte, 1) != 1) {
		r = cay_fail(err, CAY_E_UNAVAILABLE,
			     "the X server of the sandbox did not take the clipboard");
		(void)kill(pid, SIGKILL); /* a text that was refused must not arrive later */
	}
	(void)close(report[0]);
	return r;
}

static void child_screen_clipboard(struct child_op *w, struct request *)
{
	auto_buf text = BUF_INIT(X_CLIPBOARD_MAX + 1);
	struct screen_clipboard reply = { .text = "" };
	auto_x_conn c = X_CONN_INIT;
	struct cay_err err = {};

	if (screen_open(child_op_init(w), &c, &err) >= 0 && x_read_clipboard(&c, &text, &err) >= 0)
		reply.text = buf_str(&text);
	child_op_reply_json(w, &screen_clipboard_table, &reply, &err);
}

void op_screen_clipboard(struct request *rq, void *arg)
{
	child_op_start(arg, rq, child_screen_clipboard, DEADLINE_MS);
}
