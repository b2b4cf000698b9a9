/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TESTS_DB_FIXTURE_H
#define CAY_TESTS_DB_FIXTURE_H
/* db-fixture - a journal in a directory of its own, and what came out of it */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "db/db-internal.h"
#include "unit.h"

#define BOOT "01234567-89ab-cdef-0123-456789abcdef"
#define SEEN_MAX 4096

/* What a load said, in the order it said it. */
struct seen {
	struct db_sandbox rows[SEEN_MAX];
	struct db_event events[SEEN_MAX];
	struct id entries[8];
	char entry_texts[8][16];
	size_t n_entries;
	size_t n_rows, n_events, n_bad, n_nameless;
	struct id bad;
	char why[CAY_ERR_MSG_MAX];
	char texts[SEEN_MAX][16]; /* of rows: how they begin */
};

struct fixture {
	char dir[64];
	int dirfd;
	uv_loop_t loop;
	struct db *db;
	struct seen seen;
};

static inline int see_row(void *arg, const struct db_sandbox *row, struct cay_err *)
{
	struct seen *s = &((struct fixture *)arg)->seen;

	assert_true(s->n_rows < SEEN_MAX);
	if (row->text.n)
		memcpy(s->texts[s->n_rows], row->text.p, row->text.n < 15 ? row->text.n : 15);
	s->rows[s->n_rows++] = *row;
	return 0;
}

static inline int see_entry(void *arg, const struct db_entry *entry, struct cay_err *)
{
	struct seen *s = &((struct fixture *)arg)->seen;

	assert_true(s->n_entries < ARRAY_SIZE(s->entries) && entry->text.n < 16);
	memcpy(s->entry_texts[s->n_entries], entry->text.p, entry->text.n);
	s->entries[s->n_entries++] = entry->id;
	return 0;
}

static inline int see_event(void *arg, const struct db_event *event, struct cay_err *)
{
	struct seen *s = &((struct fixture *)arg)->seen;

	assert_true(s->n_events < SEEN_MAX);
	s->events[s->n_events++] = *event;
	return 0;
}

static inline void see_bad(void *arg, const struct id *sandbox, const struct cay_err *why)
{
	struct seen *s = &((struct fixture *)arg)->seen;

	s->n_bad++;
	s->n_nameless += !sandbox;
	if (sandbox)
		s->bad = *sandbox;
	memcpy(s->why, why->msg, sizeof(s->why));
}

static inline void load(struct fixture *f, uint64_t events)
{
	struct cay_err err = {};
	struct db_reader to = { see_row, see_event, see_bad, events, f, see_entry };

	memset(&f->seen, 0, sizeof(f->seen));
	if (db_open(f->dirfd, false, &f->loop, &f->db, &err) < 0 || db_load(f->db, &to, &err) < 0)
		fail_msg("%s", err.msg);
}

static inline void shut(struct fixture *f)
{
	db_close(cay_take(f->db));
	(void)uv_run(&f->loop, UV_RUN_DEFAULT);
}

static inline void again(struct fixture *f)
{
	shut(f);
	load(f, SEEN_MAX);
}

static inline int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f || snprintf(f->dir, sizeof(f->dir), "/tmp/cay-db-XXXXXX") < 0 || !mkdtemp(f->dir) ||
	    uv_loop_init(&f->loop) < 0)
		return -1;
	f->dirfd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = f;
	return 0;
}

static inline int tear_down(void **state)
{
	struct fixture *f = *state;
	static const char *const names[] = { DB_NAME, DB_NAME "-wal", DB_NAME "-journal", DB_MARK,
					     DB_ACCEPT };

	if (f->db)
		shut(f);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		(void)unlinkat(f->dirfd, names[i], 0);
	assert_int_equal(rmdir(f->dir), 0); /* and nothing else was left */
	(void)close(f->dirfd);
	free(f);
	return failpoint_arm(NULL, NULL);
}

/* The same row for the same number. */
static inline struct db_sandbox row_of(uint64_t n)
{
	struct id id = { .noun = ID_SANDBOX };
	struct db_sandbox row;

	for (size_t i = 0; i < sizeof(n); i++)
		id.bits[i] = (uint8_t)(n >> 8 * i);
	row = (struct db_sandbox){ .life = life_new(&id, 1000 + n, LIFE_NEVER, LIFE_NEVER,
						    LIFE_NEVER),
				   .seq = n,
				   .boot = BOOT,
				   .text = SLICE("{}") };
	return row;
}

/* Outcomes in the order they were told. */
struct told {
	unsigned n, by[CAY_NUM_CODES];
	enum cay_code codes[8];
	char msg[CAY_ERR_MSG_MAX];
};

static inline void on_told(void *arg, const struct cay_err *outcome)
{
	struct told *t = arg;

	if (t->n < ARRAY_SIZE(t->codes))
		t->codes[t->n] = outcome->code;
	t->n++;
	t->by[outcome->code]++;
	memcpy(t->msg, outcome->msg, sizeof(t->msg));
}

static inline void turn(struct fixture *f)
{
	(void)uv_run(&f->loop, UV_RUN_DEFAULT);
}

static inline void drop(struct fixture *f, uint64_t n, db_fn *fn, void *arg)
{
	struct db_sandbox row = row_of(n);

	db_sandbox_delete(f->db, &row.life.id, fn, arg);
}

/* Put and wait. */
static inline enum cay_code put(struct fixture *f, const struct db_sandbox *row)
{
	struct told t = {};

	db_sandbox_put(f->db, row, on_told, &t);
	assert_int_equal(t.n, 0);
	turn(f);
	assert_int_equal(t.n, 1);
	return t.codes[0];
}
#endif
