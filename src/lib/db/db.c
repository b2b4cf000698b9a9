/* SPDX-License-Identifier: Apache-2.0 */
/* The queue and its writer.  A write goes loop -> queue -> writer -> outcome list -> loop.  The
 * mutex guards the two lists, the statistics and `stopping`, and is never held during disk I/O, so
 * the loop does not wait for the disk. */
#include <assert.h>
#include <signal.h>
#include <stdlib.h>

#include "base/failpoint.h"
#include "db/write-queue.h"

/* Writes per transaction: the outcome of a long queue is reported in parts. */
#define BATCH_MAX 1024
/* Pages in the WAL.  Past the first the writer moves them into the file when it has
 * nothing else to do, past the second also when it has. */
#define WAL_IDLE 1000
#define WAL_MAX 8000

struct db {
	sqlite3 *sql; /* the writer's while it runs */
	sqlite3_stmt *stmts[STMT_NUM];
	int wal_pages;
	int mark;            /* its fd, or negative */
	struct db_past past; /* that is durable */
	bool unsettled;      /* the -wal has changes of settled entries */
	/* the loop's */
	uv_async_t async;
	uv_idle_t idle;
	unsigned handles; /* of those two, not closed */
	uint64_t event_next;
	size_t pending, bytes;
	struct db_write_list submitted, refused, notifying;
	bool loaded, closing;
	uv_thread_t writer;
	uv_mutex_t lock;
	uv_cond_t wake;
	/* with the lock */
	struct db_write_list queue, completed;
	struct db_stats stats;
	bool stopping;
};

/* The writer. */

static int db_stmt_run(struct db *db, enum db_stmt stmt)
{
	int rc = sqlite3_step(db->stmts[stmt]), reset = sqlite3_reset(db->stmts[stmt]);

	return rc == SQLITE_DONE || rc == SQLITE_ROW ? reset : rc;
}

/* The last row of a sandbox is much shorter than those before it.  An update would leave it alone
 * in its page; a row that is deleted and inserted shares one with others. */
static int db_sandbox_put_execute(struct db *db, const struct db_sandbox *row)
{
	sqlite3_stmt *drop = db->stmts[STMT_SANDBOX_DROP];
	int rc = SQLITE_OK;

	if (life_is_finished(&row->life)) {
		rc = db_bind_id(drop, 0, &row->life.id);
		if (rc == SQLITE_OK)
			rc = db_stmt_run(db, STMT_SANDBOX_DROP);
		(void)sqlite3_clear_bindings(drop);
	}
	return rc == SQLITE_OK ? db_sandbox_bind(db->stmts[STMT_SANDBOX_PUT], row) : rc;
}

static bool db_write_is_settled(const struct db_write *exec)
{
	for (size_t i = 0; i < DB_ENTRY_KINDS; i++)
		if (db_entry_kinds[i].settled &&
		    (exec->kind == db_entry_kinds[i].put || exec->kind == db_entry_kinds[i].drop))
			return true;
	return false;
}

static bool db_batch_is_settled(const struct db_write_list *batch)
{
	for (const struct db_write *exec = batch->first; exec; exec = exec->next)
		if (db_write_is_settled(exec))
			return true;
	return false;
}

static bool db_batch_writes(const struct db_write_list *batch)
{
	for (const struct db_write *exec = batch->first; exec; exec = exec->next)
		if (exec->kind != STMT_BARRIER)
			return true;
	return false;
}

/* The batch is durable: the mark may follow. */
static void db_mark_follow(struct db *db, const struct db_write_list *batch)
{
	for (const struct db_write *exec = batch->first; exec; exec = exec->next)
		if (exec->kind == STMT_EVENT && exec->event.seq > db->past.events)
			db->past.events = exec->event.seq;
	db->past.changes += db_batch_writes(batch);
	if (db_batch_is_settled(batch))
		db->unsettled = true;
	db_mark_write(db->mark, &db->past, false);
}

static int db_write_execute(struct db *db, const struct db_write *exec)
{
	sqlite3_stmt *s = db->stmts[exec->kind];
	int rc = SQLITE_MISUSE;

	if (exec->kind == STMT_SANDBOX_PUT)
		rc = db_sandbox_put_execute(db, &exec->row);
	else if (exec->kind == STMT_SANDBOX_DROP)
		rc = db_bind_id(s, 0, &exec->id);
	else if (exec->kind == STMT_EVENT)
		rc = db_event_bind(s, &exec->event);
	else if (exec->kind == STMT_EVENT_DROP)
		rc = db_bind_u64(s, 0, exec->number);
	else if (exec->kind == STMT_BARRIER)
		rc = SQLITE_OK;
	for (size_t i = 0; i < DB_ENTRY_KINDS; i++)
		if (exec->kind == db_entry_kinds[i].put)
			rc = db_entry_bind(s, &exec->entry);
		else if (exec->kind == db_entry_kinds[i].drop)
			rc = db_bind_id(s, 0, &exec->id);
	if (rc == SQLITE_OK)
		rc = db_stmt_run(db, exec->kind);
	(void)sqlite3_clear_bindings(s);
	return rc;
}

/* One transaction, all or nothing; SQLite's result.  Its own I/O errors are extended
 * codes, a bare SQLITE_IOERR is a failpoint's. */
static int db_write_transaction(struct db *db, const struct db_write_list *batch)
{
	int rc = failpoint_hit(FAULT_JOURNAL_QUEUED) < 0 ? SQLITE_IOERR
							 : db_stmt_run(db, STMT_BEGIN);

	if (rc == SQLITE_OK && failpoint_hit(FAULT_JOURNAL_BEGUN) < 0)
		rc = SQLITE_IOERR;
	for (const struct db_write *exec = batch->first; exec && rc == SQLITE_OK; exec = exec->next)
		rc = db_write_execute(db, exec);
	if (rc == SQLITE_OK && db_batch_writes(batch))
		rc = db_stmt_run(db, STMT_PAST);
	if (rc == SQLITE_OK && failpoint_hit(FAULT_JOURNAL_WRITTEN) < 0)
		rc = SQLITE_IOERR;
	if (rc == SQLITE_OK)
		rc = db_stmt_run(db, STMT_COMMIT);
	if (rc == SQLITE_OK && failpoint_hit(FAULT_JOURNAL_COMMITTED) < 0)
		rc = SQLITE_IOERR;
	return rc;
}

static bool db_wal_checkpoint(struct db *db)
{
	if (sqlite3_wal_checkpoint_v2(db->sql, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL) !=
	    SQLITE_OK)
		return false;
	db->wal_pages = 0;
	db->unsettled = false;
	db->past.filed = db->past.changes; /* SQLite has synced the file */
	db_mark_write(db->mark, &db->past, true);
	uv_mutex_lock(&db->lock);
	db->stats.checkpoints++;
	uv_mutex_unlock(&db->lock);
	return true;
}

static int db_try_transaction(struct db *db, const struct db_write_list *batch, int *ret_sys)
{
	int rc = db_write_transaction(db, batch);

	if (rc == SQLITE_IOERR)
		*ret_sys = EIO;
	else
		*ret_sys = (rc & 0xff) == SQLITE_IOERR ? sqlite3_system_errno(db->sql) : 0;
	if (!sqlite3_get_autocommit(db->sql))
		(void)db_stmt_run(db, STMT_ROLLBACK);
	return rc;
}

static void db_writer_write_batch(struct db *db, struct db_write_list *batch)
{
	int sys, rc = db_try_transaction(db, batch, &sys);
	uint64_t n = 0;

	/* after a checkpoint the WAL has free space of its own */
	if (db_error_code(rc, sys) == CAY_E_DISK_FULL && db_wal_checkpoint(db))
		rc = db_try_transaction(db, batch, &sys);
	for (struct db_write *exec = batch->first; exec; exec = exec->next, n++) {
		exec->code = db_error_code(rc, sys);
		exec->sys = sys;
		exec->why = sqlite3_errstr(rc);
	}
	if (rc == SQLITE_OK)
		db_mark_follow(db, batch);
	uv_mutex_lock(&db->lock);
	*(rc == SQLITE_OK ? &db->stats.writes : &db->stats.failed) += n;
	db->stats.transactions += rc == SQLITE_OK;
	db_write_list_move(&db->completed, batch);
	uv_mutex_unlock(&db->lock);
	(void)uv_async_send(&db->async);
}

/* False when it is time to stop.  A checkpoint delays only writes that arrive while it runs. */
static bool db_writer_next_batch(struct db *db, struct db_write_list *ret)
{
	bool idle, go_on;

	uv_mutex_lock(&db->lock);
	idle = !db->queue.first;
	uv_mutex_unlock(&db->lock);
	if (db->wal_pages > WAL_MAX || (idle && (db->wal_pages > WAL_IDLE || db->unsettled)))
		(void)db_wal_checkpoint(db); /* the next one does it */
	uv_mutex_lock(&db->lock);
	while (!db->queue.first && !db->stopping)
		uv_cond_wait(&db->wake, &db->lock);
	/* an event stays in the transaction of the row before it */
	for (size_t n = 0;
	     db->queue.first && (n < BATCH_MAX || db->queue.first->kind == STMT_EVENT); n++)
		db_write_list_append(ret, db_write_list_pop(&db->queue));
	go_on = ret->first;
	uv_mutex_unlock(&db->lock);
	return go_on;
}

static void db_writer_main(void *arg)
{
	struct db *db = arg;
	struct db_write_list batch;

	db_write_list_init(&batch);
	while (db_writer_next_batch(db, &batch))
		db_writer_write_batch(db, &batch);
}

static int on_db_commit(void *arg, sqlite3 *, const char *, int pages)
{
	struct db *db = arg;

	db->wal_pages = pages;
	return SQLITE_OK;
}

/* The loop. */

static void db_write_notify(struct db *db, struct db_write *exec)
{
	struct cay_err outcome = {};

	if (exec->code != CAY_OK && exec->sys)
		(void)cay_fail_sys(&outcome, exec->code, exec->sys, "journal: %s", exec->why);
	else if (exec->code != CAY_OK)
		(void)cay_fail(&outcome, exec->code, "journal: %s", exec->why);
	db->pending--;
	db->bytes -= exec->bytes;
	if (exec->fn)
		exec->fn(exec->arg, &outcome);
	free(exec);
}

/* A callback may close the journal: then this one finds nothing more to do. */
static void db_notify_waiters(struct db *db)
{
	struct db_write *exec;

	uv_mutex_lock(&db->lock);
	db_write_list_move(&db->notifying, &db->completed);
	uv_mutex_unlock(&db->lock);
	db_write_list_move(&db->notifying, &db->refused);
	while ((exec = db_write_list_pop(&db->notifying)))
		db_write_notify(db, exec);
	if (!db->pending)
		uv_unref((uv_handle_t *)&db->async);
}

static void on_db_async(uv_async_t *async)
{
	db_notify_waiters(async->data);
}

static void db_write_refuse(struct db *db, struct db_write *exec, enum cay_code code,
			    const char *why)
{
	exec->code = code;
	exec->why = why;
	uv_mutex_lock(&db->lock);
	db->stats.failed++;
	uv_mutex_unlock(&db->lock);
	db_write_list_append(&db->refused, exec);
	(void)uv_async_send(&db->async);
}

static struct db_write *db_write_new(struct db *db, enum db_stmt kind, db_fn *fn, void *arg,
				     size_t text)
{
	struct db_write *exec = calloc(1, sizeof(*exec) + text);

	assert(db->loaded);
	if (!exec)
		return NULL;
	exec->kind = kind;
	exec->fn = fn;
	exec->arg = arg;
	exec->bytes = sizeof(*exec) + text;
	uv_ref((uv_handle_t *)&db->async);
	db->pending++;
	db->bytes += exec->bytes;
	return exec;
}

/* All writes of one loop iteration go to the writer together: a sandbox's row and its event
 * are one transaction.  While an idle handle is active the loop does not block, so a write
 * from any phase of the iteration is submitted. */
static void db_submit_to_writer(struct db *db)
{
	uv_mutex_lock(&db->lock);
	db_write_list_move(&db->queue, &db->submitted);
	uv_cond_signal(&db->wake);
	uv_mutex_unlock(&db->lock);
}

static void on_db_idle(uv_idle_t *idle)
{
	(void)uv_idle_stop(idle);
	db_submit_to_writer(idle->data);
}

static void db_write_enqueue(struct db *db, struct db_write *exec)
{
	if (db->closing) {
		db_write_refuse(db, exec, CAY_E_UNAVAILABLE, "it is being closed");
		return;
	}
	if (db->pending > DB_PENDING_MAX || db->bytes > DB_PENDING_BYTES) {
		db_write_refuse(db, exec, CAY_E_CAPACITY,
				"too many writes are waiting for the disk");
		return;
	}
	if (!db->submitted.first)
		(void)uv_idle_start(&db->idle, on_db_idle);
	db_write_list_append(&db->submitted, exec);
}

/* A job with a copy of the text, or without one and refused. */
static struct db_write *db_write_new_with_text(struct db *db, enum db_stmt kind, struct slice text,
					       const char *fault, db_fn *fn, void *arg)
{
	struct db_write *exec = db_write_new(db, kind, fn, arg, fault ? 0 : text.n);

	if (exec && !fault) {
		if (text.n)
			memcpy(exec->text, text.p, text.n);
		return exec;
	}
	if (!exec)
		exec = db_write_new(db, kind, fn, arg, 0);
	if (!exec)
		abort(); /* no memory even to report it: restart */
	db_write_refuse(db, exec, fault ? CAY_E_INVALID : CAY_E_NO_MEMORY,
			fault ? fault : "out of memory");
	return NULL;
}

void db_sandbox_put(struct db *db, const struct db_sandbox *row, db_fn *fn, void *arg)
{
	struct db_write *exec = db_write_new_with_text(db, STMT_SANDBOX_PUT, row->text,
						       db_sandbox_invalid_reason(row), fn, arg);

	if (!exec)
		return;
	exec->row = *row;
	exec->row.text.p = exec->text;
	db_write_enqueue(db, exec);
}

void db_event_append(struct db *db, const struct db_event *event, db_fn *fn, void *arg)
{
	const char *fault =
		event->seq < db->event_next ? db_event_invalid_reason(event) : "seq is not given";
	struct db_write *exec = db_write_new_with_text(db, STMT_EVENT, event->text, fault, fn, arg);

	if (!exec)
		return;
	exec->event = *event;
	exec->event.text.p = exec->text;
	db_write_enqueue(db, exec);
}

void db_barrier(struct db *db, db_fn *fn, void *arg)
{
	struct db_write *exec =
		db_write_new_with_text(db, STMT_BARRIER, (struct slice){}, NULL, fn, arg);

	if (exec)
		db_write_enqueue(db, exec);
}

void db_entry_put(struct db *db, const struct db_entry *entry, db_fn *fn, void *arg)
{
	enum db_stmt kind = db_entry_kind_find(entry->id.noun)->put;
	struct db_write *exec = db_write_new_with_text(db, kind, entry->text,
						       db_entry_invalid_reason(entry), fn, arg);

	if (!exec)
		return;
	exec->entry = *entry;
	exec->entry.text.p = exec->text;
	db_write_enqueue(db, exec);
}

static void db_row_delete(struct db *db, enum db_stmt kind, const struct id *id, db_fn *fn,
			  void *arg)
{
	struct db_write *exec = db_write_new_with_text(db, kind, (struct slice){}, NULL, fn, arg);

	if (!exec)
		return;
	exec->id = *id;
	db_write_enqueue(db, exec);
}

void db_entry_delete(struct db *db, const struct id *id, db_fn *fn, void *arg)
{
	db_row_delete(db, db_entry_kind_find(id->noun)->drop, id, fn, arg);
}

void db_sandbox_delete(struct db *db, const struct id *sandbox, db_fn *fn, void *arg)
{
	db_row_delete(db, STMT_SANDBOX_DROP, sandbox, fn, arg);
}

uint64_t db_event_next_seq(struct db *db)
{
	return db->event_next++;
}

void db_event_delete(struct db *db, uint64_t seq)
{
	struct db_write *exec =
		db_write_new_with_text(db, STMT_EVENT_DROP, (struct slice){}, NULL, NULL, NULL);

	if (!exec)
		return;
	exec->number = seq;
	db_write_enqueue(db, exec);
}

struct db_stats db_get_stats(struct db *db)
{
	struct db_stats stats;

	uv_mutex_lock(&db->lock);
	stats = db->stats;
	uv_mutex_unlock(&db->lock);
	stats.pending = db->pending;
	return stats;
}

/* Open and close. */

static int db_stmts_prepare(struct db *db, struct cay_err *err)
{
	const char *texts[STMT_NUM] = {
		[STMT_BEGIN] = "BEGIN IMMEDIATE",
		[STMT_COMMIT] = "COMMIT",
		[STMT_ROLLBACK] = "ROLLBACK",
		[STMT_SANDBOX_PUT] = db_sandbox_put_sql,
		[STMT_SANDBOX_DROP] = "DELETE FROM sandbox WHERE id = ?",
		[STMT_EVENT] = db_event_sql,
		[STMT_EVENT_DROP] = "DELETE FROM event WHERE seq = ?",
		[STMT_BARRIER] = "SELECT 1",
		[STMT_PAST] = "UPDATE past SET entries = entries + 1",
	};

	for (size_t i = 0; i < DB_ENTRY_KINDS; i++) {
		texts[db_entry_kinds[i].put] = db_entry_kinds[i].put_sql;
		texts[db_entry_kinds[i].drop] = db_entry_kinds[i].drop_sql;
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

/* Everything but the handle, which belongs to the loop until it is closed. */
static void db_fini(struct db *db)
{
	for (unsigned i = 0; i < STMT_NUM; i++)
		(void)sqlite3_finalize(db->stmts[i]);
	(void)sqlite3_close(db->sql);
	cay_closep(&db->mark);
	uv_cond_destroy(&db->wake);
	uv_mutex_destroy(&db->lock);
}

static struct db *db_new(void)
{
	struct db *db = calloc(1, sizeof(*db));

	if (!db)
		return NULL;
	db->mark = -EBADF;
	db_write_list_init(&db->submitted);
	db_write_list_init(&db->refused);
	db_write_list_init(&db->notifying);
	db_write_list_init(&db->queue);
	db_write_list_init(&db->completed);
	if (uv_mutex_init(&db->lock) == 0) {
		if (uv_cond_init(&db->wake) == 0)
			return db;
		uv_mutex_destroy(&db->lock);
	}
	free(db);
	return NULL;
}

int db_open(int dirfd, bool had_past, uv_loop_t *loop, struct db **ret, struct cay_err *err)
{
	struct db *db = db_new();
	int r;

	if (!db)
		return cay_no_memory(err);
	r = db_schema_open(dirfd, had_past, &db->sql, &db->past, err);
	if (r >= 0)
		r = db_stmts_prepare(db, err);
	if (r >= 0 && db->past.events == DB_NUMBER_MAX)
		r = cay_fail(err, CAY_E_INTERNAL,
			     DB_NAME ": the number of the last event is the last there is");
	if (r >= 0)
		r = db_mark_open(dirfd, &db->past, &db->mark, err);
	if (r >= 0 && uv_async_init(loop, &db->async, on_db_async) < 0)
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
	db->event_next = db->past.events + 1; /* past every number that was ever durable */
	db->async.data = db->idle.data = db;
	uv_unref((uv_handle_t *)&db->async);
	uv_unref((uv_handle_t *)&db->idle);
	(void)sqlite3_wal_hook(db->sql, on_db_commit, db);
	*ret = db;
	return 0;
}

/* Signals belong to the loop thread: a new thread inherits its creator's signal mask. */
static int db_writer_start(struct db *db, struct cay_err *err)
{
	sigset_t all, before;
	int r;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = uv_thread_create(&db->writer, db_writer_main, db);
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
	r = db_entries_load(db->sql, to, err);
	if (r >= 0)
		r = db_sandboxes_load(db->sql, to, err);
	if (r >= 0)
		r = db_events_load(db->sql, to, err);
	return r < 0 ? r : db_writer_start(db, err);
}

static void on_db_handle_closed(uv_handle_t *handle)
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
		db_submit_to_writer(db);
		uv_mutex_lock(&db->lock);
		db->stopping = true;
		uv_cond_signal(&db->wake);
		uv_mutex_unlock(&db->lock);
		(void)uv_thread_join(&db->writer);
	}
	do
		db_notify_waiters(db);
	while (db->pending);
	db_fini(db);
	uv_close((uv_handle_t *)&db->async, on_db_handle_closed);
	uv_close((uv_handle_t *)&db->idle, on_db_handle_closed);
}
