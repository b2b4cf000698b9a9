/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue and its writer.  A job goes loop -> queue -> writer -> told -> loop; the
 * mutex guards the two lists, the statistics and `stopping`, and is never held while
 * the disk is asked for anything, so the loop does not wait for it.
 */
#include <assert.h>
#include <signal.h>
#include <stdlib.h>

#include "base/fault.h"
#include "db/job.h"

/* Writes of one transaction: a long queue is told of in parts. */
#define BATCH_MAX 1024
/* Pages in the WAL.  Past the first the writer moves them into the file when it has
 * nothing else to do, past the second also when it has. */
#define WAL_IDLE 1000
#define WAL_MAX 8000

struct db {
	sqlite3 *sql; /* the writer's while it runs */
	sqlite3_stmt *stmts[STMT_NUM];
	int wal_pages;
	/* the loop's */
	uv_async_t async;
	uv_idle_t idle;
	unsigned handles; /* of those two, not closed */
	uint64_t event_next;
	size_t pending, bytes;
	struct jobs asked, refused, telling;
	bool loaded, closing;
	uv_thread_t writer;
	uv_mutex_t lock;
	uv_cond_t wake;
	/* with the lock */
	struct jobs queue, told;
	struct db_stats stats;
	bool stopping;
};

/* The writer. */

static int run(struct db *db, enum db_stmt stmt)
{
	int rc = sqlite3_step(db->stmts[stmt]), reset = sqlite3_reset(db->stmts[stmt]);

	return rc == SQLITE_DONE || rc == SQLITE_ROW ? reset : rc;
}

static int write_one(struct db *db, const struct job *job)
{
	sqlite3_stmt *s = db->stmts[job->kind];
	int rc = SQLITE_MISUSE;

	if (job->kind == STMT_PUT)
		rc = row_bind(s, &job->row);
	else if (job->kind == STMT_DROP)
		rc = id_bind(s, 0, &job->id);
	else if (job->kind == STMT_EVENT)
		rc = event_bind(s, &job->event);
	else if (job->kind == STMT_FORGET)
		rc = u64_bind(s, 0, job->before);
	else if (job->kind == STMT_AFTER)
		rc = SQLITE_OK;
	for (size_t i = 0; i < ENTRY_KINDS; i++)
		if (job->kind == entry_kinds[i].put)
			rc = entry_bind(s, &job->entry);
		else if (job->kind == entry_kinds[i].drop)
			rc = id_bind(s, 0, &job->id);
	if (rc == SQLITE_OK)
		rc = run(db, job->kind);
	(void)sqlite3_clear_bindings(s);
	return rc;
}

/* One transaction, all or nothing; SQLite's result.  Its own I/O errors are extended
 * codes, a bare SQLITE_IOERR is a failpoint's. */
static int write_all(struct db *db, const struct jobs *batch)
{
	int rc = fault(FAULT_JOURNAL_QUEUED) < 0 ? SQLITE_IOERR : run(db, STMT_BEGIN);

	if (rc == SQLITE_OK && fault(FAULT_JOURNAL_BEGUN) < 0)
		rc = SQLITE_IOERR;
	for (const struct job *job = batch->first; job && rc == SQLITE_OK; job = job->next)
		rc = write_one(db, job);
	if (rc == SQLITE_OK && fault(FAULT_JOURNAL_WRITTEN) < 0)
		rc = SQLITE_IOERR;
	if (rc == SQLITE_OK)
		rc = run(db, STMT_COMMIT);
	if (rc == SQLITE_OK && fault(FAULT_JOURNAL_COMMITTED) < 0)
		rc = SQLITE_IOERR;
	return rc;
}

static bool checkpoint(struct db *db)
{
	if (sqlite3_wal_checkpoint_v2(db->sql, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL) !=
	    SQLITE_OK)
		return false;
	db->wal_pages = 0;
	uv_mutex_lock(&db->lock);
	db->stats.checkpoints++;
	uv_mutex_unlock(&db->lock);
	return true;
}

static int try_write(struct db *db, const struct jobs *batch, int *ret_sys)
{
	int rc = write_all(db, batch);

	if (rc == SQLITE_IOERR)
		*ret_sys = EIO;
	else
		*ret_sys = (rc & 0xff) == SQLITE_IOERR ? sqlite3_system_errno(db->sql) : 0;
	if (!sqlite3_get_autocommit(db->sql))
		(void)run(db, STMT_ROLLBACK);
	return rc;
}

static void write_batch(struct db *db, struct jobs *batch)
{
	int sys, rc = try_write(db, batch, &sys);
	uint64_t n = 0;

	/* the WAL has room of its own, once what is in it has been moved */
	if (db_code(rc, sys) == CAY_E_DISK_FULL && checkpoint(db))
		rc = try_write(db, batch, &sys);
	for (struct job *job = batch->first; job; job = job->next, n++) {
		job->code = db_code(rc, sys);
		job->sys = sys;
		job->why = sqlite3_errstr(rc);
	}
	uv_mutex_lock(&db->lock);
	*(rc == SQLITE_OK ? &db->stats.writes : &db->stats.failed) += n;
	db->stats.transactions += rc == SQLITE_OK;
	jobs_move(&db->told, batch);
	uv_mutex_unlock(&db->lock);
	(void)uv_async_send(&db->async);
}

/* What was asked for, or false when it is time to end.  Nobody waits for a checkpoint
 * but who comes while it is made. */
static bool next_batch(struct db *db, struct jobs *ret)
{
	bool idle, go_on;

	uv_mutex_lock(&db->lock);
	idle = !db->queue.first;
	uv_mutex_unlock(&db->lock);
	if (db->wal_pages > WAL_MAX || (idle && db->wal_pages > WAL_IDLE))
		(void)checkpoint(db); /* the next one does it */
	uv_mutex_lock(&db->lock);
	while (!db->queue.first && !db->stopping)
		uv_cond_wait(&db->wake, &db->lock);
	/* an event stays with the row in front of it */
	for (size_t n = 0;
	     db->queue.first && (n < BATCH_MAX || db->queue.first->kind == STMT_EVENT); n++)
		jobs_add(ret, jobs_take(&db->queue));
	go_on = ret->first;
	uv_mutex_unlock(&db->lock);
	return go_on;
}

static void writer(void *arg)
{
	struct db *db = arg;
	struct jobs batch;

	jobs_init(&batch);
	while (next_batch(db, &batch))
		write_batch(db, &batch);
}

static int on_commit(void *arg, sqlite3 *, const char *, int pages)
{
	struct db *db = arg;

	db->wal_pages = pages;
	return SQLITE_OK;
}

/* The loop. */

static void tell_one(struct db *db, struct job *job)
{
	struct cay_err outcome = {};

	if (job->code != CAY_OK && job->sys)
		(void)cay_fail_sys(&outcome, job->code, job->sys, "journal: %s", job->why);
	else if (job->code != CAY_OK)
		(void)cay_fail(&outcome, job->code, "journal: %s", job->why);
	db->pending--;
	db->bytes -= job->bytes;
	if (job->fn)
		job->fn(job->arg, &outcome);
	free(job);
}

/* A callback may close the journal: then this one finds nothing more to do. */
static void tell(struct db *db)
{
	struct job *job;

	uv_mutex_lock(&db->lock);
	jobs_move(&db->telling, &db->told);
	uv_mutex_unlock(&db->lock);
	jobs_move(&db->telling, &db->refused);
	while ((job = jobs_take(&db->telling)))
		tell_one(db, job);
	if (!db->pending)
		uv_unref((uv_handle_t *)&db->async);
}

static void on_async(uv_async_t *async)
{
	tell(async->data);
}

static void refuse(struct db *db, struct job *job, enum cay_code code, const char *why)
{
	job->code = code;
	job->why = why;
	uv_mutex_lock(&db->lock);
	db->stats.failed++;
	uv_mutex_unlock(&db->lock);
	jobs_add(&db->refused, job);
	(void)uv_async_send(&db->async);
}

static struct job *job_new(struct db *db, enum db_stmt kind, db_fn *fn, void *arg, size_t text)
{
	struct job *job = calloc(1, sizeof(*job) + text);

	assert(db->loaded);
	if (!job)
		return NULL;
	job->kind = kind;
	job->fn = fn;
	job->arg = arg;
	job->bytes = sizeof(*job) + text;
	uv_ref((uv_handle_t *)&db->async);
	db->pending++;
	db->bytes += job->bytes;
	return job;
}

/* What was asked for in one turn of the loop goes to the writer together: a sandbox's row
 * and the event about it are one transaction.  While an idle handle is active the loop
 * does not sleep, wherever in a turn somebody asks. */
static void hand_over(struct db *db)
{
	uv_mutex_lock(&db->lock);
	jobs_move(&db->queue, &db->asked);
	uv_cond_signal(&db->wake);
	uv_mutex_unlock(&db->lock);
}

static void on_idle(uv_idle_t *idle)
{
	(void)uv_idle_stop(idle);
	hand_over(idle->data);
}

static void ask(struct db *db, struct job *job)
{
	if (db->closing) {
		refuse(db, job, CAY_E_UNAVAILABLE, "it is being closed");
		return;
	}
	if (db->pending > DB_PENDING_MAX || db->bytes > DB_PENDING_BYTES) {
		refuse(db, job, CAY_E_CAPACITY, "too many writes are waiting for the disk");
		return;
	}
	if (!db->asked.first)
		(void)uv_idle_start(&db->idle, on_idle);
	jobs_add(&db->asked, job);
}

/* A job with a copy of the text, or without one and refused. */
static struct job *job_text(struct db *db, enum db_stmt kind, struct slice text, const char *fault,
			    db_fn *fn, void *arg)
{
	struct job *job = job_new(db, kind, fn, arg, fault ? 0 : text.n);

	if (job && !fault) {
		if (text.n)
			memcpy(job->text, text.p, text.n);
		return job;
	}
	if (!job)
		job = job_new(db, kind, fn, arg, 0);
	if (!job)
		abort(); /* there is not even the memory to say so: start again */
	refuse(db, job, fault ? CAY_E_INVALID : CAY_E_NO_MEMORY, fault ? fault : "out of memory");
	return NULL;
}

void db_put(struct db *db, const struct db_row *row, db_fn *fn, void *arg)
{
	struct job *job = job_text(db, STMT_PUT, row->text, row_fault(row), fn, arg);

	if (!job)
		return;
	job->row = *row;
	job->row.text.p = job->text;
	ask(db, job);
}

void db_event(struct db *db, const struct db_event *event, db_fn *fn, void *arg)
{
	const char *fault = event->seq < db->event_next ? event_fault(event) : "seq is not given";
	struct job *job = job_text(db, STMT_EVENT, event->text, fault, fn, arg);

	if (!job)
		return;
	job->event = *event;
	job->event.text.p = job->text;
	ask(db, job);
}

void db_after(struct db *db, db_fn *fn, void *arg)
{
	struct job *job = job_text(db, STMT_AFTER, (struct slice){}, NULL, fn, arg);

	if (job)
		ask(db, job);
}

void db_put_entry(struct db *db, const struct db_entry *entry, db_fn *fn, void *arg)
{
	enum db_stmt kind = entry_kind(entry->id.noun)->put;
	struct job *job = job_text(db, kind, entry->text, entry_fault(entry), fn, arg);

	if (!job)
		return;
	job->entry = *entry;
	job->entry.text.p = job->text;
	ask(db, job);
}

static void drop(struct db *db, enum db_stmt kind, const struct id *id, db_fn *fn, void *arg)
{
	struct job *job = job_text(db, kind, (struct slice){}, NULL, fn, arg);

	if (!job)
		return;
	job->id = *id;
	ask(db, job);
}

void db_drop_entry(struct db *db, const struct id *id, db_fn *fn, void *arg)
{
	drop(db, entry_kind(id->noun)->drop, id, fn, arg);
}

void db_drop(struct db *db, const struct id *sandbox, db_fn *fn, void *arg)
{
	drop(db, STMT_DROP, sandbox, fn, arg);
}

uint64_t db_event_next(struct db *db)
{
	return db->event_next++;
}

void db_forget_events(struct db *db, uint64_t before)
{
	struct job *job = job_text(db, STMT_FORGET, (struct slice){}, NULL, NULL, NULL);

	if (!job)
		return;
	job->before = before < DB_NUMBER_MAX ? before : DB_NUMBER_MAX;
	ask(db, job);
}

struct db_stats db_stats(struct db *db)
{
	struct db_stats stats;

	uv_mutex_lock(&db->lock);
	stats = db->stats;
	uv_mutex_unlock(&db->lock);
	stats.pending = db->pending;
	return stats;
}

/* Open and close. */

static int prepare(struct db *db, struct cay_err *err)
{
	const char *texts[STMT_NUM] = {
		[STMT_BEGIN] = "BEGIN IMMEDIATE",
		[STMT_COMMIT] = "COMMIT",
		[STMT_ROLLBACK] = "ROLLBACK",
		[STMT_PUT] = db_put_sql,
		[STMT_DROP] = "DELETE FROM sandbox WHERE id = ?",
		[STMT_EVENT] = db_event_sql,
		[STMT_FORGET] = "DELETE FROM event WHERE seq < ?",
		[STMT_AFTER] = "SELECT 1",
	};

	for (size_t i = 0; i < ENTRY_KINDS; i++) {
		texts[entry_kinds[i].put] = entry_kinds[i].put_sql;
		texts[entry_kinds[i].drop] = entry_kinds[i].drop_sql;
	}
	for (unsigned i = 0; i < STMT_NUM; i++)
		if (sqlite3_prepare_v3(db->sql, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
				       &db->stmts[i], NULL) != SQLITE_OK)
			return cay_fail(err, CAY_E_INTERNAL,
					DB_NAME " has other tables than it says (%s); put back a "
						"copy, or move it away with its -wal",
					sqlite3_errmsg(db->sql));
	return 0;
}

/* Past every number that was ever durable, forgotten or not. */
static int find_event_next(struct db *db, struct cay_err *err)
{
	static const char text[] =
		"SELECT max((SELECT ifnull(max(seq), 0) FROM event),"
		" (SELECT ifnull(max(seq), 0) FROM sqlite_sequence WHERE name = 'event'))";
	sqlite3_stmt *s = NULL;
	int rc = sqlite3_prepare_v2(db->sql, text, -1, &s, NULL);
	int64_t last = -1;

	if (rc == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW &&
	    sqlite3_column_type(s, 0) == SQLITE_INTEGER)
		last = sqlite3_column_int64(s, 0);
	(void)sqlite3_finalize(s);
	if (last < 0 || last == INT64_MAX)
		return cay_fail(err, CAY_E_INTERNAL, DB_NAME ": the number of the last event is %s",
				last < 0 ? "unreadable" : "the last there is");
	db->event_next = (uint64_t)last + 1;
	return 0;
}

/* All but the handle, which is the loop's until it says so. */
static void db_fini(struct db *db)
{
	for (unsigned i = 0; i < STMT_NUM; i++)
		(void)sqlite3_finalize(db->stmts[i]);
	(void)sqlite3_close(db->sql);
	uv_cond_destroy(&db->wake);
	uv_mutex_destroy(&db->lock);
}

static struct db *db_new(void)
{
	struct db *db = calloc(1, sizeof(*db));

	if (!db)
		return NULL;
	jobs_init(&db->asked);
	jobs_init(&db->refused);
	jobs_init(&db->telling);
	jobs_init(&db->queue);
	jobs_init(&db->told);
	if (uv_mutex_init(&db->lock) < 0) {
		free(db);
		return NULL;
	}
	if (uv_cond_init(&db->wake) < 0) {
		uv_mutex_destroy(&db->lock);
		free(db);
		return NULL;
	}
	return db;
}

int db_open(int dirfd, uv_loop_t *loop, struct db **ret, struct cay_err *err)
{
	struct db *db = db_new();
	int r;

	if (!db)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	r = schema_open(dirfd, &db->sql, err);
	if (r >= 0)
		r = prepare(db, err);
	if (r >= 0)
		r = find_event_next(db, err);
	if (r >= 0 && uv_async_init(loop, &db->async, on_async) < 0)
		r = cay_fail(err, CAY_E_INTERNAL, DB_NAME ": no handle in the loop");
	if (r < 0) {
		db_fini(db);
		free(db);
		return r;
	}
	/* it is ours: from now on a close may tidy it up */
	(void)sqlite3_db_config(db->sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
	(void)uv_idle_init(loop, &db->idle); /* cannot fail */
	db->handles = 2;
	db->async.data = db->idle.data = db;
	uv_unref((uv_handle_t *)&db->async);
	uv_unref((uv_handle_t *)&db->idle);
	(void)sqlite3_wal_hook(db->sql, on_commit, db);
	*ret = db;
	return 0;
}

/* Signals are the loop's: a thread is born with what its maker has blocked. */
static int start_writer(struct db *db, struct cay_err *err)
{
	sigset_t all, before;
	int r;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = uv_thread_create(&db->writer, writer, db);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "start the journal's writer");
	db->loaded = true;
	return 0;
}

int db_load(struct db *db, const struct db_reader *to, struct cay_err *err)
{
	int r;

	assert(!db->loaded);
	r = entries_load(db->sql, to, err);
	if (r >= 0)
		r = rows_load(db->sql, to, err);
	if (r >= 0)
		r = events_load(db->sql, to, err);
	return r < 0 ? r : start_writer(db, err);
}

static void on_closed(uv_handle_t *handle)
{
	struct db *db = handle->data;

	if (!--db->handles)
		free(db);
}

void db_close(struct db *db)
{
	if (!db || db->closing)
		return;
	db->closing = true;
	if (db->loaded) {
		hand_over(db);
		uv_mutex_lock(&db->lock);
		db->stopping = true;
		uv_cond_signal(&db->wake);
		uv_mutex_unlock(&db->lock);
		(void)uv_thread_join(&db->writer);
	}
	do
		tell(db);
	while (db->pending);
	db_fini(db);
	uv_close((uv_handle_t *)&db->async, on_closed);
	uv_close((uv_handle_t *)&db->idle, on_closed);
}
