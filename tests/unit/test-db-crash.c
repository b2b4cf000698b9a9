/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill -9 of a process that writes, at random and at every failpoint: what it was told
 * to be durable is there, and what is there is a prefix of what it asked for.
 *
 * Write number n puts row n % RING with seq n and then event n.  So after any prefix of
 * the writes the rows are the last RING numbers and nothing else.
 */
#include <poll.h>

#include "db-fixture.h"

#define RING 64
#define DEPTH 12 /* writes under way at once */
#define ROUNDS 160

struct child {
	struct fixture *f;
	int pipe;
	uint64_t next;
};

static void ask_next(struct child *c);

static void on_row(void *arg, const struct cay_err *outcome)
{
	struct child *c = arg;

	if (outcome->code != CAY_OK)
		_exit(1);
	ask_next(c);
}

/* Told in the order of asking, so the number of those told is the last one's. */
static void on_event(void *arg, const struct cay_err *outcome)
{
	const struct child *c = arg;

	if (outcome->code != CAY_OK || write(c->pipe, "", 1) != 1)
		_exit(1);
}

static void ask_next(struct child *c)
{
	uint64_t n = c->next++;
	struct db_sandbox row = row_of(n % RING);
	struct db_event event = { .seq = db_event_next_seq(c->f->db),
				  .sandbox = row.life.id,
				  .text = SLICE("{}") };

	if (event.seq != n)
		_exit(2);
	row.seq = n;
	db_sandbox_put(c->f->db, &row, on_row, c);
	db_event_append(c->f->db, &event, on_event, c);
}

static void write_until_killed(struct fixture *f, int fd, const char *spec)
{
	struct child c = { .f = f, .pipe = fd };

	if (failpoint_arm(spec, NULL) < 0)
		_exit(3);
	load(f, 1);
	c.next = f->seen.n_events ? f->seen.events[0].seq + 1 : 1;
	for (unsigned i = 0; i < DEPTH; i++)
		ask_next(&c);
	turn(f);
	_exit(4);
}

/* Until it dies: how many it was told of. */
static uint64_t count(int fd, pid_t pid, bool at_random, unsigned ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t told = 0;
	char bytes[4096];
	ssize_t n;

	if (at_random) {
		(void)poll(&p, 1, 5000); /* it writes */
		(void)poll(NULL, 0, (int)ms);
		(void)kill(pid, SIGKILL);
	}
	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		told += (uint64_t)n;
	return told;
}

/* The number of the last write that is there; the rows must be those up to it. */
static uint64_t check_prefix(struct fixture *f)
{
	const struct seen *s = &f->seen;
	uint64_t last = s->n_rows ? s->rows[s->n_rows - 1].seq : 0;
	uint64_t last_event = s->n_events ? s->events[s->n_events - 1].seq : 0;

	assert_int_equal(s->n_bad, 0);
	assert_int_equal(s->n_rows, last < RING ? last : RING);
	for (size_t i = 0; i < s->n_rows; i++)
		row_check(i, s->rows[i].seq == last - s->n_rows + 1 + i);
	for (size_t i = 1; i < s->n_events; i++)
		row_check(i, s->events[i].seq == s->events[i - 1].seq + 1);
	/* its event was asked for behind it */
	assert_true(last_event == last || last_event + 1 == last);
	return last_event;
}

static uint64_t one_round(struct fixture *f, unsigned n, uint64_t before)
{
	static const enum failpoint points[] = { FAULT_JOURNAL_QUEUED, FAULT_JOURNAL_BEGUN,
						 FAULT_JOURNAL_WRITTEN, FAULT_JOURNAL_COMMITTED };
	bool at_random = n % 2;
	int fds[2], status;
	char spec[64] = "";
	uint64_t told, there;
	pid_t pid;

	if (!at_random)
		assert_true(snprintf(spec, sizeof(spec), "%s=kill@%u",
				     failpoint_name(points[n / 2 % ARRAY_SIZE(points)]),
				     1 + (unsigned)rand() % 20) > 0);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0)
		write_until_killed(f, fds[1], spec);
	(void)close(fds[1]);
	told = count(fds[0], pid, at_random, (unsigned)rand() % 8);
	(void)close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	row_check(n, WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	load(f, SEEN_MAX);
	there = check_prefix(f);
	if (there < before + told)
		fail_msg("round %u (%s): %ju were durable, %ju are there", n, spec,
			 (uintmax_t)(before + told), (uintmax_t)there);
	/* the child may have written more than are loaded */
	for (uint64_t seq = before > RING ? before - RING : 1; seq + RING < there; seq++)
		db_event_delete(f->db, seq);
	shut(f);
	return there;
}

/* A write whose event is missing: the child would count from another number. */
static uint64_t level(struct fixture *f, uint64_t there)
{
	load(f, 1);
	if (f->seen.n_rows && f->seen.rows[f->seen.n_rows - 1].seq > there) {
		struct db_event e = { .seq = db_event_next_seq(f->db), .text = SLICE("{}") };

		e.sandbox = row_of(1).life.id;
		db_event_append(f->db, &e, NULL, NULL);
		there = e.seq;
	}
	shut(f);
	return there;
}

static void nothing_durable_is_lost_and_nothing_overtakes(void **state)
{
	struct fixture *f = *state;
	uint64_t there = 0;

	srand(20261115);
	for (unsigned n = 0; n < ROUNDS; n++)
		there = level(f, one_round(f, n, there));
	assert_true(there > ROUNDS);
	print_message("# %d rounds, %ju writes\n", ROUNDS, (uintmax_t)there);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_durable_is_lost_and_nothing_overtakes,
						set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
