/* SPDX-License-Identifier: Apache-2.0 */
#include "audit-fixture.h"

static void records_are_a_chain_that_sha256sum_can_follow(void **state)
{
	struct fixture *f = *state;
	auto_buf text = BUF_INIT(MIB(1));
	struct audit_anchor head;
	struct audit_record rec;
	struct slice rest, line, last = {};
	char hash[AUDIT_HEX_LEN + 1];
	uint64_t n = 0;

	start(f);
	assert_int_equal(audit_get_durable_head(f->audit).count, 0);
	put(f, 5);
	head = audit_get_durable_head(f->audit);
	assert_int_equal(head.count, 5);
	assert_int_equal(path_read(f->dirfd, "00000001.log", &text), 0);
	for (rest = (struct slice){ text.data, text.len }; rest.n;) {
		line = slice_cut(&rest, '\n');
		assert_int_equal(audit_record_parse(line.p, line.n, &rec), 0);
		assert_int_equal(rec.seq, ++n);
		if (last.p) {
			assert_int_equal(audit_line_hash(last.p, last.n + 1, hash), 0);
			assert_string_equal(rec.prev, hash);
		}
		last = line;
	}
	assert_int_equal(n, 5);
	assert_int_equal(audit_line_hash(last.p, last.n + 1, hash), 0);
	assert_string_equal(head.head, hash);
	assert_int_equal(verify(f, &head).verdict, AUDIT_INTACT);
	shut(f);
	start(f);
	assert_int_equal(audit_get_durable_head(f->audit).count, 5);
	assert_string_equal(audit_get_durable_head(f->audit).head, hash);
}

static void a_line_looks_like_this(void **)
{
	static const char want[] =
		"{\"seq\":7,\"time\":\"2026-11-15T01:50:43.123Z\",\"tenant\":\"tn\","
		"\"op\":\"image.delete\",\"outcome\":\"not_found\",\"detail\":\"\\\"?\","
		"\"prev\":\"0000000000000000000000000000000000000000000000000000000000000001\"}";
	struct audit_record rec = {
		.seq = 7,
		.wall_ns = UINT64_C(1794707443123) * NS_PER_MS,
		.tenant = "tn",
		.op = "image.delete",
		.outcome = "not_found",
		.prev = "0000000000000000000000000000000000000000000000000000000000000001",
	};
	auto_buf out = BUF_INIT(KIB(4));
	struct audit_record back;

	audit_set(rec.detail, "\"\n");
	assert_int_equal(audit_record_format(&rec, &out), 0);
	assert_text(&out, want);
	assert_int_equal(audit_record_parse(out.data, out.len, &back), 0);
	assert_memory_equal(&rec, &back, sizeof(rec));
}

/* What a writer of ours cannot have written is no record. */
static void other_spellings_are_refused(void **)
{
#define PREV "\"prev\":\"0000000000000000000000000000000000000000000000000000000000000001\"}"
#define TIME "\"time\":\"2026-11-15T01:50:43.123Z\","
	static const struct {
		const char *line;
		bool good;
	} rows[] = {
		{ "{\"seq\":1," TIME "\"op\":\"a\"," PREV, true },
		{ "{\"seq\":1," TIME "\"op\":\"a\"," PREV " ", false },
		{ "{\"seq\": 1," TIME "\"op\":\"a\"," PREV, false },
		{ "{\"seq\":0," TIME "\"op\":\"a\"," PREV, false },
		{ "{\"seq\":-1," TIME "\"op\":\"a\"," PREV, false },
		{ "{\"seq\":1.0," TIME "\"op\":\"a\"," PREV, false },
		{ "{\"seq\":\"1\"," TIME "\"op\":\"a\"," PREV, false },
		{ "{" TIME "\"seq\":1,\"op\":\"a\"," PREV, false },
		{ "{\"seq\":1," TIME PREV, false },
		{ "{\"seq\":1,\"op\":\"a\"," PREV, false },
		{ "{\"seq\":1," TIME "\"op\":\"\"," PREV, false },
		{ "{\"seq\":1," TIME "\"op\":\"a\",\"x\":1," PREV, false },
		{ "{\"seq\":1," TIME "\"op\":\"a\",\"key\":\"\"," PREV, false },
		{ "{\"seq\":1," TIME "\"op\":\"\\u0061\"," PREV, false },
		{ "{\"seq\":1," TIME "\"op\":\"a\",\"prev\":\"00\"}", false },
		{ "{\"seq\":1," TIME "\"op\":\"a\",\"count\":1," PREV, false },
		{ "{\"seq\":1,\"time\":\"2026-11-15T01:50:43Z\",\"op\":\"a\"," PREV, false },
		{ "[]", false },
		{ "", false },
	};
	struct audit_record rec;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		row_check(i, (audit_record_parse(rows[i].line, strlen(rows[i].line), &rec) == 0) ==
				     rows[i].good);
}

static void a_full_file_is_followed_by_the_next(void **state)
{
	struct fixture *f = *state;
	struct audit_anchor head;

	f->conf.segment_bytes = KIB(8);
	start(f);
	put(f, 100);
	head = audit_get_durable_head(f->audit);
	assert_int_equal(head.count, 100);
	assert_int_equal(faccessat(f->dirfd, "00000004.log", F_OK, 0), 0);
	assert_int_equal(verify(f, &head).verdict, AUDIT_INTACT);
	assert_int_equal(verify(f, &head).at.count, 100);
	shut(f);
	start(f);
	put(f, 1);
	assert_int_equal(verify(f, &head).at.count, 101);
}

static void the_oldest_files_go_behind_a_record_of_their_last(void **state)
{
	struct fixture *f = *state;
	struct audit_anchor early, head;
	struct audit_record rows[3];

	f->conf.segment_bytes = KIB(8);
	f->conf.keep = 2;
	start(f);
	put(f, 2);
	early = audit_get_durable_head(f->audit);
	put(f, 200);
	head = audit_get_durable_head(f->audit);
	assert_true(head.count > 202); /* and the records of what was dropped */
	assert_int_equal(faccessat(f->dirfd, "00000001.log", F_OK, 0), -1);
	assert_int_equal(verify(f, NULL).verdict, AUDIT_INTACT);
	assert_int_equal(verify(f, &head).verdict, AUDIT_INTACT);
	assert_true(verify(f, NULL).base.count > 2);
	assert_int_equal(verify(f, &early).verdict, AUDIT_ANCHOR_DROPPED);
	/* who asks for what is gone gets the oldest there is */
	assert_int_equal(audit_read_page(f->dirfd, 1, rows, 3, NULL), 3);
	assert_int_equal(rows[0].seq, verify(f, NULL).base.count + 1);
}

static void half_a_line_is_cut_off_and_noted(void **state)
{
	struct fixture *f = *state;
	static const char torn[] = "{\"seq\":4,\"ti";
	auto_close int fd = -EBADF;
	struct audit_record rows[8];

	start(f);
	put(f, 3);
	shut(f);
	fd = openat(f->dirfd, "00000001.log", O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_int_equal(fd_write_all(fd, torn, sizeof(torn) - 1), 0);
	assert_int_equal(verify(f, NULL).verdict, AUDIT_INTACT);
	assert_int_equal(verify(f, NULL).torn, sizeof(torn) - 1);
	start(f);
	put(f, 1);
	assert_int_equal(verify(f, NULL).verdict, AUDIT_INTACT);
	assert_int_equal(verify(f, NULL).torn, 0);
	assert_int_equal(audit_read_page(f->dirfd, 0, rows, 8, NULL), 5);
	assert_string_equal(rows[3].op, AUDIT_CUT);
	assert_string_equal(rows[3].detail, "12 bytes of a record that was never acknowledged");
	assert_string_equal(rows[4].op, "sandbox.create");
}

/* A crash between a new file and its first record. */
static void an_empty_last_file_is_gone_on_with(void **state)
{
	struct fixture *f = *state;
	int fd;

	start(f);
	put(f, 3);
	shut(f);
	fd = openat(f->dirfd, "00000002.log", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	(void)close(fd);
	start(f);
	assert_int_equal(audit_get_durable_head(f->audit).count, 3);
	put(f, 1);
	assert_int_equal(verify(f, NULL).verdict, AUDIT_INTACT);
	assert_int_equal(verify(f, NULL).at.count, 4);
}

static void nothing_is_written_behind_a_damaged_end(void **state)
{
	struct fixture *f = *state;
	struct cay_err err = {};
	auto_close int fd = -EBADF;

	start(f);
	put(f, 3);
	shut(f);
	fd = openat(f->dirfd, "00000001.log", O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_int_equal(fd_write_all(fd, "nonsense\n", 9), 0);
	assert_true(try_open(f, &err) < 0);
	assert_int_equal(err.code, CAY_E_INTERNAL);
	assert_non_null(strstr(err.msg, "damaged"));
}

static void who_finds_no_room_is_refused_and_counted(void **state)
{
	struct fixture *f = *state;
	struct audit_record rec = record_of(1), rows[4];
	struct cay_err err = {};

	start(f);
	for (unsigned i = 0; i < AUDIT_PENDING_MAX; i++)
		assert_int_equal(audit_slot_reserve(f->audit, NULL), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_true(audit_slot_reserve(f->audit, &err) < 0);
	assert_int_equal(err.code, CAY_E_UNAVAILABLE);
	assert_false(audit_append(f->audit, &rec, false, on_put, f));
	assert_int_equal(audit_get_stats(f->audit).missed, 4);
	/* who has reserved is not refused */
	assert_true(audit_append(f->audit, &rec, true, on_put, f));
	for (unsigned i = 1; i < AUDIT_PENDING_MAX; i++)
		audit_slot_release(f->audit);
	while (!f->told) /* or it is the one that put() waits for */
		(void)uv_run(&f->loop, UV_RUN_ONCE);
	put(f, 1);
	assert_int_equal(audit_read_page(f->dirfd, 0, rows, 4, NULL), 3);
	assert_string_equal(rows[1].op, AUDIT_MISSED);
	assert_string_equal(rows[1].detail, "4 refusals were not recorded");
	assert_int_equal(audit_get_stats(f->audit).pending, 0);
}

/* The disk says no once: who waits hears of it, and the record is there all the same. */
static void a_failure_is_told_once_and_tried_again(void **state)
{
	struct fixture *f = *state;
	static const char *const specs[] = { "audit:written=error@2", "audit:synced=error@2" };

	for (unsigned i = 0; i < ARRAY_SIZE(specs); i++) {
		unsigned failed = f->failed;

		assert_int_equal(failpoint_arm(specs[i], NULL), 0);
		start(f);
		put(f, 1);
		put(f, 1);
		row_check(i, f->failed == failed + 1);
		while (audit_get_stats(f->audit).pending)
			(void)uv_run(&f->loop, UV_RUN_ONCE);
		row_check(i, audit_get_stats(f->audit).failed == 1);
		row_check(i, verify(f, NULL).verdict == AUDIT_INTACT);
		row_check(i, verify(f, NULL).at.count == 2 * (i + 1));
		shut(f);
	}
	assert_int_equal(f->told, 4);
}

/* All of them are written at once: a second time would fail. */
static void records_without_a_waiter_are_gathered(void **state)
{
	struct fixture *f = *state;
	struct audit_record rec = record_of(1);

	assert_int_equal(failpoint_arm("audit:written=error@2", NULL), 0);
	f->conf.gather_ns = 3600 * NS_PER_S;
	start(f);
	for (unsigned i = 0; i < 10; i++)
		assert_true(audit_append(f->audit, &rec, false, NULL, NULL));
	put(f, 1); /* who waits for a record does not wait an hour */
	assert_int_equal(audit_get_durable_head(f->audit).count, 11);
	assert_int_equal(audit_get_stats(f->audit).failed, 0);
	shut(f);
	assert_int_equal(failpoint_arm(NULL, NULL), 0);
	start(f);
	for (unsigned i = 0; i < AUDIT_PENDING_MAX; i++) /* nor do more than one batch holds */
		assert_true(audit_append(f->audit, &rec, false, NULL, NULL));
	while (audit_get_stats(f->audit).pending)
		(void)uv_run(&f->loop, UV_RUN_ONCE);
	assert_true(audit_append(f->audit, &rec, false, NULL, NULL));
	shut(f); /* nor does the end */
	assert_int_equal(verify(f, NULL).at.count, 11 + AUDIT_PENDING_MAX + 1);
}

static void pages_go_on_where_the_last_one_ended(void **state)
{
	struct fixture *f = *state;
	struct audit_record rows[7];
	uint64_t next = 1;
	int n;

	f->conf.segment_bytes = KIB(8);
	start(f);
	put(f, 100);
	while ((n = audit_read_page(f->dirfd, next, rows, ARRAY_SIZE(rows), NULL)) > 0)
		for (int i = 0; i < n; i++)
			row_check(next, rows[i].seq == next++);
	assert_int_equal(n, 0);
	assert_int_equal(next, 101);
	assert_int_equal(audit_read_page(f->dirfd, 99, rows, 7, NULL), 2);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(records_are_a_chain_that_sha256sum_can_follow),
		cmocka_unit_test(a_line_looks_like_this),
		cmocka_unit_test(other_spellings_are_refused),
		CASE(a_full_file_is_followed_by_the_next),
		CASE(the_oldest_files_go_behind_a_record_of_their_last),
		CASE(half_a_line_is_cut_off_and_noted),
		CASE(an_empty_last_file_is_gone_on_with),
		CASE(nothing_is_written_behind_a_damaged_end),
		CASE(who_finds_no_room_is_refused_and_counted),
		CASE(a_failure_is_told_once_and_tried_again),
		CASE(records_without_a_waiter_are_gathered),
		CASE(pages_go_on_where_the_last_one_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
