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
#include <stdio.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "base/spawn.h"
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

/* The directory gives it the group of cayd; the peer's user is checked as well. */
static int pull_server_listen(struct pull_server *s, struct cay_err *err)
{
	auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int n = snprintf(at.sun_path, sizeof(at.sun_path), "%s/" PULLER_SOCKET,
			 s->settings.run_dir);

	if (fd < 0 || n < 0 || n >= (int)sizeof(at.sun_path))
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create a socket");
	(void)unlink(at.sun_path);
	if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    chmod(at.sun_path, 0660) < 0 || listen(fd, JOBS_MAX) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "listen at %s", at.sun_path);
	s->listener = cay_take_fd(&fd);
	return 0;
}

static bool pull_peer_is_control(const struct pull_server *s, int conn)
{
	struct ucred peer = {};
	socklen_t n = sizeof(peer);

	return getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 &&
	       peer.uid == s->control_uid;
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
	if (!pull_peer_is_control(s, conn)) {
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

/* As the user of cayd it could read all that cayd can, whatever the kernel refuses skopeo. */
static int pull_server_check_user(struct pull_server *s, struct cay_err *err)
{
	gid_t gid;
	int r = daemon_find_user("users.control", s->settings.control_user, &s->control_uid, &gid,
				 err);

	if (r < 0)
		return r;
	if (s->control_uid == geteuid())
		return cay_fail(err, CAY_E_FORBIDDEN,
				"cay-pull must not run as the user of cayd: start it as the one in "
				"users.pull");
	return 0;
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
		r = pull_server_check_user(&s, &err);
	if (r >= 0)
		r = pull_confine_probe(&err);
	if (r >= 0)
		r = pull_server_open_work(&s, &err);
	if (r >= 0)
		r = pull_server_listen(&s, &err);
	if (r >= 0) {
		daemon_notify_ready(&s.log);
		pull_server_run(&s);
	}
	return daemon_exit_status(r, &s.log, &err);
}
