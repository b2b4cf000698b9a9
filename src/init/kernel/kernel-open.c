/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/path.h"
#include "init/core/handlers.h"
#include "init/exec/exec-child.h"
#include "init/exec/pipes.h"
#include "init/kernel/kernel-parent.h"

#define START_MS 60000        /* an interpreter may be large, and the disk slow */
#define FORK_MS 10000         /* a fork takes milliseconds */
#define REQUESTS_MAX MIB(8)   /* frames to the runner */
#define KERNEL_ARENA KIB(128) /* what a restart needs of the request */

enum { FD_REQUESTS = 3, FD_EVENTS, FD_TEXT };
static_assert(CHILD_PASS == FD_REQUESTS + 1);

/* Settings for use without a human: no pager, no colours, no questions; figures as pictures. */
static const char *kernel_env_keys[] = {
	"PAGER",        "GIT_PAGER",           "TERM", "NO_COLOR", "DEBIAN_FRONTEND",
	"PIP_NO_INPUT", "OPENBLAS_NUM_THREADS"
};
static const char *kernel_env_values[] = { "cat", "cat", "dumb", "1", "noninteractive", "1", "1" };
static_assert(ARRAY_SIZE(kernel_env_keys) == ARRAY_SIZE(kernel_env_values));
const struct field_map kernel_env = { kernel_env_keys, kernel_env_values,
				      ARRAY_SIZE(kernel_env_keys) };

/* The handle before its fd: see output.c. */
void kernel_close_channel(struct kernel_channel **channel)
{
	struct kernel_channel *c = cay_take(*channel);

	if (!c)
		return;
	uv_close((uv_handle_t *)&c->poll, on_handle_closed_free);
	(void)close(c->fd);
}

void kernel_close_fork_fds(struct kernel *k)
{
	cay_closep(&k->fork_fds[0]);
	cay_closep(&k->fork_fds[1]);
	k->fork_fds[0] = k->fork_fds[1] = -EBADF;
}

static void kernel_close_channels(struct session *s)
{
	struct kernel *k = kernel_of(s);

	kernel_parent_forget(k);
	kernel_close_fork_fds(k);
	kernel_close_channel(&k->to_runner);
	kernel_close_channel(&k->from_runner);
	buf_fini(&k->requests);
	k->requests_written = k->n_answers = 0;
	kernel_frame_reader_fini(&k->reader);
}

static void kernel_fini(struct session *s)
{
	kernel_close_channels(s);
	arena_fini(&kernel_of(s)->arena);
}

/* In the child, as the user.  fd 3 was PID 1's report, which ends here. */
static int child_kernel_exec(void *arg)
{
	const struct kernel *k = arg;

	for (int fd = FD_REQUESTS; fd <= FD_TEXT; fd++)
		if (dup2(fd + 1, fd) < 0)
			return 125;
	(void)close(FD_TEXT + 1);
	(void)execvp(k->language->argv[0], (char *const *)(uintptr_t)k->language->argv);
	return 127;
}

static void kernel_explain_failed_start(const struct session *s, struct cay_err *err)
{
	const struct kernel *k = kernel_of_const(s);
	char line[256];

	output_read_last_line(&s->out[1], line, sizeof(line)); /* a runner says what it lacks */
	if (s->ended_why)
		(void)cay_fail(err, CAY_E_STATE, "the kernel was ended before it was ready: %s",
			       s->ended_why);
	else if (s->end.reason == END_EXIT && s->end.exit_code == 127)
		(void)cay_fail(err, CAY_E_UNSUPPORTED, "%s", k->language->missing);
	else if (s->end.reason == END_EXIT && s->end.exit_code == 3 && line[0])
		(void)cay_fail(err, CAY_E_UNSUPPORTED, "%s", line);
	else if (s->end.reason == END_EXIT && s->end.exit_code == 5 && line[0])
		(void)cay_fail_field(err, CAY_E_INVALID, "cwd", "%s", line);
	else if (s->end.reason == END_OOM)
		(void)cay_fail(err, CAY_E_STATE,
			       "its interpreter was killed for memory before it was ready");
	else
		(void)cay_fail(err, CAY_E_STATE,
			       "its interpreter ended before it was ready%s%.200s",
			       line[0] ? ": " : "", line);
}

/* Kept where kernel.get shows it. */
static void kernel_keep_start_error(struct kernel *k, const struct cay_err *err)
{
	int n = snprintf(k->start_error, sizeof(k->start_error), "%s", err->msg);

	if (n > 0)
		k->session.ended_why = k->start_error;
}

static void on_kernel_exec_started(struct exec *, const struct cay_err *err, void *arg)
{
	struct kernel *k = arg;

	if (!err)
		return; /* its runner says when it is ready */
	kernel_keep_start_error(k, err);
	session_exec_failed(&k->session, err);
}

/* Takes the fd. */
static int kernel_open_channel(struct kernel *k, struct kernel_channel **ret, int fd)
{
	struct kernel_channel *c = calloc(1, sizeof(*c));
	int r = -ENOMEM;

	if (c)
		r = uv_poll_init(&k->session.init->loop, &c->poll, fd);
	if (!c || r < 0) {
		free(c);
		(void)close(fd);
		return r;
	}
	c->poll.data = c;
	c->kernel = k;
	c->fd = fd;
	*ret = c;
	return 0;
}

/* The pipes to and from the runner; pass gets the child's ends.  An interpreter may open its end by
 * its name in /proc, as any user; only its own processes can reach that name. */
static int kernel_open_channels(struct kernel *k, int pass[static 3])
{
	int fds[2] = { -EBADF, -EBADF };
	int r = pipe_create(fds, 1);

	pass[0] = fds[0];
	if (r >= 0)
		r = kernel_open_channel(k, &k->to_runner, fds[1]);
	if (r >= 0)
		r = pipe_create(fds, 0);
	if (r < 0)
		return r;
	pass[1] = fds[1];
	r = kernel_open_channel(k, &k->from_runner, fds[0]);
	if (r >= 0 && (fchmod(pass[0], 0666) < 0 || fchmod(pass[1], 0666) < 0))
		r = -errno;
	k->requests = BUF_INIT(REQUESTS_MAX);
	return r;
}

int kernel_open_text(const struct kernel_language *l)
{
	int fd = memfd_create("kernel", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (fd_write_all(fd, *l->text, *l->text_size) < 0 || lseek(fd, 0, SEEK_SET) != 0) {
		(void)close(fd);
		return -ENOMEM;
	}
	return fd;
}

int kernel_start(struct kernel *k, struct request *rq, struct cay_err *err)
{
	struct session *s = &k->session;
	struct exec_run req = { .user = k->user, .cwd = k->start_cwd, .env = k->env };
	int pass[3] = { -EBADF, -EBADF, -EBADF };
	struct exec_internal own = { .env = &kernel_env,
				     .pass_fds = pass,
				     .n_pass = ARRAY_SIZE(pass),
				     .child_main = child_kernel_exec,
				     .adopts_process = !k->fork_failed && kernel_parent_can_fork(k),
				     .on_started = on_kernel_exec_started };
	int r = kernel_open_channels(k, pass);

	k->forked = own.adopts_process;
	k->fork_failed = false;
	if (r >= 0 && !k->forked)
		r = pass[2] = kernel_open_text(k->language);
	if (r < 0)
		r = cay_fail_sys(err, CAY_E_LIMIT, -r, "open the channels of the kernel");
	if (r >= 0)
		r = session_start(s, &req, &own, k->forked ? FORK_MS : START_MS, rq, err);
	if (r >= 0 && k->forked) {
		k->fork_fds[0] = cay_take_fd(&pass[0]);
		k->fork_fds[1] = cay_take_fd(&pass[1]);
		kernel_parent_fork(k);
	} else if (r >= 0) {
		kernel_parent_restart(s->init);
	}
	for (size_t i = 0; i < ARRAY_SIZE(pass); i++)
		if (pass[i] >= 0)
			(void)close(pass[i]);
	if (r < 0)
		kernel_close_channels(s);
	else
		(void)uv_poll_start(&k->from_runner->poll, UV_READABLE, on_kernel_events_readable);
	return r;
}

/* The parent ended or did not answer, which is no fault of the client's. */
static bool kernel_start_again(struct session *s)
{
	struct kernel *k = kernel_of(s);
	struct cay_err err = {};

	k->fork_failed = k->forked && s->ended_why && !s->deleted;
	return k->fork_failed && kernel_start(k, s->create_request, &err) >= 0;
}

static void kernel_after_run(struct session *s, bool)
{
	session_start_next_run(s);
}

static void on_kernel_restart_client_gone(struct request *rq)
{
	struct kernel *k = rq->data;

	k->restart_request = NULL;
}

/* kernel.restart waited for this. */
static void kernel_after_end(struct session *s)
{
	struct kernel *k = kernel_of(s);
	struct request *rq = cay_take(k->restart_request);
	struct cay_err err = {};

	if (!k->restart)
		return;
	k->restart = false;
	if (rq)
		rq->events = NULL;
	if (s->deleted)
		(void)cay_fail(&err, CAY_E_STATE, "the kernel was deleted");
	else if (kernel_start(k, rq, &err) >= 0)
		k->restarts++;
	if (rq && err.code)
		request_fail(rq, &err);
}

static const struct session_kind kernel_kind = {
	.noun = "kernel",
	.id_noun = ID_KERNEL,
	.max = KERNELS_MAX,
	.size = sizeof(struct kernel),
	.run_size = sizeof(struct code_run),
	.can_restart = true,
	.no_run = "the kernel ended before the run started",
	.deleted_why = "the kernel was deleted",
	.unstarted_why = "its interpreter did not start in time",
	.start_run = kernel_start_run,
	.stop_run = kernel_stop_run,
	.after_run = kernel_after_run,
	.after_exit = kernel_close_channels,
	.after_end = kernel_after_end,
	.start_again = kernel_start_again,
	.explain_failed_start = kernel_explain_failed_start,
	.reply_info = kernel_reply_info,
	.reply_run = kernel_reply_run,
	.free_run = kernel_free_run,
	.fini = kernel_fini,
};

const char *kernel_copy_text(struct arena *a, const char *text, bool *ok)
{
	const char *copy = text ? arena_strndup(a, text, strlen(text)) : NULL;

	*ok = *ok && (!text || copy);
	return copy;
}

bool kernel_copy_map(struct arena *a, const struct field_map *from, struct field_map *to)
{
	size_t n = from->n;
	bool ok = true;

	*to = (struct field_map){ arena_alloc(a, n + 1, sizeof(char *)),
				  arena_alloc(a, n + 1, sizeof(char *)), n };
	if (!to->keys || !to->values)
		return false;
	for (size_t i = 0; i < n; i++) {
		to->keys[i] = kernel_copy_text(a, from->keys[i], &ok);
		to->values[i] = kernel_copy_text(a, from->values[i], &ok);
	}
	return ok;
}

/* What a restart needs of the request that creates it. */
static bool kernel_copy_request(struct kernel *k, const struct kernel_create *q)
{
	const struct claim *c = &k->session.init->claim;
	struct arena *a = &k->arena;
	bool ok = kernel_copy_map(a, &q->env, &k->env);

	k->user = kernel_copy_text(a, q->user, &ok);
	k->start_cwd = kernel_copy_text(a, q->cwd, &ok);
	k->session.cwd = strdup(q->cwd ? q->cwd : c->cwd ? c->cwd : "/");
	return ok && k->session.cwd;
}

struct kernel *kernel_open(struct init *in, const struct kernel_create *q,
			   const struct session *replaced, struct request *rq, bool replies)
{
	struct cay_err err = {};
	const struct kernel_language *language = kernel_language_find(q->language, &err);
	struct session *s;
	struct kernel *k;

	if (!language) {
		request_fail(rq, &err);
		return NULL;
	}
	s = session_add(&kernel_kind, in, &in->kernels, q->name, replaced, rq);
	if (!s)
		return NULL;
	k = kernel_of(s);
	k->language = language;
	k->arena = ARENA_INIT(KERNEL_ARENA);
	k->fork_fds[0] = k->fork_fds[1] = -EBADF;
	if (!kernel_copy_request(k, q) || session_open_outputs(&k->session) < 0)
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory for the kernel");
	if (!err.code && kernel_start(k, replies ? rq : NULL, &err) >= 0)
		return k;
	request_fail(rq, &err);
	session_free(&k->session);
	return NULL;
}

/* Replies when the kernel can be used, or has failed to start. */
void op_kernel_create(struct request *rq, void *arg)
{
	(void)kernel_open(arg, rq->body, NULL, rq, true);
}

void op_kernel_restart(struct request *rq, void *arg)
{
	static const struct request_events events = { .gone = on_kernel_restart_client_gone };
	struct init *in = arg;
	struct session *s = session_from_request(&in->kernels, rq);
	struct kernel *k;

	if (!s)
		return;
	k = kernel_of(s);
	if (k->restart || s->state == SESSION_STARTING) {
		request_refuse(rq, CAY_E_STATE, "the kernel is being started already");
		return;
	}
	k->restart = true;
	k->restart_request = rq;
	rq->data = k;
	rq->events = &events;
	if (s->exec)
		session_kill(s, "the kernel was restarted");
	else if (!s->current_run)
		kernel_after_end(s);
}
