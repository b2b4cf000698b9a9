/* SPDX-License-Identifier: Apache-2.0 */
#include "pull/skopeo.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/str.h"
#include "pull/pull-confine.h"
#include "text/json.h"

#define SAID "said.json"
#define COMPLAINTS "complaints"
#define CONF "registries.conf"
#define SAID_MAX MIB(4)
#define COMPLAINTS_MAX KIB(256)
#define ARGS_MAX 24
#define DEPTH_MAX 4
#define AUTH_FD 3
#define NOT_RUN 126 /* exit status when it could not be confined or executed */

/* Texts of its argv and environment. */
struct skopeo_args {
	char home[PATH_MAX], tmp[PATH_MAX], conf[PATH_MAX], to[PATH_MAX];
	char source[REFERENCE_MAX + sizeof("docker://")];
	const char *argv[ARGS_MAX], *env[4];
};

/* HOST/PATH@DIGEST, or with a tag: skopeo takes no reference with both. */
static int skopeo_source_format(const struct reference *ref, char *to, size_t max)
{
	const struct slice *last = ref->digest.n ? &ref->digest : &ref->tag;
	int n = snprintf(to, max, "docker://%.*s/%.*s%s%.*s", (int)ref->host.n, ref->host.p,
			 (int)ref->path.n, ref->path.p,
			 ref->digest.n ? "@"
			 : last->n     ? ":"
				       : "",
			 (int)last->n, last->n ? last->p : "");

	return n < 0 || (size_t)n >= max ? -ENAMETOOLONG : 0;
}

static int skopeo_path_format(char ret[static PATH_MAX], const char *front, const char *dir,
			      const char *name)
{
	int n = snprintf(ret, PATH_MAX, "%s%s%s", front, dir, name);

	return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

/* The credentials are in neither. */
static int skopeo_args_format(const struct skopeo *job, struct skopeo_args *w)
{
	size_t n = 0;

	if (skopeo_path_format(w->home, "HOME=", job->dir, "") < 0 ||
	    skopeo_path_format(w->tmp, "TMPDIR=", job->dir, "") < 0 ||
	    skopeo_path_format(w->conf, "", job->dir, "/" CONF) < 0 ||
	    skopeo_path_format(w->to, "oci-archive:", job->dir, "/" SKOPEO_ARCHIVE) < 0 ||
	    skopeo_source_format(job->ref, w->source, sizeof(w->source)) < 0)
		return -ENAMETOOLONG;
	w->argv[n++] = "skopeo";
	w->argv[n++] = "--insecure-policy";
	w->argv[n++] = "--registries-conf";
	w->argv[n++] = w->conf;
	w->argv[n++] = "--tmpdir";
	w->argv[n++] = job->dir;
	w->argv[n++] = job->copy ? "copy" : "inspect";
	w->argv[n++] = job->copy ? "--quiet" : "--no-tags";
	w->argv[n++] = "--authfile";
	w->argv[n++] = "/proc/self/fd/3";
	if (job->insecure)
		w->argv[n++] = job->copy ? "--src-tls-verify=false" : "--tls-verify=false";
	w->argv[n++] = w->source;
	if (job->copy)
		w->argv[n++] = w->to;
	w->argv[n] = NULL;
	w->env[0] = "PATH=/usr/bin:/bin";
	w->env[1] = w->home;
	w->env[2] = w->tmp;
	w->env[3] = NULL;
	return 0;
}

/* 0 to 2 and the credentials; first out of the way of each target, as spawn.c does. */
static int skopeo_child_set_fds(int out, int complaints, int auth, int *dir_fd)
{
	int fds[AUTH_FD + 1] = { open("/dev/null", O_RDONLY | O_CLOEXEC), out, complaints, auth };

	for (int i = 0; i <= AUTH_FD; i++) {
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, AUTH_FD + 1);
		if (fds[i] < 0)
			return -errno;
	}
	*dir_fd = fcntl(*dir_fd, F_DUPFD_CLOEXEC, AUTH_FD + 1);
	if (*dir_fd < 0)
		return -errno;
	for (int i = 0; i <= AUTH_FD; i++)
		if (dup2(fds[i], i) < 0)
			return -errno;
	return close_range(AUTH_FD + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC) < 0 ? -errno : 0;
}

/* In the child, until it is another program. */
[[noreturn]] static void skopeo_child_main(const struct skopeo *job, struct skopeo_args *w,
					   const int files[static 2], pid_t parent)
{
	struct pull_confine c = { job->dir_fd, job->program, job->file_max + (uint64_t)MIB(1) };

	(void)signal(SIGPIPE, SIG_DFL); /* daemons ignore it */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent || setsid() < 0)
		_exit(NOT_RUN);
	if (skopeo_child_set_fds(files[0], files[1], job->auth_fd, &c.dir_fd) < 0 ||
	    pull_confine_self(&c) < 0)
		_exit(NOT_RUN);
	(void)execve(job->program, (char *const *)(uintptr_t)w->argv,
		     (char *const *)(uintptr_t)w->env);
	_exit(NOT_RUN);
}

int skopeo_start(const struct skopeo *job, struct child *ret, struct cay_err *err)
{
	const int flags = O_WRONLY | O_CREAT | O_TRUNC;
	auto_close int out = path_open(job->dir_fd, SAID, flags, 0600);
	auto_close int complaints = path_open(job->dir_fd, COMPLAINTS, flags, 0600);
	auto_close int conf = path_open(job->dir_fd, CONF, flags, 0600); /* empty: no aliases */
	const pid_t self = getpid();
	struct skopeo_args w;
	pid_t pid;

	if (out < 0 || complaints < 0 || conf < 0 || skopeo_args_format(job, &w) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "cannot prepare skopeo");
	pid = child_fork(ret);
	if (pid == 0)
		skopeo_child_main(job, &w, (int[]){ out, complaints }, self);
	return pid < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -pid, "cannot start skopeo") : 0;
}

int skopeo_read_total_size(int dir_fd, uint64_t *ret)
{
	static const struct json_limits limits = { SAID_MAX, 32, 65536 };
	auto_buf text = BUF_INIT(SAID_MAX);
	auto_json j = NULL;
	const json_t *layer;
	uint64_t sum = 0;
	size_t i;
	int r = path_read(dir_fd, SAID, &text);

	if (r >= 0)
		r = json_parse((struct slice){ buf_str(&text), text.len }, &limits, &j, NULL);
	if (r < 0)
		return r;
	json_array_foreach(json_object_get(j, "LayersData"), i, layer)
	{
		json_int_t size = json_integer_value(json_object_get(layer, "Size"));

		if (size < 0 || (uint64_t)size > INT64_MAX - sum)
			return -ERANGE;
		sum += (uint64_t)size;
	}
	*ret = sum;
	return 0;
}

struct skopeo_byte_count {
	uint64_t bytes;
	unsigned depth;
};

static int skopeo_count_entry(void *arg, int dirfd, const char *name)
{
	struct skopeo_byte_count *c = arg;
	auto_close int fd = -EBADF;
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISREG(st.st_mode))
		c->bytes += (uint64_t)st.st_size;
	if (!S_ISDIR(st.st_mode) || c->depth == DEPTH_MAX)
		return 0;
	fd = path_open(dirfd, name, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return 0;
	c->depth++;
	(void)path_for_each_entry(fd, skopeo_count_entry, c);
	c->depth--;
	return 0;
}

uint64_t skopeo_count_bytes(int dir_fd)
{
	struct skopeo_byte_count c = {};

	(void)path_for_each_entry(dir_fd, skopeo_count_entry, &c);
	return c.bytes;
}

enum puller_failure skopeo_describe_failure(int dir_fd, int status)
{
	static const struct {
		const char *word;
		enum puller_failure failure;
	} rows[] = {
		{ "file too large", PULLER_TOO_LARGE },
		{ "no space left", PULLER_DISK_FULL },
		{ "quota exceeded", PULLER_DISK_FULL },
		{ "unauthorized", PULLER_CREDENTIALS },
		{ "authentication required", PULLER_CREDENTIALS },
		{ "invalid username/password", PULLER_CREDENTIALS },
		{ "denied", PULLER_DENIED },
		{ "forbidden", PULLER_DENIED },
		{ "manifest unknown", PULLER_UNKNOWN },
		{ "name unknown", PULLER_UNKNOWN },
		{ "not found", PULLER_UNKNOWN },
		{ "no image found", PULLER_PLATFORM },
	};
	auto_buf text = BUF_INIT(COMPLAINTS_MAX);

	if (status == -SIGXFSZ)
		return PULLER_TOO_LARGE;
	if (status == NOT_RUN)
		return PULLER_BROKEN;
	if (path_read(dir_fd, COMPLAINTS, &text) < 0)
		return PULLER_UNREACHABLE;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strcasestr(buf_str(&text), rows[i].word))
			return rows[i].failure;
	return PULLER_UNREACHABLE;
}
