/* SPDX-License-Identifier: Apache-2.0 */
#include "pull/pull-job.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "base/seqpacket.h"
#include "pull/skopeo.h"

#define TICK_MS 250
#define REQUEST_MS 5000
#define GONE PULLER_FAILURES /* the peer has closed the connection */

/* One that runs. */
struct pull_run {
	const struct pull_job *job;
	struct skopeo skopeo;
	uint64_t bytes, total;
};

static int pull_job_send(const struct pull_run *run, enum puller_kind kind,
			 enum puller_failure failure, int fd)
{
	const struct puller_reply a = { .magic = PULLER_MAGIC,
					.kind = kind,
					.failure = failure,
					.bytes = run->bytes,
					.total = run->total };

	return seqpacket_send(run->job->conn, &a, sizeof(a), fd);
}

/* The credentials are in memory only, and do not change while they are read. */
static int pull_job_check_auth(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && seals & F_SEAL_WRITE && seals & F_SEAL_GROW ? 0 : -EINVAL;
}

static int pull_job_receive(const struct pull_job *j, struct puller_request *q,
			    struct reference *ref, int *ret_auth)
{
	struct pollfd p = { .fd = j->conn, .events = POLLIN };
	unsigned n_fds = 0;
	ssize_t n = poll(&p, 1, REQUEST_MS) == 1
			    ? seqpacket_receive(j->conn, q, sizeof(*q), ret_auth, &n_fds)
			    : -ETIMEDOUT;

	if (n < 0 || puller_request_check(q, (size_t)n, n_fds, ref) < 0)
		return -EINVAL;
	return pull_job_check_auth(*ret_auth);
}

/* Progress while it copies.  An enum puller_failure, or GONE. */
static unsigned pull_run_tick(struct pull_run *run)
{
	if (!run->skopeo.copy)
		return PULLER_OK;
	run->bytes = skopeo_count_bytes(run->skopeo.dir_fd);
	/* the blobs and the archive that skopeo writes from them */
	if (run->bytes > 2 * run->skopeo.file_max + MIB(1))
		return PULLER_TOO_LARGE;
	return pull_job_send(run, PULLER_PROGRESS, PULLER_OK, -EBADF) < 0 ? GONE : PULLER_OK;
}

/* Until skopeo has ended, which auto_child does on each other way out. */
static unsigned pull_run_skopeo(struct pull_run *run, bool copy)
{
	auto_child child = CHILD_INIT;
	struct cay_err err = {};
	unsigned failure = PULLER_OK;
	int status, r;

	run->skopeo.copy = copy;
	if (skopeo_start(&run->skopeo, &child, &err) < 0) {
		log_error(run->job->log, "%s", err.msg);
		return PULLER_BROKEN;
	}
	for (;;) {
		struct pollfd p[] = { { .fd = run->job->conn, .events = POLLIN | POLLRDHUP },
				      { .fd = child.pidfd, .events = POLLIN } };

		r = poll(p, ARRAY_SIZE(p), TICK_MS);
		if (r > 0 && p[0].revents) /* closed; or it talks, and may not */
			return GONE;
		if (r > 0 && p[1].revents)
			break;
		failure = pull_run_tick(run);
		if (failure)
			return failure;
	}
	if (child_wait(&child, &status) < 0)
		return PULLER_BROKEN;
	if (!status)
		return PULLER_OK;
	failure = skopeo_describe_failure(run->skopeo.dir_fd, status);
	if (failure == PULLER_BROKEN)
		log_error(run->job->log, "cannot confine or execute %s", run->skopeo.program);
	return failure;
}

static unsigned pull_run_inspect(struct pull_run *run)
{
	unsigned failure = pull_run_skopeo(run, /* copy= */ false);

	if (failure)
		return failure;
	if (skopeo_read_total_size(run->skopeo.dir_fd, &run->total) < 0)
		return PULLER_MANIFEST;
	return run->total > run->skopeo.file_max ? PULLER_TOO_LARGE : PULLER_OK;
}

static unsigned pull_run_copy(struct pull_run *run)
{
	auto_close int archive = -EBADF;
	unsigned failure;
	struct stat st;

	if (pull_job_send(run, PULLER_PROGRESS, PULLER_OK, -EBADF) < 0)
		return GONE;
	failure = pull_run_skopeo(run, /* copy= */ true);
	if (failure)
		return failure;
	archive = path_open(run->skopeo.dir_fd, SKOPEO_ARCHIVE, O_RDONLY | O_NONBLOCK, 0);
	if (archive < 0 || fstat(archive, &st) < 0 || !S_ISREG(st.st_mode))
		return PULLER_MANIFEST;
	if ((uint64_t)st.st_size > run->skopeo.file_max)
		return PULLER_TOO_LARGE;
	return pull_job_send(run, PULLER_DONE, PULLER_OK, archive) < 0 ? GONE : PULLER_OK;
}

void pull_job_run(const struct pull_job *j)
{
	char dir[PATH_MAX];
	struct puller_request q;
	struct reference ref;
	auto_close int auth = -EBADF, dir_fd = -EBADF;
	struct pull_run run = { .job = j };
	unsigned failure = PULLER_BROKEN;
	int n = snprintf(dir, sizeof(dir), "%s/" PULLER_DIR "/%s", j->settings->state_dir, j->name);

	if (pull_job_receive(j, &q, &ref, &auth) < 0) {
		log_warn(j->log, "refused a request that is not valid");
		return;
	}
	if (n > 0 && n < (int)sizeof(dir) && mkdirat(j->work_fd, j->name, 0700) == 0)
		dir_fd = path_open(j->work_fd, j->name, O_RDONLY | O_DIRECTORY, 0);
	run.skopeo = (struct skopeo){ .program = j->settings->images_skopeo,
				      .dir = dir,
				      .dir_fd = dir_fd,
				      .auth_fd = auth,
				      .ref = &ref,
				      .insecure = q.insecure,
				      .file_max = q.file_max };
	if (dir_fd >= 0)
		failure = pull_run_inspect(&run);
	if (!failure)
		failure = pull_run_copy(&run);
	if (failure && failure != GONE)
		(void)pull_job_send(&run, PULLER_FAILED, failure, -EBADF);
	(void)shutdown(j->conn, SHUT_RDWR); /* before the removal, which may take a while */
	(void)rmtree_at(j->work_fd, j->name);
}
