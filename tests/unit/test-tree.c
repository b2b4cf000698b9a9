/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "unit.h"

/* t is to be removed, canary lies beside it. */
struct fixture {
	char base[64];
	int fd;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f || snprintf(f->base, sizeof(f->base), "/tmp/cay-tree-XXXXXX") < 0 ||
	    !mkdtemp(f->base))
		return -1;
	f->fd = open(f->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mkdirat(f->fd, "canary", 0755) < 0 ||
	    path_write_atomic(f->fd, "secret", "s", 1, 0600) < 0 ||
	    mkdirat(f->fd, "canary/d", 0755) < 0)
		return -1;
	*state = f;
	return 0;
}

static bool there(const struct fixture *f, const char *name)
{
	struct stat st;

	return fstatat(f->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* What was beside it is as it was, and t is gone. */
static int tear_down(void **state)
{
	struct fixture *f = *state;
	bool ok = there(f, "canary/d") && there(f, "secret") && !there(f, "t");

	ok = ok && unlinkat(f->fd, "canary/d", AT_REMOVEDIR) == 0 &&
	     unlinkat(f->fd, "canary", AT_REMOVEDIR) == 0 && unlinkat(f->fd, "secret", 0) == 0;
	(void)close(f->fd);
	ok = ok && rmdir(f->base) == 0;
	free(f);
	return ok ? 0 : -1;
}

/* A chain of n directories "d" with a file in each; the fd of its top. */
static void make_chain(int dirfd, const char *name, unsigned n)
{
	int fd = dirfd;

	for (unsigned i = 0; i < n; i++) {
		const char *at = i ? "d" : name;
		int next;

		assert_int_equal(mkdirat(fd, at, 0700), 0);
		next = openat(fd, at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		assert_int_equal(mknodat(next, "f", S_IFREG | 0600, 0), 0);
		if (fd != dirfd)
			(void)close(fd);
		fd = next;
	}
	(void)close(fd);
}

static void depth_costs_no_fds(void **state)
{
	struct fixture *f = *state;
	struct rlimit before, few = { 16, 16 };

	make_chain(f->fd, "t", 10000);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(rmtree_at(f->fd, "t"), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void many_files_go(void **state)
{
	struct fixture *f = *state;
	auto_close int fd = -EBADF;

	assert_int_equal(mkdirat(f->fd, "t", 0755), 0);
	fd = openat(f->fd, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 0; i < 10000; i++) {
		char name[32];

		assert_true(snprintf(name, sizeof(name), "%u", i) > 0);
		assert_int_equal(
			i % 10 ? mknodat(fd, name, S_IFREG | 0600, 0) : mkdirat(fd, name, 0700), 0);
	}
	for (unsigned i = 0; i < 20; i++) {
		char name[32];

		assert_true(snprintf(name, sizeof(name), "chain%u", i) > 0);
		make_chain(fd, name, 100);
	}
	assert_int_equal(rmtree_at(f->fd, "t"), 0);
}

static void links_are_not_followed(void **state)
{
	struct fixture *f = *state;
	static const char *const targets[] = {
		"../canary", "../../canary",    "..",      "/", ".", "../secret",
		"/tmp",      "/proc/self/root", "nowhere",
	};
	auto_close int fd = -EBADF;

	assert_int_equal(mkdirat(f->fd, "t", 0755), 0);
	assert_int_equal(mkdirat(f->fd, "t/sub", 0), 0);
	fd = openat(f->fd, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		char name[32];

		assert_true(snprintf(name, sizeof(name), "sub/%zu", i) > 0);
		assert_int_equal(symlinkat(targets[i], fd, name), 0);
		assert_int_equal(symlinkat(targets[i], fd, name + 4), 0);
	}
	assert_int_equal(linkat(f->fd, "secret", fd, "hard", 0), 0);
	assert_int_equal(mkfifoat(fd, "fifo", 0), 0);
	assert_int_equal(mknodat(fd, "dev", S_IFCHR, 0), 0);
	assert_int_equal(rmtree_at(f->fd, "t"), 0);
	/* the link itself goes, not what it names */
	assert_int_equal(symlinkat("canary", f->fd, "t"), 0);
	assert_int_equal(rmtree_at(f->fd, "t"), 0);
}

/* The names it moves directories to are no secret. */
static void planted_names_do_not_stop_it(void **state)
{
	struct fixture *f = *state;
	auto_close int fd = -EBADF;

	assert_int_equal(mkdirat(f->fd, "t", 0755), 0);
	fd = openat(f->fd, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 0; i < 300; i++) {
		char name[32];

		assert_true(snprintf(name, sizeof(name), ".gone-%x", i) > 0);
		if (i % 3 == 0)
			make_chain(fd, name, 3);
		else if (i % 3 == 1)
			assert_int_equal(symlinkat("../canary", fd, name), 0);
		else
			assert_int_equal(mknodat(fd, name, S_IFREG, 0), 0);
	}
	make_chain(fd, "chain", 300);
	assert_int_equal(rmtree_at(f->fd, "t"), 0);
}

static void being_absent_is_success(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(rmtree_at(f->fd, "t"), 0);
	assert_int_equal(mknodat(f->fd, "t", S_IFREG, 0), 0);
	assert_int_equal(rmtree_at(f->fd, "t"), 0);
	assert_int_equal(rmtree_at(f->fd, "t"), 0);
}

static void a_name_is_one_component(void **state)
{
	struct fixture *f = *state;
	static const char *const names[] = { "", ".", "..", "canary/d", "/tmp", "canary/", "../x" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		row_check(i, rmtree_at(f->fd, names[i]) == -EINVAL);
}

static void emptying_leaves_the_directory(void **state)
{
	struct fixture *f = *state;
	auto_close int fd = -EBADF;

	make_chain(f->fd, "t", 20);
	fd = openat(f->fd, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(rmtree_contents(fd), 0);
	assert_int_equal(rmtree_contents(fd), 0);
	assert_int_equal(unlinkat(f->fd, "t", AT_REMOVEDIR), 0);
	assert_int_equal(rmtree_contents(-EBADF), -EBADF);
}

/* Each call removes a part, in directories and below them, until all is gone. */
static void what_is_late_goes_on_later(void **state)
{
	struct fixture *f = *state;
	auto_close int fd = -EBADF;
	unsigned calls = 1;
	char name[16];

	make_chain(f->fd, "t", 300);
	fd = openat(f->fd, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 0; i < 1000; i++) {
		assert_true(snprintf(name, sizeof(name), "f%u", i) > 0);
		assert_int_equal(mknodat(fd, name, S_IFREG, 0), 0);
	}
	for (int r; (r = rmtree_at_until(f->fd, "t", 1)) != 0; calls++)
		assert_int_equal(r, -ETIME);
	assert_in_range(calls, 1000 / 64, 100);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(depth_costs_no_fds),
		T(many_files_go),
		T(links_are_not_followed),
		T(planted_names_do_not_stop_it),
		T(being_absent_is_success),
		T(a_name_is_one_component),
		T(emptying_leaves_the_directory),
		T(what_is_late_goes_on_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
