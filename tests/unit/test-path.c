/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/failpoint.h"
#include "base/path.h"
#include "unit.h"

/* dir/ is ours, secret lies beside it. */
struct fixture {
	char base[64];
	int basefd, dirfd;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f || snprintf(f->base, sizeof(f->base), "/tmp/cay-path-XXXXXX") < 0 ||
	    !mkdtemp(f->base))
		return -1;
	f->basefd = open(f->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mkdirat(f->basefd, "dir", 0755) < 0)
		return -1;
	f->dirfd = openat(f->basefd, "dir", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (path_write_atomic(f->basefd, "secret", "s", 1, 0600) < 0 ||
	    path_write_atomic(f->dirfd, "plain", "hello", 5, 0644) < 0)
		return -1;
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	const char *const argv[] = { "rm", "-rf", f->base, NULL };
	pid_t pid = fork();

	if (pid == 0) {
		execv("/bin/rm", (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	(void)waitpid(pid, NULL, 0);
	(void)close(f->dirfd);
	(void)close(f->basefd);
	free(f);
	return failpoint_arm(NULL, NULL);
}

static void nothing_leads_out(void **state)
{
	struct fixture *f = *state;
	static const struct {
		const char *link, *path;
		int want;
	} cases[] = {
		{ NULL, "plain", 0 },
		{ NULL, "../secret", -EXDEV },
		{ NULL, "/etc/passwd", -EXDEV },
		{ NULL, "absent", -ENOENT },
		{ "../secret", "link", -ELOOP },
		{ "/etc/passwd", "link", -ELOOP },
		{ "..", "link/secret", -ELOOP },
		{ "plain", "link", -ELOOP },
		{ "/proc/self/root", "link/etc/passwd", -ELOOP },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_close int fd = -EBADF;

		if (cases[i].link)
			assert_int_equal(symlinkat(cases[i].link, f->dirfd, "link"), 0);
		fd = path_open(f->dirfd, cases[i].path, O_RDONLY, 0);
		row_check(i, cases[i].want ? fd == cases[i].want : fd >= 0);
		if (cases[i].link)
			assert_int_equal(unlinkat(f->dirfd, "link", 0), 0);
	}
}

static void in_root_follows_links_that_end_inside(void **state)
{
	struct fixture *f = *state;
	auto_close int inside = -EBADF, outside = -EBADF, magic = -EBADF;

	assert_int_equal(symlinkat("/plain", f->dirfd, "in"), 0);
	assert_int_equal(symlinkat("../../secret", f->dirfd, "out"), 0);
	inside = path_open_in_root(f->dirfd, "in", O_RDONLY, 0);
	outside = path_open_in_root(f->dirfd, "out", O_RDONLY, 0);
	assert_true(inside >= 0);
	assert_int_equal(outside, -ENOENT);
	assert_int_equal(fcntl(inside, F_GETFD), FD_CLOEXEC);
	magic = path_open_in_root(AT_FDCWD, "/proc/self/fd/0", O_RDONLY, 0);
	assert_true(magic == -ELOOP || magic == -ENOENT);
}

static void reading_is_bounded_and_refuses_what_is_not_a_file(void **state)
{
	struct fixture *f = *state;
	auto_buf b = BUF_INIT(8);

	assert_int_equal(buf_puts(&b, "<<"), 0);
	assert_int_equal(path_read(f->dirfd, "plain", &b), 0);
	assert_text(&b, "<<hello");
	assert_int_equal(path_read(f->dirfd, "plain", &b), -EFBIG);
	assert_text(&b, "<<hello");
	assert_int_equal(mkfifoat(f->dirfd, "fifo", 0600), 0);
	assert_int_equal(path_read(f->dirfd, "fifo", &b), -EINVAL);
	assert_int_equal(path_read(f->basefd, "dir", &b), -EINVAL);
	assert_int_equal(path_read(f->dirfd, "absent", &b), -ENOENT);
}

static void content_is(struct fixture *f, const char *want)
{
	auto_buf b = BUF_INIT(100);

	assert_int_equal(path_read(f->dirfd, "plain", &b), 0);
	assert_text(&b, want);
}

static void writing_replaces_whole_files(void **state)
{
	struct fixture *f = *state;
	struct stat st;

	assert_int_equal(path_write_atomic(f->dirfd, "plain", "new", 3, 0600), 0);
	content_is(f, "new");
	assert_int_equal(fstatat(f->dirfd, "plain", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(path_write_atomic(f->dirfd, "a/b", "", 0, 0600), -EINVAL);
	(void)umask(077); /* the mode asked for is the mode it has */
	assert_int_equal(path_write_atomic(f->dirfd, "plain", "new", 3, 0644), 0);
	(void)umask(022);
	assert_int_equal(fstatat(f->dirfd, "plain", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	assert_int_equal(path_write_atomic(-1, "x", "", 0, 0600), -EBADF);
}

static bool litter(struct fixture *f)
{
	int fd = openat(f->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fdopendir(fd);
	const struct dirent *e;
	bool found = false;

	assert_non_null(dir);
	while ((e = readdir(dir)))
		found |= strncmp(e->d_name, ".tmp-", 5) == 0;
	(void)closedir(dir);
	return found;
}

static void what_was_planted_is_not_written_through(void **state)
{
	struct fixture *f = *state;
	auto_close int o_path = openat(f->basefd, "dir", O_PATH | O_CLOEXEC);
	auto_buf b = BUF_INIT(100);

	assert_int_equal(symlinkat("../secret", f->dirfd, ".tmp-plain"), 0);
	assert_int_equal(linkat(f->basefd, "secret", f->dirfd, "plain2", 0), 0);
	assert_int_equal(mkfifoat(f->dirfd, "fifo", 0600), 0);
	assert_int_equal(path_write_atomic(f->dirfd, "plain", "new", 3, 0600), 0);
	assert_int_equal(path_write_atomic(f->dirfd, "plain2", "new", 3, 0600), 0);
	assert_int_equal(path_write_atomic(f->dirfd, "fifo", "new", 3, 0600), 0);
	assert_int_equal(path_read(f->basefd, "secret", &b), 0);
	assert_text(&b, "s");
	/* it could not be synced, so nothing is touched */
	assert_int_equal(path_write_atomic(o_path, "plain", "newer", 5, 0600), -EBADF);
	content_is(f, "new");
}

/* Whatever two writers do, a reader sees one of them, whole. */
static void two_writers_do_not_mix(void **state)
{
	struct fixture *f = *state;
	pid_t pids[2];

	for (int w = 0; w < 2; w++) {
		pids[w] = fork();
		if (pids[w] == 0) {
			char text[4096];

			memset(text, 'A' + w, sizeof(text));
			for (int i = 0; i < 200; i++)
				if (path_write_atomic(f->dirfd, "plain", text, sizeof(text), 0644) <
				    0)
					_exit(1);
			_exit(0);
		}
	}
	for (int i = 0; i < 500; i++) {
		auto_buf b = BUF_INIT(KIB(8));

		assert_int_equal(path_read(f->dirfd, "plain", &b), 0);
		assert_true(b.len == 5 || b.len == 4096);
		for (size_t k = 1; b.len == 4096 && k < b.len; k++)
			assert_int_equal(b.data[k], b.data[0]);
	}
	for (int w = 0; w < 2; w++) {
		int status;

		assert_int_equal(waitpid(pids[w], &status, 0), pids[w]);
		assert_int_equal(status, 0);
	}
	assert_false(litter(f));
}

/* kill -9 at every failpoint: the old content or the new, whole. */
static int count_names(void *arg, int, const char *name)
{
	unsigned *n = arg;

	assert_true(strcmp(name, ".") != 0 && strcmp(name, "..") != 0);
	++*n;
	return 0;
}

static int stop_at_once(void *, int, const char *)
{
	return 7;
}

static void dying_leaves_old_or_new(void **state)
{
	unsigned seen = 0;
	struct fixture *f = *state;
	static const struct {
		enum failpoint point;
		const char *after;
	} cases[] = {
		{ FAULT_WRITE_CREATED, "hello" },
		{ FAULT_WRITE_FILLED, "hello" },
		{ FAULT_WRITE_RENAMED, "second" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char spec[64];
		int status;
		pid_t pid;

		assert_true(snprintf(spec, sizeof(spec), "%s=kill",
				     failpoint_name(cases[i].point)) > 0);
		pid = fork();
		if (pid == 0) {
			if (failpoint_arm(spec, NULL) < 0)
				_exit(1);
			_exit(path_write_atomic(f->dirfd, "plain", "second", 6, 0644) < 0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		row_check(i, WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		content_is(f, cases[i].after);
	}
	assert_int_equal(path_write_atomic(f->dirfd, "plain", "third", 5, 0644), 0);
	content_is(f, "third");
	assert_true(litter(f));
	assert_int_equal(path_for_each_entry(f->dirfd, count_names, &seen), 0);
	assert_true(seen > 1);
	assert_int_equal(path_for_each_entry(f->dirfd, stop_at_once, &seen), 7);
	assert_int_equal(path_for_each_entry(-1, count_names, &seen), -EBADF);
	assert_int_equal(path_remove_tmp_files(f->dirfd), 0);
	assert_false(litter(f));
	content_is(f, "third");
	assert_int_equal(path_remove_tmp_files(-1), -EBADF);
}

static void failing_leaves_no_litter(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(failpoint_arm("write:created=error,write:filled=error", NULL), 0);
	assert_int_equal(path_write_atomic(f->dirfd, "plain", "second", 6, 0644), -EIO);
	assert_int_equal(path_write_atomic(f->dirfd, "plain", "second", 6, 0644), -EIO);
	assert_false(litter(f));
	content_is(f, "hello");
}

static void a_full_disk_is_reported(void **)
{
	auto_close int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

	assert_int_equal(fd_write_all(fd, "x", 1), -ENOSPC);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(nothing_leads_out),
		T(in_root_follows_links_that_end_inside),
		T(reading_is_bounded_and_refuses_what_is_not_a_file),
		T(writing_replaces_whole_files),
		T(what_was_planted_is_not_written_through),
		T(two_writers_do_not_mix),
		T(dying_leaves_old_or_new),
		T(failing_leaves_no_litter),
		T(a_full_disk_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
