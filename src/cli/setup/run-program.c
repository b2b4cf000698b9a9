/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/setup/run-program.h"

#include <fcntl.h>
#include <poll.h>

#include "base/clock.h"
#include "base/path.h"
#include "base/spawn.h"
#include "base/str.h"
#include "cli/client/interrupt.h"

#define INPUT_MAX KIB(4) /* fits into a pipe before the child reads it */

const char *run_program_find_path(struct arena *arena, const char *name)
{
	static const char *const dirs[] = { "/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
					    "/usr/bin",        "/sbin",          "/bin" };

	if (name[0] == '/')
		return access(name, X_OK) == 0 ? name : NULL;
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		auto_buf path = BUF_INIT(256);

		if (buf_printf(&path, "%s/%s", dirs[i], name) >= 0 &&
		    access(buf_str(&path), X_OK) == 0)
			return arena_strndup(arena, buf_str(&path), path.len);
	}
	return NULL;
}

struct run_program_pipes {
	int in, out;             /* ours */
	int child_in, child_out; /* the child's */
};

static void run_program_pipes_close(struct run_program_pipes *p)
{
	cay_closep(&p->in);
	cay_closep(&p->child_in);
	cay_closep(&p->child_out);
	p->in = p->child_in = p->child_out = -EBADF;
}

static int run_program_pipes_open(const char *input, struct run_program_pipes *p)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	p->out = fds[0];
	p->child_out = fds[1];
	if (!input)
		return 0;
	if (strlen(input) > INPUT_MAX)
		return -E2BIG;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	p->child_in = fds[0];
	p->in = fds[1];
	return fd_write_all(p->in, input, strlen(input));
}

/* Keep the beginning, the rest is dropped. */
static void on_run_program_keep(void *arg, const char *p, size_t n)
{
	struct buf *out = arg;

	if (out->len + n <= out->max)
		(void)!buf_append(out, p, n);
}

/* Keep the end. */
static void on_run_program_watched(void *arg, const char *p, size_t n)
{
	struct run_program_output *out = arg;

	if (out->kept.len + n > out->kept.max)
		buf_clear(&out->kept);
	(void)!buf_append(&out->kept, p, n);
	out->on_output(out->arg, p, n);
}

struct run_program_sink {
	void (*fn)(void *arg, const char *p, size_t n);
	void *arg;
};

/* Read until the child has closed both streams. */
static int run_program_read_output(int fd, uint64_t deadline, const struct run_program_sink *to)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		char piece[KIB(4)];
		ssize_t n;

		if (poll(&p, 1, deadline_to_poll_ms(deadline)) <= 0)
			return -ETIMEDOUT;
		n = read(fd, piece, sizeof(piece));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		to->fn(to->arg, piece, (size_t)n);
	}
}

static int run_program_start_and_wait(const struct spawn *s, struct run_program_pipes *p,
				      uint64_t timeout_ms, const struct run_program_sink *to,
				      int *ret_status, struct cay_err *err)
{
	uint64_t deadline = clk_boot_ns(&clk_system) + timeout_ms * NS_PER_MS;
	auto_child child = CHILD_INIT;
	int r = child_start(s, &child, err);

	if (r < 0)
		return r;
	run_program_pipes_close(p);
	r = run_program_read_output(p->out, deadline, to);
	if (r >= 0)
		r = child_wait(&child, ret_status);
	return r < 0 ? cay_fail_sys(err, r == -ETIMEDOUT ? CAY_E_TIMEOUT : CAY_E_INTERNAL, -r,
				    "run %s", s->path)
		     : 0;
}

static int run_program(struct arena *arena, const char *const *argv, const char *input,
		       uint64_t timeout_ms, const struct run_program_sink *to, struct cay_err *err)
{
	static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", NULL };
	struct run_program_pipes p = { -EBADF, -EBADF, -EBADF, -EBADF };
	const char *path = run_program_find_path(arena, argv[0]);
	struct spawn s = SPAWN_INIT(path, argv);
	int status = 0, r;

	if (!path)
		return cay_fail(err, CAY_E_UNSUPPORTED, "%s is not installed", argv[0]);
	s.env = env;
	r = run_program_pipes_open(input, &p);
	s.fds[0] = p.child_in;
	s.fds[1] = s.fds[2] = p.child_out;
	s.n_fds = 3;
	if (r < 0)
		r = cay_fail_sys(err, CAY_E_INTERNAL, -r, "a pipe to %s", path);
	else
		r = run_program_start_and_wait(&s, &p, timeout_ms, to, &status, err);
	run_program_pipes_close(&p);
	cay_closep(&p.out);
	return r < 0 ? r : status < 0 ? 128 - status : status;
}

int run_program_to_end(struct arena *arena, const char *const *argv, const char *input,
		       uint64_t timeout_ms, struct buf *out, struct cay_err *err)
{
	struct run_program_sink to = { on_run_program_keep, out };

	return run_program(arena, argv, input, timeout_ms, &to, err);
}

int run_program_watched(struct arena *arena, const char *const *argv, uint64_t timeout_ms,
			struct run_program_output *out, struct cay_err *err)
{
	struct run_program_sink to = { on_run_program_watched, out };

	return run_program(arena, argv, NULL, timeout_ms, &to, err);
}
