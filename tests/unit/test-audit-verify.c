/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of damage is found, and found where it is. */
#include "audit-fixture.h"

#define RECORDS 40
#define LINES_MAX 64

/* One file in memory, to be damaged by lines. */
struct text {
	char name[16];
	struct buf whole;
	struct slice lines[LINES_MAX]; /* with their newline */
	size_t n;
};

static void text_read(const struct fixture *f, const char *name, struct text *t)
{
	*t = (struct text){ .whole = BUF_INIT(MIB(1)) };
	assert_true(snprintf(t->name, sizeof(t->name), "%s", name) > 0);
	assert_int_equal(path_read(f->dirfd, name, &t->whole), 0);
	for (size_t at = 0; at < t->whole.len;) {
		const char *p = t->whole.data + at, *end = memchr(p, '\n', t->whole.len - at);

		assert_true(t->n < LINES_MAX);
		t->lines[t->n] = (struct slice){ p, (size_t)(end - p) + 1 };
		at += t->lines[t->n++].n;
	}
}

static void text_write(const struct fixture *f, const struct text *t)
{
	auto_buf out = BUF_INIT(MIB(1));

	for (size_t i = 0; i < t->n; i++)
		assert_int_equal(buf_append(&out, t->lines[i].p, t->lines[i].n), 0);
	assert_int_equal(path_write_atomic(f->dirfd, t->name, buf_str(&out), out.len, 0600), 0);
}

static void text_restore(const struct fixture *f, struct text *t)
{
	assert_int_equal(path_write_atomic(f->dirfd, t->name, t->whole.data, t->whole.len, 0600),
			 0);
	buf_fini(&t->whole);
}

/* A log of several files, closed; where its head is. */
static struct audit_anchor make(struct fixture *f)
{
	struct audit_anchor head;

	f->conf.segment_bytes = KIB(8);
	start(f);
	put(f, RECORDS);
	head = audit_get_durable_head(f->audit);
	shut(f);
	assert_int_equal(verify(f, &head).verdict, AUDIT_INTACT);
	return head;
}

/* Each byte of the middle file, one at a time. */
static void a_changed_byte_is_found_where_it_is(void **state)
{
	struct fixture *f = *state;
	struct text t;
	size_t at = 0;

	(void)make(f);
	text_read(f, "00000002.log", &t);
	for (size_t i = 0; i < t.n; at += t.lines[i++].n)
		for (size_t k = 0; k < t.lines[i].n; k += 3) {
			char was = t.whole.data[at + k];
			struct audit_report r;

			t.whole.data[at + k] = was == '0' ? '1' : '0';
			text_write(f, &t);
			r = verify(f, NULL);
			t.whole.data[at + k] = was;
			row_check(at + k, r.verdict == AUDIT_UNREADABLE ||
						  r.verdict == AUDIT_OUT_OF_ORDER ||
						  r.verdict == AUDIT_CHANGED);
			/* a changed `prev` accuses the record before it */
			row_check(at + k, (r.segment == 2 && (r.line == i + 1 || r.line == i)) ||
						  (i == 0 && r.segment == 1));
		}
	text_restore(f, &t);
}

static void a_removed_line_is_found(void **state)
{
	struct fixture *f = *state;
	struct audit_report r;
	struct text t;

	(void)make(f);
	text_read(f, "00000002.log", &t);
	for (size_t i = 0; i < t.n; i++) {
		struct slice was = t.lines[i];

		t.lines[i].n = 0;
		text_write(f, &t);
		t.lines[i] = was;
		r = verify(f, NULL);
		row_check(i, r.verdict == AUDIT_OUT_OF_ORDER);
		row_check(i, i + 1 == t.n ? r.segment == 3 && r.line == 1
					  : r.segment == 2 && r.line == i + 1);
	}
	text_restore(f, &t);
}

static void swapped_lines_are_found(void **state)
{
	struct fixture *f = *state;
	struct audit_report r;
	struct text t;

	(void)make(f);
	text_read(f, "00000002.log", &t);
	for (size_t i = 0; i + 1 < t.n; i++) {
		struct slice was = t.lines[i];

		t.lines[i] = t.lines[i + 1];
		t.lines[i + 1] = was;
		text_write(f, &t);
		t.lines[i + 1] = t.lines[i];
		t.lines[i] = was;
		r = verify(f, NULL);
		row_check(i, r.verdict == AUDIT_OUT_OF_ORDER && r.segment == 2 && r.line == i + 1);
	}
	text_restore(f, &t);
}

/* A line that fits where it stands, but for what comes behind it. */
static void an_inserted_line_is_found(void **state)
{
	struct fixture *f = *state;
	auto_buf forged = BUF_INIT(AUDIT_LINE_MAX);
	struct audit_record rec;
	struct audit_report r;
	struct text t;

	(void)make(f);
	text_read(f, "00000002.log", &t);
	assert_int_equal(audit_record_parse(t.lines[4].p, t.lines[4].n - 1, &rec), 0);
	audit_set(rec.outcome, "forged");
	assert_int_equal(audit_record_format(&rec, &forged), 0);
	assert_int_equal(buf_putc(&forged, '\n'), 0);
	memmove(&t.lines[5], &t.lines[4], (t.n++ - 4) * sizeof(t.lines[0]));
	t.lines[4] = (struct slice){ forged.data, forged.len };
	text_write(f, &t);
	r = verify(f, NULL);
	assert_int_equal(r.verdict, AUDIT_OUT_OF_ORDER);
	assert_int_equal(r.line, 6);
	/* and so is one that takes the place of another */
	memmove(&t.lines[5], &t.lines[6], (--t.n - 5) * sizeof(t.lines[0]));
	text_write(f, &t);
	r = verify(f, NULL);
	assert_int_equal(r.verdict, AUDIT_CHANGED);
	assert_int_equal(r.line, 5);
	assert_int_equal(r.record, rec.seq);
	text_restore(f, &t);
}

static void a_missing_file_is_found(void **state)
{
	struct fixture *f = *state;
	struct audit_report r;
	struct text t;

	(void)make(f);
	text_read(f, "00000002.log", &t);
	assert_int_equal(unlinkat(f->dirfd, t.name, 0), 0);
	r = verify(f, NULL);
	assert_int_equal(r.verdict, AUDIT_NO_SEGMENT);
	assert_int_equal(r.segment, 2);
	text_restore(f, &t);
	text_read(f, "00000001.log", &t);
	assert_int_equal(unlinkat(f->dirfd, t.name, 0), 0);
	r = verify(f, NULL);
	assert_int_equal(r.verdict, AUDIT_NO_SEGMENT);
	assert_int_equal(r.segment, 1);
	text_restore(f, &t);
}

/* Removed files, and a record of ours that says so of others. */
static void a_drop_that_is_not_the_recorded_one_is_found(void **state)
{
	struct fixture *f = *state;

	f->conf.segment_bytes = KIB(8);
	f->conf.keep = 3;
	start(f);
	put(f, 5 * RECORDS);
	shut(f);
	assert_int_equal(verify(f, NULL).verdict, AUDIT_INTACT);
	for (unsigned i = 1; i < 100; i++) {
		char name[16];

		assert_true(snprintf(name, sizeof(name), "%08u.log", i) > 0);
		if (unlinkat(f->dirfd, name, 0) == 0)
			break; /* the oldest that is there */
	}
	assert_int_equal(verify(f, NULL).verdict, AUDIT_NO_SEGMENT);
}

/* What only the anchor can show. */
static void a_cut_end_and_a_new_chain_are_found_by_the_anchor(void **state)
{
	struct fixture *f = *state;
	struct audit_anchor head = make(f), early;
	struct audit_report r;
	struct text t;

	text_read(f, "00000003.log", &t);
	t.n--;
	text_write(f, &t);
	assert_int_equal(verify(f, NULL).verdict, AUDIT_INTACT);
	r = verify(f, &head);
	assert_int_equal(r.verdict, AUDIT_TRUNCATED);
	assert_int_equal(r.at.count, RECORDS - 1);
	/* what was true then is true still */
	early = r.at;
	text_restore(f, &t);
	assert_int_equal(verify(f, &early).verdict, AUDIT_INTACT);
	/* the last line changed: nothing is behind it that would tell */
	text_read(f, "00000003.log", &t);
	*strstr(t.whole.data + t.whole.len - t.lines[t.n - 1].n, "create") = 'd';
	text_write(f, &t);
	assert_int_equal(verify(f, NULL).verdict, AUDIT_INTACT);
	r = verify(f, &head);
	assert_int_equal(r.verdict, AUDIT_OTHER_CHAIN);
	assert_int_equal(r.record, RECORDS);
	*strstr(t.whole.data + t.whole.len - t.lines[t.n - 1].n, "dreate") = 'c';
	text_restore(f, &t);
	/* all of it gone */
	assert_int_equal(path_for_each_entry(f->dirfd, remove_one, NULL), 0);
	assert_int_equal(verify(f, NULL).verdict, AUDIT_INTACT);
	assert_int_equal(verify(f, &head).verdict, AUDIT_TRUNCATED);
}

static void every_fault_has_a_name_and_a_text(void **)
{
	for (unsigned i = 0; i < AUDIT_NUM_VERDICTS; i++)
		row_check(i, audit_verdict_names[i] && audit_verdict_text((enum audit_verdict)i));
	assert_null(audit_verdict_names[AUDIT_NUM_VERDICTS]);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_changed_byte_is_found_where_it_is),
		CASE(a_removed_line_is_found),
		CASE(swapped_lines_are_found),
		CASE(an_inserted_line_is_found),
		CASE(a_missing_file_is_found),
		CASE(a_drop_that_is_not_the_recorded_one_is_found),
		CASE(a_cut_end_and_a_new_chain_are_found_by_the_anchor),
		cmocka_unit_test(every_fault_has_a_name_and_a_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
