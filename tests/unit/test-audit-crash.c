/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill -9 of a process that writes, at random and at both failpoints: the chain is whole,
 * and what it was told to be durable is there.  Files are small, so that it also dies
 * between them.
 */
#include <poll.h>

#include "audit-fixture.h"

#define ROUNDS 80
#define DEPTH 8 /* records under way at once */

struct child {
	struct fixture *f;
	int pipe;
	uint64_t n;
};

static void put_next(struct child *c);

static void on_durable(void *arg, const struct cay_err *outcome)
{
	struct child *c = arg;

	if (outcome->code != CAY_OK || write(c->pipe, "", 1) != 1)
		_exit(1);
	put_next(c);
}

static void put_next(struct child *c)
{
	struct audit_record rec = record_of(c->n++);

	if (!audit_append(c->f->audit, &rec, false, on_durable, c))
		_exit(2);
}

static void write_until_killed(struct fixture *f, int fd, const char *spec)
{
	struct child c = { .f = f, .pipe = fd };

	if (failpoint_arm(spec, NULL) < 0)
		_exit(3);
	start(f);
	for (unsigned i = 0; i < DEPTH; i++)
		put_next(&c);
	(void)uv_run(&f->loop, UV_RUN_DEFAULT);
	_exit(4);
}

/* Until it dies: how many it was told of. */
static uint64_t count(int fd, pid_t pid, bool at_random, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t told = 0;
	char bytes[4096];
	ssize_t n;

	if (at_random) {
		(void)poll(&p, 1, 5000); /* it writes */
		(void)poll(NULL, 0, ms);
		(void)kill(pid, SIGKILL);
	}
	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		told += (uint64_t)n;
	return told;
}

static uint64_t one_round(struct fixture *f, unsigned n, uint64_t before)
{
	static const char *const points[] = { "audit:written", "audit:synced" };
	bool at_random = n % 2;
	struct audit_report r;
	char spec[64] = "";
	int fds[2], status;
	uint64_t told;
	pid_t pid;

	if (!at_random)
		assert_true(snprintf(spec, sizeof(spec), "%s=kill@%u", points[n / 2 % 2],
				     1 + (unsigned)rand() % 20) > 0);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0)
		write_until_killed(f, fds[1], spec);
	(void)close(fds[1]);
	told = count(fds[0], pid, at_random, rand() % 6);
	(void)close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	row_check(n, WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	r = verify(f, NULL);
	row_check(n, r.verdict == AUDIT_INTACT);
	if (r.at.count < before + told)
		fail_msg("round %u (%s): %ju were durable, %ju are there", n, spec,
			 (uintmax_t)(before + told), (uintmax_t)r.at.count);
	/* half a line, as a crash of the machine could leave it */
	if (n % 8 == 1) {
		char name[16];
		auto_close int fd = -EBADF;
		uint32_t last = 0;

		do
			assert_true(snprintf(name, sizeof(name), "%08u.log", ++last) > 0);
		while (faccessat(f->dirfd, name, F_OK, 0) < 0);
		for (; faccessat(f->dirfd, name, F_OK, 0) == 0;)
			assert_true(snprintf(name, sizeof(name), "%08u.log", ++last) > 0);
		assert_true(snprintf(name, sizeof(name), "%08u.log", last - 1) > 0);
		fd = openat(f->dirfd, name, O_WRONLY | O_APPEND | O_CLOEXEC);
		assert_int_equal(fd_write_all(fd, "{\"seq\"", 6), 0);
	}
	start(f);
	shut(f);
	r = verify(f, NULL);
	row_check(n, r.verdict == AUDIT_INTACT && !r.torn);
	return r.at.count;
}

static void nothing_durable_is_lost_and_the_chain_is_whole(void **state)
{
	struct fixture *f = *state;
	uint64_t there = 0;

	srand(20261115);
	f->conf.segment_bytes = KIB(16);
	f->conf.keep = 5;
	for (unsigned n = 0; n < ROUNDS; n++)
		there = one_round(f, n, there);
	assert_true(there > ROUNDS);
	print_message("# %d rounds, %ju records\n", ROUNDS, (uintmax_t)there);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_durable_is_lost_and_the_chain_is_whole,
						set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
