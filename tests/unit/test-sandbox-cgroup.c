/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a cgroup v2 as the keeper writes them; what the kernel does with them is tried by
 * tests/integration/control/test_doze.py on a stock kernel. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "keeper/sandbox-cgroup.h"
#include "unit.h"

struct fixture {
	char path[32];
	struct cgroup c;
};

static void put(const struct fixture *f, const char *name, const char *text)
{
	auto_close int fd = openat(f->c.v2, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

/* A file of the kernel has only what was written last; of ours the first line counts. */
static uint64_t number(const struct fixture *f, const char *name)
{
	auto_close int fd = openat(f->c.v2, name, O_RDONLY | O_CLOEXEC);
	char text[64] = "";
	uint64_t n = 0;

	assert_true(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	text[strcspn(text, "\n")] = 0;
	assert_int_equal(str_parse_u64(slice_of(text), 0, UINT64_MAX, &n), 0);
	return n;
}

static int set_up(void **state)
{
	static struct fixture f;

	f = (struct fixture){ "/tmp/test-cgroup-XXXXXX", CGROUP_INIT };
	if (!mkdtemp(f.path))
		return -1;
	f.c.v2 = open(f.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = &f;
	put(&f, "memory.max", "1073741824\n");
	put(&f, "memory.swap.max", "         0\n");
	put(&f, "memory.current", "1048576\n");
	put(&f, "memory.swap.current", "0\n");
	return 0;
}

static int tear_down(void **state)
{
	static const char *const names[] = { "memory.max", "memory.swap.max", "memory.current",
					     "memory.swap.current" };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		(void)unlinkat(f->c.v2, names[i], 0);
	cgroup_fini(&f->c);
	return rmdir(f->path);
}

/* The first keeper that divides a limit finds it in memory.max. */
static void what_is_in_swap_is_taken_from_the_limit(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(sandbox_cgroup_allow_swap(&f->c), 0);
	assert_int_equal(number(f, "memory.swap.max"), MIB(1024));
	put(f, "memory.swap.current", "536870912\n");
	put(f, "memory.swap.max", "");
	put(f, "memory.max", "1073741824\n");
	assert_int_equal(sandbox_cgroup_settle_swap(&f->c), 0);
	assert_int_equal(number(f, "memory.swap.max"), MIB(512 + 64));
	/* written over what was there, which is one digit longer */
	assert_int_equal(number(f, "memory.max") / 10, MIB(512 + 64));
}

static void a_limit_that_is_set_counts_it_too(void **state)
{
	struct cgroup_limits limits = { .memory_bytes = MIB(4096) };
	struct fixture *f = *state;
	struct cay_err err = {};
	int r;

	put(f, "memory.swap.current", "1073741824\n");
	put(f, "memory.max", "");
	put(f, "memory.swap.max", "");
	r = sandbox_cgroup_set_limits(&f->c, &limits, &err);
	if (r < 0 && geteuid())
		skip(); /* only root writes the attribute */
	assert_int_equal(r, 0);
	assert_int_equal(number(f, "memory.max"), MIB(3072 + 64));
	assert_int_equal(number(f, "memory.swap.max"), MIB(1024 + 64));
	put(f, "memory.swap.current",
	    "0\n"); /* all came back: the limit is known, whatever the file says */
	put(f, "memory.max", "");
	put(f, "memory.swap.max", "");
	assert_int_equal(sandbox_cgroup_settle_swap(&f->c), 0);
	assert_int_equal(number(f, "memory.max"), MIB(4096));
	assert_int_equal(number(f, "memory.swap.max"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_in_swap_is_taken_from_the_limit, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_limit_that_is_set_counts_it_too, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
