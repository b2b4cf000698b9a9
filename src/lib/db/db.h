/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_DB_DB_H
#define CAY_DB_DB_H
/* db - the journal: the durable record of this node's sandboxes
 *
 * One SQLite file (WAL, synchronous=FULL) with one writer thread, which takes all writes queued
 * while it was busy, commits them in one transaction and posts the outcome back.  So one write
 * costs one fsync, and a hundred at once also cost one.  Writes take effect in the order they were
 * submitted.  If one fails, its whole transaction fails, and each of its writers gets the failure.
 * Later writes start afresh: there is no broken state.
 *
 * A failed write may still have happened: if the last fsync failed, the next start may find the
 * row.  The same holds for a write without an outcome.
 *
 * A row is a struct life and a text of the caller's (JSON); all rows are read into memory at the
 * start and never again.  Event numbers only increase, also across restarts, also when all events
 * have been deleted.  Publish an event only when it is durable, or a crash may give its number to
 * another one.
 *
 * The file is locked while it is open: no second process, not even a reader.
 *
 * Threading: every function is for the loop thread; fn is called from it, never from inside the
 * call that submitted the write.  Arguments are copied.  The loop stays alive while outcomes are
 * outstanding. */
#include <uv.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "life/life.h"

#define DB_NAME "journal.db"
#define DB_MARK "journal.mark"     /* how far it had come */
#define DB_ACCEPT "journal.accept" /* the operator accepts it with what it lost */
#define DB_TEXT_MAX KIB(256)
/* Writes without an outcome yet; more are refused (CAPACITY). */
#define DB_PENDING_MAX 65536
#define DB_PENDING_BYTES MIB(64)
/* SQLite's integers have a sign; LIFE_NEVER is kept apart. */
#define DB_NUMBER_MAX ((uint64_t)INT64_MAX)

struct db;

struct db_sandbox {
	struct life life; /* saved_ns is read back as active_ns, transient members as zero */
	uint64_t seq;     /* the order they were accepted in */
	char boot[BOOT_ID_LEN + 1]; /* the boot life's times are of */
	struct slice text;          /* UTF-8 */
};

struct db_event {
	uint64_t seq; /* db_event_next_seq() */
	uint64_t wall_ns;
	struct id sandbox;
	struct slice text;
};

/* A tenant, a key, a template, a snapshot, a volume or the kept idempotency key of a sandbox, by
 * the noun of its id. */
struct db_entry {
	struct id id;
	struct slice text;
};

/* Once, last: CAY_OK when it is durable. */
typedef void db_fn(void *arg, const struct cay_err *outcome);

/* Create or open DB_NAME in the directory (open for reading) and migrate its tables to this
 * version; blocks.  Refused and left unchanged: a file of a later version (INCOMPATIBLE), a
 * damaged one or one of another program (INTERNAL), one open elsewhere (CONFLICT).
 *
 * -ESTALE, also left unchanged: it lost its past.  It has less than its mark says, or it is new
 * although the caller knows of a past (had_past).  db_loss_accept() makes the next open take it. */
[[nodiscard]] int db_open(int dirfd, bool had_past, uv_loop_t *loop, struct db **ret,
			  struct cay_err *err);
/* Durable when it returns; and the end of it, once what the journal lacks is dealt with. */
[[nodiscard]] int db_loss_accept(int dirfd, struct cay_err *err);
bool db_loss_is_accepted(int dirfd);
void db_loss_accept_finish(int dirfd);

typedef int db_row_fn(void *arg, const struct db_sandbox *row, struct cay_err *err);
typedef int db_event_fn(void *arg, const struct db_event *event, struct cay_err *err);
typedef int db_entry_fn(void *arg, const struct db_entry *entry, struct cay_err *err);
/* A row this program cannot have written.  It stays in the file until it is put or dropped.
 * id is NULL if not even that can be read. */
typedef void db_bad_fn(void *arg, const struct id *id, const struct cay_err *why);

/* Any of the functions may be NULL. */
struct db_reader {
	db_row_fn *row;
	db_event_fn *event;
	db_bad_fn *bad;
	uint64_t events; /* how many of the last ones */
	void *arg;
	db_entry_fn *entry;
};

/* Tenants, keys, templates, every row in the order of seq, events in theirs; then start the writer.
 * Once, before anything is written.  A callback's failure ends it. */
[[nodiscard]] int db_load(struct db *db, const struct db_reader *to, struct cay_err *err);

/* fn may be NULL if no outcome is needed. */
void db_sandbox_put(struct db *db, const struct db_sandbox *row, db_fn *fn, void *arg);
void db_sandbox_delete(struct db *db, const struct id *sandbox, db_fn *fn, void *arg);
void db_event_append(struct db *db, const struct db_event *event, db_fn *fn, void *arg);
/* Completes after all writes submitted before it; writes nothing itself. */
void db_barrier(struct db *db, db_fn *fn, void *arg);
void db_entry_put(struct db *db, const struct db_entry *entry, db_fn *fn, void *arg);
void db_entry_delete(struct db *db, const struct id *id, db_fn *fn, void *arg);
/* A number for one event; never given twice. */
uint64_t db_event_next_seq(struct db *db);
/* Forget an event; its number is not given again. */
void db_event_delete(struct db *db, uint64_t seq);

struct db_stats {
	uint64_t writes, transactions; /* that are durable */
	uint64_t failed;               /* writes that failed, with or without fn */
	uint64_t checkpoints;
	uint64_t pending; /* writes without an outcome yet */
};

struct db_stats db_get_stats(struct db *db);

/* Write the queue, report, stop the writer and close; blocks.  Writes submitted by its callbacks
 * are refused (UNAVAILABLE).  The loop's next iteration frees the rest.  NULL is fine. */
void db_close(struct db *db);
#endif
