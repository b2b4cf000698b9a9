/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-pull - pulls images for cayd, as a user that can do nothing else
 *
 * cayd connects to run/pull/pull.sock, one connection a pull (wire/puller.h).  Each gets a process
 * (pull-job.h), which runs skopeo confined (pull-confine.h).  They die with this one.  State is
 * only in paths.state/pull, which is emptied at start.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "base/spawn.h"
#include "daemon/control-peer.h"
#include "daemon/daemon.h"
#include "pull/pull-confine.h"
#include "pull/pull-job.h"
#include "text/hex.h"

#define JOBS_MAX 16 /* cayd has at most eight */
#define NAME_LEN 16

struct pull_slot {
	struct child child; /* pidfd negative: free */
	char name[NAME_LEN + 1];
};

struct pull_server {
	struct settings settings;
	struct log log;
	uid_t control_uid;
	int work_fd, listener;
	struct pull_slot slots[JOBS_MAX];
};

/* The lock is this process's: a second cay-pull would empty the directory of the first. */
static int pull_server_open_work(struct pull_server *s, struct cay_err *err)
{
	auto_close int state = open(s->settings.state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	s->work_fd = state < 0 ? -errno : path_open(state, PULLER_DIR, O_RDONLY | O_DIRECTORY, 0);
	if (s->work_fd < 0)
		return cay_fail_sys(err, CAY_E_INVALID, -s->work_fd,
				    "open %s/" PULLER_DIR
				    ", which the keeper creates for users.pull",
				    s->settings.state_dir);
	if (flock(s->work_fd, LOCK_EX | LOCK_NB) < 0)
		return cay_fail_sys(err, CAY_E_STATE, errno, "another cay-pull runs");
	r = rmtree_contents(s->work_fd);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "remove old pulls") : 0;
}

/* In the process of the pull: nothing of the server stays open but the directory, reopened, so that
 * the lock is not shared. */
[[noreturn]] static void pull_slot_main(struct pull_server *s, const struct pull_slot *slot,
					int conn, pid_t parent)
{
	struct pull_job job = { &s->settings, &s->log, conn, -EBADF, slot->name };

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
		_exit(1);
	job.work_fd = openat(s->work_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cay_closep(&s->work_fd);
	cay_closep(&s->listener);
	for (size_t i = 0; i < JOBS_MAX; i++)
		cay_closep(&s->slots[i].child.pidfd);
	if (job.work_fd >= 0)
		pull_job_run(&job);
	_exit(0);
}

static void pull_slot_start(struct pull_server *s, struct pull_slot *slot, int conn)
{
	const pid_t self = getpid();
	uint8_t random[NAME_LEN / 2];
	pid_t pid;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return;
	hex_encode(random, sizeof(random), slot->name);
	pid = child_fork(&slot->child);
	if (pid == 0)
		pull_slot_main(s, slot, conn, self);
	if (pid < 0)
		log_error(&s->log, "cannot start a pull: %s", strerror(-pid));
}

/* One that died left its directory. */
static void pull_slot_reap(const struct pull_server *s, struct pull_slot *slot)
{
	int status;

	if (child_wait(&slot->child, &status) < 0)
		child_fini(&slot->child);
	(void)rmtree_at(s->work_fd, slot->name);
}

static void pull_server_accept(struct pull_server *s)
{
	auto_close int conn = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
	size_t i = 0;

	if (conn < 0)
		return;
	if (!control_peer_check(conn, s->control_uid)) {
		log_warn(&s->log, "refused a connection of another user");
		return;
	}
	while (i < JOBS_MAX && s->slots[i].child.pidfd >= 0)
		i++;
	if (i < JOBS_MAX)
		pull_slot_start(s, &s->slots[i], conn);
}

[[noreturn]] static void pull_server_run(struct pull_server *s)
{
	for (;;) {
		struct pollfd p[JOBS_MAX + 1];

		for (size_t i = 0; i < JOBS_MAX; i++)
			p[i] = (struct pollfd){ .fd = s->slots[i].child.pidfd, .events = POLLIN };
		p[JOBS_MAX] = (struct pollfd){ .fd = s->listener, .events = POLLIN };
		if (poll(p, ARRAY_SIZE(p), -1) < 0)
			continue;
		for (size_t i = 0; i < JOBS_MAX; i++)
			if (p[i].revents)
				pull_slot_reap(s, &s->slots[i]);
		if (p[JOBS_MAX].revents)
			pull_server_accept(s);
	}
}

int main(int argc, char **argv)
{
	static struct pull_server s = { .work_fd = -EBADF, .listener = -EBADF };
	struct cay_err err = {};
	int r;

	for (size_t i = 0; i < JOBS_MAX; i++)
		s.slots[i].child = CHILD_INIT;
	s.log = log_create(STDERR_FILENO, "cay-pull", &clk_system);
	r = daemon_start(argc, argv, "the user in users.pull", &s.settings, &s.log, &err);
	if (r > 0)
		return 0; /* --check, --version */
	if (r >= 0)
		r = control_peer_find_user(&s.settings, "cay-pull", "users.pull", &s.control_uid,
					   &err);
	if (r >= 0)
		r = pull_confine_probe(&err);
	if (r >= 0)
		r = pull_server_open_work(&s, &err);
	if (r >= 0)
		r = s.listener = control_peer_listen(&s.settings, PULLER_SOCKET, JOBS_MAX, &err);
	if (r >= 0) {
		daemon_notify_ready(&s.log);
		pull_server_run(&s);
	}
	return daemon_exit_status(r, &s.log, &err);
}
