/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/runtime.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/path.h"
#include "base/spawn.h"
#include "base/str.h"
#include "keeper/mount-stage.h"

const struct runtime runtimes[RUNTIME_NUM] = {
	[RUNTIME_CRUN] = { "crun", "/usr/bin/crun", "--cgroup-manager=disabled", true, true },
	[RUNTIME_RUNC] = { "runc", "/usr/sbin/runc", NULL, false, false },
};

#define SAID_MAX 160

/* The end of a runtime's error output, on one line and in plain characters. */
static void runtime_read_error_text(int fd, char ret[static SAID_MAX + 1])
{
	char text[KIB(2)];
	off_t size = lseek(fd, 0, SEEK_END);
	off_t from = size > (off_t)sizeof(text) ? size - (off_t)sizeof(text) : 0;
	ssize_t n = pread(fd, text, sizeof(text), from);
	size_t out = 0, len = n > 0 ? (size_t)n : 0;

	while (len && (text[len - 1] == '\n' || text[len - 1] == ' '))
		len--;
	for (size_t i = len > SAID_MAX ? len - SAID_MAX : 0; i < len; i++)
		ret[out++] = text[i] >= ' ' && text[i] < 0x7f ? text[i] : ' ';
	ret[out] = 0;
}

static int runtime_start_child(const struct runtime_run *run, int said, struct child *ret,
			       struct cay_err *err)
{
	auto_buf bundle = BUF_INIT(128), pid_file = BUF_INIT(128);
	char keep[] = "--preserve-fds=0";
	const char *argv[12];
	struct spawn s = SPAWN_INIT(run->runtime->path, argv);
	size_t n = 0;

	if (buf_printf(&bundle, "--bundle=" STAGE_BUNDLE "/%s", run->name) < 0 ||
	    buf_printf(&pid_file, "--pid-file=" STAGE_BUNDLE "/%s/pid", run->name) < 0)
		return cay_no_memory(err);
	argv[n++] = run->runtime->name;
	argv[n++] = "--root=" STAGE_STATE;
	if (run->runtime->option)
		argv[n++] = run->runtime->option;
	argv[n++] = "run";
	argv[n++] = "--detach";
	argv[n++] = "--no-new-keyring"; /* a worker has its own */
	s.n_fds = 3;
	for (unsigned i = 0; i < RUNTIME_FDS && run->fds[i] >= 0; i++)
		s.fds[s.n_fds++] = run->fds[i];
	keep[sizeof(keep) - 2] = (char)('0' + s.n_fds - 3);
	if (s.n_fds > 3)
		argv[n++] = keep;
	argv[n++] = bundle.data;
	argv[n++] = pid_file.data;
	argv[n++] = run->name;
	argv[n] = NULL;
	s.fds[0] = -EBADF;
	s.fds[1] = -EBADF;
	s.fds[2] = said;
	s.cgroup_fd = run->runtime->in_sandbox_cgroup ? run->cgroup : -EBADF;
	return child_start(&s, ret, err);
}

static int runtime_wait_child(struct child *c, unsigned timeout_ms, int *ret_status)
{
	struct pollfd p = { .fd = c->pidfd, .events = POLLIN };
	int n;

	do
		n = poll(&p, 1, (int)timeout_ms);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : -ETIMEDOUT;
	return child_wait(c, ret_status);
}

/* The process the runtime left.  It is our child now, so its pid cannot be reused. */
static int runtime_adopt_pid1(const struct runtime_run *run, int *ret_pidfd, struct cay_err *err)
{
	auto_buf text = BUF_INIT(32);
	auto_close int pidfd = -EBADF;
	uint64_t pid;
	int r = path_read(run->bundle, "pid", &text);

	if (r < 0 ||
	    str_parse_u64((struct slice){ buf_str(&text), text.len }, 1, INT32_MAX, &pid) < 0)
		return cay_fail(err, CAY_E_RUNTIME, "%s wrote no pid", run->runtime->name);
	pidfd = pidfd_open((pid_t)pid, 0);
	if (pidfd < 0 ||
	    waitid(P_PIDFD, (id_t)pidfd, &(siginfo_t){}, WEXITED | WNOHANG | WNOWAIT) < 0)
		return cay_fail_sys(err, CAY_E_RUNTIME, errno,
				    "the pid %s wrote is not our child's", run->runtime->name);
	*ret_pidfd = cay_take_fd(&pidfd);
	return (int)pid;
}

int runtime_set_oom_score(void)
{
	auto_close int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	auto_close int old = open("/proc/self/oom_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "1000", 4) != 4)
		return -errno;
	/* of 15: does not move the least value that a process without privilege may set */
	if (old >= 0 && write(old, "8", 1) == 1)
		return 0;
	return pwrite(fd, "500", 3, 0) != 3 ? -errno : 0; /* without CAP_SYS_RESOURCE */
}

int runtime_run(const struct runtime_run *run, int *ret_pidfd, struct cay_err *err)
{
	auto_close int said = memfd_create("said", MFD_CLOEXEC);
	auto_child child = CHILD_INIT;
	char words[SAID_MAX + 1];
	int status = -1, r;

	if (said < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "memfd");
	r = runtime_start_child(run, said, &child, err);
	if (r < 0)
		return r;
	r = runtime_wait_child(&child, run->timeout_ms, &status);
	if (r < 0)
		return cay_fail_sys(err, r == -ETIMEDOUT ? CAY_E_TIMEOUT : CAY_E_INTERNAL, -r,
				    "wait for %s", run->runtime->name);
	if (status != 0) {
		runtime_read_error_text(said, words);
		return cay_fail(err, CAY_E_RUNTIME, "%s ended with %d: %s", run->runtime->name,
				status, words);
	}
	return runtime_adopt_pid1(run, ret_pidfd, err);
}
