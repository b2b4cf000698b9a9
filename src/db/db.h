/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_DB_DB_H
#define CAY_DB_DB_H
/*
 * db - the journal: what this node knows of its sandboxes, whatever dies
 *
 * One SQLite file (WAL, synchronous=FULL) with one writer: a thread of its own that
 * takes everything that was asked for while it was busy, makes one transaction of it
 * and posts the outcome back.  So a write costs one fsync, and a hundred at once cost
 * one fsync too.  Writes take effect in the order they were asked for; a failure of
 * one is the failure of its whole transaction, and each of its writers is told.
 *
 * A row is a struct life, an opaque text of the caller's (JSON) and what it is found
 * by; all rows are read into memory at the start and never again.  Events have a
 * number that only grows, also across restarts.
 *
 * Threading: every function is for the loop thread; fn is called from it.  What is
 * passed in is copied.
 */
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "life/life.h"

#define DB_NAME "journal.db"
#define DB_TEXT_MAX KIB(256)
#define DB_PENDING_MAX 65536
#define DB_KEY_MAX 64

struct db;

struct db_row {
	struct life life;
	uint64_t seq;               /* the order they were accepted in */
	char boot[BOOT_ID_LEN + 1]; /* the boot life's times are of */
	struct slice text;
};

struct db_event {
	uint64_t seq; /* db_event_next() */
	uint64_t wall_ns;
	struct id sandbox;
	struct slice text;
};

/* Once, last: CAY_OK when it is durable. */
typedef void db_fn(void *arg, const struct cay_err *outcome);

/* Make or open DB_NAME in the directory, bring its tables up to this version and start
 * the writer; blocks.  A file of a later version, or one that is damaged, is refused
 * and left as it is. */
[[nodiscard]] int db_open(int dirfd, uv_loop_t *loop, struct db **ret, struct cay_err *err);
/* Every row in the order of seq, and the last `events` events; before the loop runs. */
typedef int db_row_fn(void *arg, const struct db_row *row, struct cay_err *err);
typedef int db_event_fn(void *arg, const struct db_event *event, struct cay_err *err);
[[nodiscard]] int db_load(struct db *db, db_row_fn *row, uint64_t events, db_event_fn *event,
			  void *arg, struct cay_err *err);

/* fn may be NULL: nobody waits. */
void db_put(struct db *db, const struct db_row *row, db_fn *fn, void *arg);
void db_drop(struct db *db, const struct id *sandbox, db_fn *fn, void *arg);
void db_event(struct db *db, const struct db_event *event);
/* The number of the next event; counted from the last one there is. */
uint64_t db_event_next(struct db *db);
/* Forget events before this number. */
void db_forget_events(struct db *db, uint64_t before);
/* Write what was asked for, tell, stop the writer and close.  Blocks. */
void db_close(struct db *db);
#endif
