/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server - one client at a time, a worker process for each of its messages
 *
 * A connection must begin with a hello; a hello fences the previous client: its workers are
 * killed before the reply is sent, so that nothing of it happens afterwards.  A worker replies
 * to the client itself and then reports to us; when its end of the pair closes without a
 * report, we reply for it.  While all are busy nothing is read; cayd sends no more than there are.
 *
 * A fork, its cgroup and its exit cost half a millisecond of CPU, more than changing limits, and
 * a claim waits for that: a worker that is unchanged afterwards becomes the spare again, and
 * meanwhile no other is forked unless a message needs one.
 *
 * We never wait for children: every PID 1 becomes our child when its worker exits, and waitid()
 * would walk all of them.  SIGCHLD is ignored, so the kernel reaps.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/failpoint.h"
#include "base/seqpacket.h"
#include "daemon/daemon.h"
#include "keeper/keeper.h"
#include "keeper/memory-guard.h"
#include "keeper/runtime.h"
#include "keeper/trash.h"

#define ANSWER_S 5
#define TRASH_LATER_MS 10000
#define FIXED_FDS 6 /* that are polled, besides the workers */
/* A worker's report after its reply. */
#define DONE "d"  /* and exits */
#define AGAIN "a" /* and waits for another message */
#define TRASH "t" /* and exits, leaving files in the trash */

struct keeper_worker {
	int pair;            /* messages in, reports out; negative: free */
	bool settings_stale; /* the settings were reloaded since */
	struct verb_head request;
};

struct keeper_server {
	struct keeper *k;
	int listener, signals;
	int guard;  /* pidfd of the memory guard */
	int client; /* after its hello */
	int next;   /* before its hello */
	struct keeper_worker workers[VERB_WORKERS_MAX];
	unsigned n_workers;
	int spare; /* pair of an idle worker, which holds the client's connection */
	int trash; /* pipe of the process that empties the trash; negative: there is none */
	bool trash_due, trash_later;
	bool stopping;
};

union keeper_message {
	struct verb_head head;
	char bytes[VERB_MESSAGE_MAX];
};

static verb_fn *const keeper_verb_table[VERB_NUM] = {
	[VERB_PREPARE] = verb_prepare,
	[VERB_START] = verb_start,
	[VERB_KILL] = verb_kill,
	[VERB_FREEZE] = verb_freeze,
	[VERB_THAW] = verb_thaw,
	[VERB_RECLAIM] = verb_reclaim,
	[VERB_LIMITS] = verb_limits,
	[VERB_REMOVE] = verb_remove,
	[VERB_STOP] = verb_stop,
	[VERB_RESTORE] = verb_restore,
	[VERB_LIST] = verb_list,
	[VERB_IMAGE_ADD] = verb_image_add,
	[VERB_IMAGE_REMOVE] = verb_image_remove,
	[VERB_IMAGE_COMMIT] = verb_image_commit,
	[VERB_SNAPSHOT] = verb_snapshot,
	[VERB_USAGE] = verb_usage,
	[VERB_NET] = verb_net,
	[VERB_PACK] = verb_pack,
	[VERB_IMAGE_PACK] = verb_image_pack,
	[VERB_VOLUME_MAKE] = verb_volume_make,
	[VERB_VOLUME_COPY] = verb_volume_copy,
	[VERB_VOLUME_LIMIT] = verb_volume_limit,
	[VERB_VOLUME_REMOVE] = verb_volume_remove,
	[VERB_VOLUME_LIST] = verb_volume_list,
};

static int keeper_server_send_failure(int sock, const struct verb_head *request,
				      const struct cay_err *err)
{
	union keeper_message reply;

	return seqpacket_send(sock, &reply, verb_reply_write(&reply, request, err), -EBADF);
}

static int keeper_server_reply_hello(const struct keeper_server *s, int sock,
				     const struct verb_hello *q)
{
	union keeper_message reply;
	struct cay_err outcome = {};
	struct verb_hello_reply *hello = (struct verb_hello_reply *)(void *)&reply;
	size_t n;

	static_assert(sizeof(VERB_BUILD) - 1 <= sizeof(q->build));
	if (q->abi != VERB_ABI || memcmp(q->build, VERB_BUILD, sizeof(VERB_BUILD) - 1) != 0)
		(void)cay_fail(&outcome, CAY_E_INCOMPATIBLE,
			       "the keeper is " VERB_BUILD ", ABI %d: restart cay-keeper and cayd",
			       VERB_ABI);
	n = verb_reply_write(&reply, &q->head, &outcome);
	if (outcome.code == CAY_OK) {
		hello->abi = VERB_ABI;
		hello->runtimes = s->k->runtimes;
		hello->disk = s->k->disk.kind;
		memcpy(hello->build, VERB_BUILD, sizeof(VERB_BUILD) - 1);
		memcpy(hello->cgroup, s->k->settings.cgroup, sizeof(hello->cgroup));
	}
	if (seqpacket_send(sock, &reply, n, -EBADF) < 0)
		return -EPIPE;
	return outcome.code == CAY_OK ? 0 : -EPROTONOSUPPORT;
}

static int worker_run_verb(const struct keeper_server *s, const union keeper_message *msg, int fd,
			   const char **ret_report)
{
	struct verb_result result = { .fd = -EBADF };
	struct cay_err err = {};
	union keeper_message reply;
	size_t n;
	int r = keeper_verb_table[msg->head.verb](s->k, msg, fd, &result, &err);

	if (r < 0 && err.code == CAY_OK)
		(void)cay_fail_sys(&err, CAY_E_INTERNAL, -r, "%s",
				   verb_row_find(msg->head.verb)->name);
	*ret_report = result.worker_reusable ? AGAIN : result.trash_left ? TRASH : DONE;
	n = verb_reply_write(&reply, &msg->head, &err);
	if (err.code == CAY_OK && n > sizeof(struct verb_reply))
		memcpy(reply.bytes + sizeof(struct verb_reply),
		       (const char *)&result + sizeof(struct verb_reply),
		       n - sizeof(struct verb_reply));
	if (failpoint_hit(FAULT_KEEPER_ANSWER) < 0)
		return -EIO;
	r = seqpacket_send(s->client, &reply, n, err.code == CAY_OK ? result.fd : -EBADF);
	cay_closep(&result.fd);
	return r;
}

static void keeper_server_close_fd(int *sock)
{
	int fd = cay_take_fd(sock);

	cay_closep(&fd);
}

/* Workers are forked ahead, so that no request waits for a fork and its cgroup. */
static void worker_main(const struct keeper_server *s, int pair)
{
	struct pollfd p = { .fd = pair, .events = POLLIN };
	union keeper_message msg = {};
	const char *report = AGAIN;
	sigset_t none;
	unsigned n_fds;
	int fd;

	(void)signal(SIGCHLD, SIG_DFL); /* it waits for runtimes */
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)close(s->listener);
	(void)close(s->signals);
	/* or other workers would not see that the keeper closes them */
	for (size_t i = 0; i < VERB_WORKERS_MAX; i++)
		cay_closep(&s->workers[i].pair);
	if (keeper_cgroup_join(&s->k->workers) < 0 || runtime_set_oom_score() < 0)
		_exit(1);
	while (report[0] == AGAIN[0]) {
		while (poll(&p, 1, -1) < 0 && errno == EINTR)
			;
		if (seqpacket_receive(pair, &msg, sizeof(msg), &fd, &n_fds) <= 0)
			_exit(0); /* the keeper or the client is gone */
		if (worker_run_verb(s, &msg, fd, &report) < 0)
			_exit(0);
		cay_closep(&fd);
		(void)seqpacket_send(pair, report, 1, -EBADF);
	}
	_exit(0);
}

static int worker_fork_spare(struct keeper_server *s)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		(void)close(pair[0]);
		worker_main(s, pair[1]);
	}
	cay_closep(&pair[1]);
	if (pid < 0) {
		cay_closep(&pair[0]);
		return -EAGAIN;
	}
	s->spare = pair[0];
	return 0;
}

static void worker_start_verb(struct keeper_server *s, const union keeper_message *msg, int fd)
{
	struct cay_err err = {};
	struct keeper_worker *w = s->workers;
	int r = s->spare < 0 ? -EPIPE : seqpacket_send(s->spare, msg, msg->head.size, fd);

	while (w->pair >= 0)
		w++;
	if (r < 0) { /* there is none, or it died */
		keeper_server_close_fd(&s->spare);
		r = worker_fork_spare(s);
		r = r < 0 ? r : seqpacket_send(s->spare, msg, msg->head.size, fd);
	}
	if (r < 0) {
		keeper_server_close_fd(&s->spare);
		(void)cay_fail_sys(&err, CAY_E_CAPACITY, -r, "start a worker");
		(void)keeper_server_send_failure(s->client, &msg->head, &err);
		return;
	}
	*w = (struct keeper_worker){ .pair = cay_take_fd(&s->spare), .request = msg->head };
	s->n_workers++;
	if (msg->head.verb != VERB_LIMITS && msg->head.verb != VERB_NET)
		(void)worker_fork_spare(s); /* or the next message forks one */
}

/* The process that empties the trash is ours and no client's: a fence leaves it alone.  It may not
 * hold a connection, or no peer would notice our death. */
static void trash_start_process(struct keeper_server *s)
{
	int ends[2], said;
	pid_t pid;

	s->trash_due = false;
	s->trash_later = true; /* when it cannot be started, or dies */
	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	pid = fork();
	if (pid == 0) {
		const int connections[] = { ends[0],   s->listener, s->signals,
					    s->client, s->next,     s->spare };

		for (size_t i = 0; i < ARRAY_SIZE(connections); i++)
			(void)close(connections[i]);
		for (unsigned i = 0; i < VERB_WORKERS_MAX; i++)
			(void)close(s->workers[i].pair);
		if (keeper_cgroup_join(&s->k->trash_cgroup) < 0)
			_exit(1);
		said = (int)trash_empty(s->k);
		_exit(write(ends[1], &(char){ (char)said }, 1) != 1);
	}
	cay_closep(&ends[1]);
	if (pid < 0)
		cay_closep(&ends[0]);
	else
		s->trash = ends[0];
}

static void on_trash_report(struct keeper_server *s)
{
	char said = 0;

	(void)!read(s->trash, &said, 1);
	keeper_server_close_fd(&s->trash);
	s->trash_later = said != TRASH_EMPTY;
	s->trash_due |= said == TRASH_MORE;
}

/* A report, or the end of its pair without one. */
static void on_worker_report(struct keeper_server *s, struct keeper_worker *w)
{
	struct cay_err err = {};
	char said = 0;

	if (recv(w->pair, &said, 1, 0) != 1) {
		/* whether the verb was done is unknown, as if we had crashed */
		(void)cay_fail(&err, CAY_E_UNAVAILABLE, "the worker died");
		log_error(&s->k->log, "%s: %s", verb_row_find(w->request.verb)->name, err.msg);
		(void)keeper_server_send_failure(s->client, &w->request, &err);
	}
	s->trash_due |= said == TRASH[0] || !said;
	if (said == AGAIN[0] && s->spare < 0 && !w->settings_stale)
		s->spare = cay_take_fd(&w->pair);
	keeper_server_close_fd(&w->pair);
	s->n_workers--;
	if (s->spare < 0)
		(void)worker_fork_spare(s);
}

static int keeper_server_fence_client(struct keeper_server *s, struct cay_err *err)
{
	keeper_server_close_fd(&s->client); /* it gets no more replies */
	keeper_server_close_fd(&s->spare);
	for (unsigned i = 0; i < VERB_WORKERS_MAX; i++)
		keeper_server_close_fd(&s->workers[i].pair);
	s->n_workers = 0;
	s->trash_due = true; /* one of them may have been removing a sandbox */
	return keeper_cgroup_recreate(&s->k->cgroups, WORKERS_CGROUP, &s->k->workers, err);
}

/* The first message must be a hello of the same build. */
static int keeper_server_accept_hello(struct keeper_server *s, struct cay_err *err)
{
	union keeper_message msg = {};
	unsigned n_fds;
	int fd, r;
	ssize_t n = seqpacket_receive(s->next, &msg, sizeof(msg), &fd, &n_fds);

	cay_closep(&fd);
	if (n == -EAGAIN)
		return 0;
	if (n <= 0 || verb_request_check(&msg, (size_t)n, n_fds, NULL) != VERB_HELLO) {
		keeper_server_close_fd(&s->next);
		return 0;
	}
	r = keeper_server_fence_client(s, err);
	if (r < 0)
		return r;
	s->client = cay_take_fd(&s->next);
	(void)worker_fork_spare(s);
	if (keeper_server_reply_hello(s, s->client, (const struct verb_hello *)(const void *)&msg) <
		    0 ||
	    failpoint_hit(FAULT_KEEPER_HELLO) < 0)
		return keeper_server_fence_client(s,
						  err); /* the spare holds its connection as well */
	log_info(&s->k->log, "client connected");
	return 0;
}

static int keeper_server_read_message(struct keeper_server *s, struct cay_err *err)
{
	union keeper_message msg = {};
	struct cay_err why = {};
	unsigned n_fds;
	int fd, verb;
	ssize_t n = seqpacket_receive(s->client, &msg, sizeof(msg), &fd, &n_fds);

	if (n == -EAGAIN)
		return 0;
	if (n <= 0)
		return keeper_server_fence_client(s, err);
	verb = verb_request_check(&msg, (size_t)n, n_fds, &why);
	if (verb == -EPROTO || verb == VERB_HELLO || failpoint_hit(FAULT_KEEPER_MESSAGE) < 0) {
		log_error(&s->k->log, "the client broke the protocol: %s", why.msg);
		cay_closep(&fd);
		return keeper_server_fence_client(s, err);
	}
	if (verb < 0)
		(void)keeper_server_send_failure(s->client, &msg.head, &why);
	else
		worker_start_verb(s, &msg, fd);
	cay_closep(&fd);
	return 0;
}

static void keeper_server_accept(struct keeper_server *s)
{
	auto_close int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
	struct ucred peer = {};
	socklen_t len = sizeof(peer);

	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return;
	if (peer.uid != 0 && peer.uid != s->k->control_uid) {
		log_warn(&s->k->log, "refused uid %u", peer.uid);
		return;
	}
	/* do not wait for a client that does not read its replies */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){ .tv_sec = ANSWER_S },
			 sizeof(struct timeval));
	keeper_server_close_fd(&s->next); /* replaces one without a hello */
	s->next = cay_take_fd(&fd);
}

static void keeper_server_read_signals(struct keeper_server *s)
{
	struct signalfd_siginfo info;

	while (read(s->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		if (info.ssi_signo == SIGHUP) {
			daemon_reload_settings(s->k->argc, s->k->argv, &s->k->settings, &s->k->log);
			keeper_server_close_fd(&s->spare); /* it has the old settings */
			for (unsigned i = 0; i < VERB_WORKERS_MAX; i++)
				s->workers[i].settings_stale = true;
		} else {
			s->stopping = true;
		}
}

/* It never ends by itself; without it a tenant could take the memory of all. */
static int keeper_server_restart_guard(struct keeper_server *s, struct cay_err *err)
{
	log_error(&s->k->log, "the memory guard ended: starting another one");
	keeper_server_close_fd(&s->guard);
	s->guard = memory_guard_start(s->k, err);
	return s->guard < 0 ? s->guard : 0;
}

static int keeper_server_poll_once(struct keeper_server *s, struct cay_err *err)
{
	struct pollfd p[FIXED_FDS + VERB_WORKERS_MAX] = {
		{ .fd = s->signals, .events = POLLIN },
		{ .fd = s->listener, .events = POLLIN },
		{ .fd = s->next, .events = POLLIN },
		{ .fd = s->n_workers < VERB_WORKERS_MAX ? s->client : -1, .events = POLLIN },
		{ .fd = s->trash, .events = POLLIN },
		{ .fd = s->guard, .events = POLLIN },
	};
	int r = 0, n;

	for (unsigned i = 0; i < VERB_WORKERS_MAX; i++)
		p[FIXED_FDS + i] = (struct pollfd){ .fd = s->workers[i].pair, .events = POLLIN };
	n = poll(p, ARRAY_SIZE(p), s->trash < 0 && s->trash_later ? TRASH_LATER_MS : -1);
	if (n < 0)
		return errno == EINTR ? 0 : cay_fail_sys(err, CAY_E_INTERNAL, errno, "poll");
	s->trash_due |= n == 0;
	if (p[0].revents)
		keeper_server_read_signals(s);
	if (p[4].revents)
		on_trash_report(s);
	for (unsigned i = 0; i < VERB_WORKERS_MAX; i++)
		if (p[FIXED_FDS + i].revents)
			on_worker_report(s, &s->workers[i]);
	if (p[3].revents)
		r = keeper_server_read_message(s, err);
	if (r >= 0 && p[2].revents)
		r = keeper_server_accept_hello(s, err);
	if (p[1].revents)
		keeper_server_accept(s);
	if (s->trash_due && s->trash < 0)
		trash_start_process(s);
	if (r >= 0 && p[5].revents)
		r = keeper_server_restart_guard(s, err);
	return r;
}

static int keeper_server_listen(const struct keeper *k, struct cay_err *err)
{
	auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int n = snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/" VERB_SOCKET,
			 k->sockets);

	if (fd < 0 || n < 0 || n >= (int)sizeof(at.sun_path))
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create the keeper's socket");
	(void)unlinkat(k->sockets, VERB_SOCKET, 0);
	if (fchmod(fd, 0600) < 0 || bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    fchownat(k->sockets, VERB_SOCKET, k->control_uid, k->control_gid, AT_SYMLINK_NOFOLLOW) <
		    0 ||
	    listen(fd, 4) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "listen at box/" VERB_SOCKET);
	return cay_take_fd(&fd);
}

int keeper_serve(struct keeper *k, struct cay_err *err)
{
	struct keeper_server s = {
		.k = k, .client = -EBADF, .next = -EBADF, .spare = -EBADF, .trash = -EBADF
	};
	sigset_t caught;
	int r = 0;

	for (unsigned i = 0; i < VERB_WORKERS_MAX; i++)
		s.workers[i].pair = -EBADF;
	(void)sigemptyset(&caught);
	(void)sigaddset(&caught, SIGTERM);
	(void)sigaddset(&caught, SIGINT);
	(void)sigaddset(&caught, SIGHUP);
	if (signal(SIGCHLD, SIG_IGN) == SIG_ERR || sigprocmask(SIG_BLOCK, &caught, NULL) < 0 ||
	    prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "set up signals");
	s.signals = signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s.signals < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "signalfd");
	s.listener = keeper_server_listen(k, err);
	if (s.listener < 0)
		return s.listener;
	s.guard = memory_guard_start(k, err);
	if (s.guard < 0)
		return s.guard;
	trash_start_process(&s); /* start is recovery */
	daemon_notify_ready(&k->log);
	while (!s.stopping && r >= 0)
		r = keeper_server_poll_once(&s, err);
	keeper_server_close_fd(&s.next);
	keeper_server_close_fd(&s.trash);
	if (r >= 0)
		r = keeper_cgroup_recreate(&k->cgroups, TRASH_CGROUP, &k->trash_cgroup, err);
	return r < 0 ? r : keeper_server_fence_client(&s, err);
}
