/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/failpoint.h"
#include "db-fixture.h"

static void every_field_comes_back(void **state)
{
	struct fixture *f = *state;
	struct db_sandbox a = row_of(7), got;

	load(f, 0);
	assert_int_equal(f->seen.n_rows, 0);
	a.life.generation = 3;
	a.life.born_ns = 11;
	a.life.expires_ns = DB_NUMBER_MAX;
	a.life.ceiling_ns = LIFE_NEVER;
	a.life.idle_ns = 12;
	a.life.active_ns = 13;
	a.life.saved_ns = 5; /* what the journal has is 13 */
	a.life.started_ns = 14;
	a.life.state = SB_ENDING;
	a.life.reason = END_NODE_LOST;
	a.life.failed = true;
	a.life.entry = true;
	a.life.on_exit = ON_EXIT_END;
	a.life.warm = true;
	a.life.pending_effect = DO_REMOVE;
	a.life.tries = 2;
	a.life.retry_ns = 15;
	a.life.n_requests = 16;
	a.seq = DB_NUMBER_MAX;
	a.text = SLICE("{\"k\":\"\xc3\xa4\"}");
	assert_int_equal(put(f, &a), CAY_OK);
	again(f);
	assert_int_equal(f->seen.n_rows, 1);
	assert_int_equal(f->seen.n_bad, 0);
	got = f->seen.rows[0];
	a.life.saved_ns = 13;
	life_reset_transient(&a.life);
	a.life.lease_ns = a.life.renewed_ns = 0; /* the text has the lease, and these */
	a.life.ttl_ns = a.life.rest_ns = a.life.rest_left_ns = a.life.doze_ns = 0;
	assert_memory_equal(&got.life, &a.life, sizeof(a.life));
	assert_true(got.seq == DB_NUMBER_MAX && got.text.n == a.text.n);
	assert_string_equal(got.boot, BOOT);
	assert_string_equal(f->seen.texts[0], a.text.p);
	/* and each of the words */
	for (unsigned i = 0; i < (unsigned)SB_NUM_STATES + END_NUM_REASONS; i++) {
		a = row_of(i);
		a.life.state = (uint8_t)(i < SB_NUM_STATES ? i : SB_ENDING);
		a.life.reason = (uint8_t)(i < SB_NUM_STATES ? 0 : i - SB_NUM_STATES);
		a.life.failed = i % 2;
		a.life.entry = i % 3;
		db_sandbox_put(f->db, &a, NULL, NULL);
	}
	again(f);
	for (unsigned i = 0; i < (unsigned)SB_NUM_STATES + END_NUM_REASONS; i++) {
		const struct life *l = &f->seen.rows[i].life;

		row_check(i, f->seen.rows[i].seq == i);
		row_check(i, l->state == (i < SB_NUM_STATES ? i : SB_ENDING));
		row_check(i, l->reason == (i < SB_NUM_STATES ? 0 : i - SB_NUM_STATES));
		row_check(i, l->failed == (bool)(i % 2) && l->entry == (bool)(i % 3));
	}
}

static void text_is_bounded_and_empty_text_is_text(void **state)
{
	struct fixture *f = *state;
	auto_free char *big = malloc(DB_TEXT_MAX + 1);
	struct db_sandbox a = row_of(1), b = row_of(2);

	load(f, 0);
	memset(big, 'x', DB_TEXT_MAX + 1);
	a.text = (struct slice){ big, DB_TEXT_MAX };
	b.text = (struct slice){};
	assert_int_equal(put(f, &a), CAY_OK);
	assert_int_equal(put(f, &b), CAY_OK);
	a.text.n++;
	assert_int_equal(put(f, &a), CAY_E_INVALID);
	again(f);
	assert_int_equal(f->seen.n_rows, 2);
	assert_int_equal(f->seen.rows[0].text.n, DB_TEXT_MAX);
	assert_int_equal(f->seen.rows[1].text.n, 0);
}

/* What could not be read back is not written. */
static void wrong_rows_are_refused(void **state)
{
	struct fixture *f = *state;
	struct db_event e = { .seq = 1, .text = SLICE("{}") };
	struct told t = {};

	load(f, 0);
	for (unsigned i = 0; i < 10; i++) {
		struct db_sandbox a = row_of(1);

		if (i == 0)
			a.life.id.noun = ID_EXEC;
		else if (i == 1)
			a.life.state = SB_NUM_STATES;
		else if (i == 2)
			a.life.reason = END_NUM_REASONS;
		else if (i == 3)
			a.life.on_exit = ON_EXIT_NUM;
		else if (i == 4)
			a.life.born_ns = LIFE_NEVER;
		else if (i == 5)
			a.life.expires_ns = DB_NUMBER_MAX + 1;
		else if (i == 6)
			a.text = SLICE("\xff");
		else if (i == 7)
			a.boot[3] = 'x';
		else if (i == 8)
			a.boot[35] = 0;
		else
			a.seq = DB_NUMBER_MAX + 1;
		row_check(i, put(f, &a) == CAY_E_INVALID);
	}
	e.sandbox = row_of(1).life.id;
	db_event_append(f->db, &e, on_told, &t); /* a number nobody was given */
	turn(f);
	assert_int_equal(t.codes[0], CAY_E_INVALID);
	assert_int_equal(db_get_stats(f->db).failed, 11);
	again(f);
	assert_int_equal(f->seen.n_rows, 0);
}

/* The last of several writes of one row wins, whatever transaction each was in; rows
 * come back in the order of seq, not of writing or of ids. */
static void order_is_the_order_of_asking(void **state)
{
	struct fixture *f = *state;
	static const char letters[] = "abcdefgh";
	struct told t = {};

	load(f, 0);
	for (unsigned i = 0; i < 800; i++) {
		struct db_sandbox a = row_of(i % 100);

		a.seq = 1000 - i % 100;
		a.text = (struct slice){ &letters[i / 100], 1 };
		db_sandbox_put(f->db, &a, on_told, &t);
	}
	drop(f, 5, on_told, &t);
	db_sandbox_put(f->db, &(struct db_sandbox){ .life = row_of(6).life, .boot = BOOT }, on_told,
		       &t);
	drop(f, 6, on_told, &t);
	drop(f, 7, on_told, &t);
	db_sandbox_put(f->db,
		       &(struct db_sandbox){ .life = row_of(7).life, .boot = BOOT, .seq = 2000 },
		       on_told, &t);
	drop(f, 5000, on_told, &t); /* there is none */
	turn(f);
	assert_int_equal(t.n, 806);
	again(f);
	assert_int_equal(f->seen.n_rows, 98);
	for (size_t i = 0; i < 97; i++) {
		row_check(i, f->seen.rows[i].seq < f->seen.rows[i + 1].seq);
		row_check(i, str_eq(f->seen.texts[i], "h"));
	}
	assert_int_equal(f->seen.rows[97].seq, 2000);
}

static void what_is_asked_in_one_turn_is_one_transaction(void **state)
{
	struct fixture *f = *state;

	load(f, 1);
	for (size_t i = 0; i < 200; i++) {
		struct db_sandbox row = row_of(1);
		uint64_t before = db_get_stats(f->db).transactions;

		db_sandbox_put(f->db, &row, NULL, NULL);
		(void)sched_yield(); /* the writer must not see the first without the second */
		row.seq++;
		db_sandbox_put(f->db, &row, NULL, NULL);
		turn(f);
		row_check(i, db_get_stats(f->db).transactions == before + 1);
	}
}

static void many_at_once_are_few_transactions(void **state)
{
	struct fixture *f = *state;
	struct db_stats s;
	struct told t = {};

	load(f, 0);
	for (unsigned i = 0; i < 2000; i++)
		db_sandbox_put(f->db, &(struct db_sandbox){ .life = row_of(i).life, .boot = BOOT },
			       on_told, &t);
	turn(f);
	s = db_get_stats(f->db);
	assert_int_equal(t.n, 2000);
	assert_int_equal(s.writes, 2000);
	assert_int_equal(s.failed, 0);
	assert_in_range(s.transactions, 2, 1000);
}

/* Whoever is told is told in order, from the loop, when it is done. */
struct teller {
	unsigned *next, mine;
};

static void on_turn(void *arg, const struct cay_err *outcome)
{
	struct teller *t = arg;

	assert_int_equal(outcome->code, CAY_OK);
	assert_int_equal((*t->next)++, t->mine);
}

static void all_are_told_in_order_and_closing_tells_the_rest(void **state)
{
	struct fixture *f = *state;
	struct teller tellers[500];
	unsigned next = 0;

	load(f, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(tellers); i++) {
		struct db_sandbox a = row_of(i);

		tellers[i] = (struct teller){ &next, i };
		db_sandbox_put(f->db, &a, on_turn, &tellers[i]);
		if (i == 200)
			turn(f);
	}
	assert_in_range(next, 201, 201); /* none told from inside a call */
	again(f);
	assert_int_equal(next, ARRAY_SIZE(tellers));
	assert_int_equal(f->seen.n_rows, ARRAY_SIZE(tellers));
}

/* A callback asks for more, then closes. */
struct closer {
	struct fixture *f;
	struct told more;
	unsigned n;
};

static void on_close(void *arg, const struct cay_err *outcome)
{
	struct closer *c = arg;
	struct db_sandbox a = row_of(100);

	assert_int_equal(outcome->code, CAY_OK);
	if (c->n++ == 0)
		db_close(cay_take(c->f->db));
	else if (c->f->db == NULL)
		return;
	else
		db_sandbox_put(c->f->db, &a, on_told, &c->more);
}

static void on_late(void *arg, const struct cay_err *)
{
	struct closer *c = arg;
	struct db_sandbox a = row_of(100);

	db_sandbox_put(c->f->db, &a, on_told, &c->more);
}

static void a_callback_may_close(void **state)
{
	struct fixture *f = *state;
	struct closer c = { .f = f };

	load(f, 0);
	for (unsigned i = 0; i < 50; i++) {
		struct db_sandbox a = row_of(i);

		db_sandbox_put(f->db, &a, on_close, &c);
	}
	turn(f);
	assert_int_equal(c.n, 50);
	load(f, 0);
	assert_int_equal(f->seen.n_rows, 50);
	/* what is asked for while it closes is refused, and told */
	db_sandbox_put(f->db, &(struct db_sandbox){ .life = row_of(60).life, .boot = BOOT },
		       on_late, &c);
	db_close(f->db);
	assert_int_equal(c.more.n, 1);
	assert_int_equal(c.more.codes[0], CAY_E_UNAVAILABLE);
	f->db = NULL;
	turn(f);
	load(f, 0);
	assert_int_equal(f->seen.n_rows, 51);
}

static uint64_t event(struct fixture *f, struct told *t)
{
	struct db_event e = { .seq = db_event_next_seq(f->db),
			      .wall_ns = 77,
			      .sandbox = row_of(1).life.id,
			      .text = SLICE("{}") };

	db_event_append(f->db, &e, on_told, t);
	return e.seq;
}

static void event_numbers_only_grow(void **state)
{
	struct fixture *f = *state;
	const struct id one = row_of(1).life.id;
	struct told t = {};

	load(f, 0);
	for (uint64_t i = 1; i <= 20; i++)
		assert_int_equal(event(f, &t), i);
	turn(f);
	assert_int_equal(t.n, 20);
	shut(f);
	load(f, 5);
	assert_int_equal(f->seen.n_events, 5);
	for (size_t i = 0; i < 5; i++)
		row_check(i, f->seen.events[i].seq == 16 + i && f->seen.events[i].wall_ns == 77 &&
				     f->seen.events[i].text.n == 2 &&
				     id_eq(&f->seen.events[i].sandbox, &one));
	for (uint64_t i = 1; i < 11; i++)
		db_event_delete(f->db, i);
	again(f);
	assert_int_equal(f->seen.n_events, 10);
	assert_int_equal(f->seen.events[0].seq, 11);
	for (uint64_t i = 11; i <= 20; i++)
		db_event_delete(f->db, i);
	again(f);
	assert_int_equal(f->seen.n_events, 0);
	assert_int_equal(event(f, &t), 21);
	again(f);
	assert_int_equal(f->seen.events[0].seq, 21);
}

static void the_queue_is_bounded(void **state)
{
	struct fixture *f = *state;
	auto_free char *big = malloc(DB_TEXT_MAX);
	struct told small = {}, large = {}, one = {};
	struct db_sandbox a = row_of(1);

	load(f, 0);
	/* what is written but not told counts: the loop does not turn here */
	for (unsigned i = 0; i < DB_PENDING_MAX; i++)
		db_sandbox_delete(f->db, &a.life.id, on_told, &small);
	db_sandbox_put(f->db, &a, on_told, &one);
	assert_int_equal(one.n + small.n, 0);
	turn(f);
	assert_int_equal(one.n, 1);
	assert_int_equal(one.codes[0], CAY_E_CAPACITY);
	assert_int_equal(small.n, DB_PENDING_MAX);
	assert_int_equal(db_get_stats(f->db).failed, 1);
	memset(big, 'x', DB_TEXT_MAX);
	a.text = (struct slice){ big, DB_TEXT_MAX };
	for (unsigned i = 0; i <= DB_PENDING_BYTES / DB_TEXT_MAX; i++)
		db_sandbox_put(f->db, &a, on_told, &large);
	turn(f);
	assert_int_equal(large.by[CAY_E_CAPACITY], 2);
	assert_int_equal(large.by[CAY_OK], DB_PENDING_BYTES / DB_TEXT_MAX - 1);
	assert_int_equal(put(f, &a), CAY_OK);
}

static void failures_are_told_to_all_and_end(void **state)
{
	struct fixture *f = *state;
	static const enum failpoint points[] = { FAULT_JOURNAL_QUEUED, FAULT_JOURNAL_BEGUN,
						 FAULT_JOURNAL_WRITTEN, FAULT_JOURNAL_COMMITTED };

	for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
		struct db_sandbox good = row_of(100 + i), lost = row_of(200 + i);
		char spec[64];

		load(f, 0);
		assert_true(snprintf(spec, sizeof(spec), "%s=error@2", failpoint_name(points[i])) >
			    0);
		assert_int_equal(failpoint_arm(spec, NULL), 0);
		row_check(i, put(f, &good) == CAY_OK);
		row_check(i, put(f, &lost) == CAY_E_INTERNAL);
		good.seq = 300 + i;
		row_check(i, put(f, &good) == CAY_OK);
		row_check(i,
			  db_get_stats(f->db).failed == 1 && db_get_stats(f->db).transactions == 2);
		shut(f);
	}
	load(f, 0);
	/* the last point is behind the commit: told as failed, and there */
	assert_int_equal(f->seen.n_rows, ARRAY_SIZE(points) + 1);
	assert_int_equal(f->seen.rows[0].seq, 203);
	assert_int_equal(f->seen.rows[4].seq, 303);
}

static void a_failed_batch_fails_whole(void **state)
{
	struct fixture *f = *state;
	struct told t = {};

	load(f, 0);
	assert_int_equal(failpoint_arm("journal:written=error", NULL), 0);
	/* the first is alone or not: of the failing transaction nothing is there */
	for (unsigned i = 0; i < 100; i++) {
		struct db_sandbox a = row_of(i);

		db_sandbox_put(f->db, &a, on_told, &t);
	}
	turn(f);
	assert_int_equal(t.n, 100);
	assert_int_equal(t.codes[0], CAY_E_INTERNAL);
	assert_in_range(db_get_stats(f->db).failed, 1, 100);
	assert_int_equal(db_get_stats(f->db).failed + db_get_stats(f->db).writes, 100);
	t.n = (unsigned)db_get_stats(f->db).writes;
	again(f);
	assert_int_equal(f->seen.n_rows, t.n);
}

/* Others fill the disk: until it has room again changes of what is there go on, in the
 * room the WAL has, and what is new is refused. */
static void fill(struct fixture *f)
{
	auto_close int ballast = openat(f->dirfd, "ballast", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	auto_free char *big = calloc(1, DB_TEXT_MAX);
	struct db_sandbox a;

	for (uint64_t i = 0; i < 20; i++) {
		a = row_of(i);
		assert_int_equal(put(f, &a), CAY_OK);
	}
	again(f);
	a.life.active_ns = 5;
	assert_int_equal(put(f, &a), CAY_OK);
	for (size_t n = DB_TEXT_MAX; n > 0; n /= 2)
		while (write(ballast, big, n) > 0)
			;
	for (uint64_t i = 0; i < 500; i++) {
		a = row_of(i % 20);
		a.life.active_ns = i;
		row_check(i, put(f, &a) == CAY_OK);
	}
	a = row_of(500);
	a.text = (struct slice){ memset(big, 'x', DB_TEXT_MAX), DB_TEXT_MAX };
	assert_int_equal(put(f, &a), CAY_E_DISK_FULL);
	assert_int_equal(ftruncate(ballast, 0), 0);
	drop(f, 0, NULL, NULL);
	assert_int_equal(put(f, &a), CAY_OK);
	assert_int_equal(db_get_stats(f->db).failed, 1);
	again(f);
	assert_int_equal(f->seen.n_rows, 20);
	assert_int_equal(f->seen.rows[19].seq, 500);
}

static void a_full_disk_is_said_and_survived(void **state)
{
	struct fixture *f = *state;
	auto_close int outside = dup(f->dirfd);
	int r = unshare(CLONE_NEWNS);

	if (r < 0 && errno == EPERM)
		skip();
	assert_int_equal(r, 0);
	assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	assert_int_equal(mount("tmpfs", f->dir, "tmpfs", 0, "size=4m"), 0);
	(void)close(f->dirfd);
	f->dirfd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	load(f, 0);
	fill(f);
	shut(f);
	(void)close(f->dirfd);
	assert_int_equal(umount2(f->dir, MNT_DETACH), 0);
	f->dirfd = cay_take_fd(&outside);
}

/* Long runs do not grow the WAL without end. */
static void the_wal_is_moved_into_the_file(void **state)
{
	struct fixture *f = *state;
	struct stat st;

	load(f, 0);
	/* idle or not, one comes: every write is a page at least */
	for (unsigned i = 0; i < 20000 && !db_get_stats(f->db).checkpoints; i++) {
		struct db_sandbox a = row_of(i % 50);

		a.life.active_ns = i;
		assert_int_equal(put(f, &a), CAY_OK);
	}
	assert_true(db_get_stats(f->db).checkpoints >= 1);
	assert_int_equal(fstatat(f->dirfd, DB_NAME "-wal", &st, 0), 0);
	assert_in_range(st.st_size, 1, MIB(34));
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(fstatat(f->dirfd, DB_NAME, &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	shut(f);
	assert_int_equal(fstatat(f->dirfd, DB_NAME "-wal", &st, 0), -1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(every_field_comes_back),
		T(text_is_bounded_and_empty_text_is_text),
		T(wrong_rows_are_refused),
		T(order_is_the_order_of_asking),
		T(what_is_asked_in_one_turn_is_one_transaction),
		T(many_at_once_are_few_transactions),
		T(all_are_told_in_order_and_closing_tells_the_rest),
		T(a_callback_may_close),
		T(event_numbers_only_grow),
		T(the_queue_is_bounded),
		T(failures_are_told_to_all_and_end),
		T(a_failed_batch_fails_whole),
		T(a_full_disk_is_said_and_survived),
		T(the_wal_is_moved_into_the_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
