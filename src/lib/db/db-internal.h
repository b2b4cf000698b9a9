/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_DB_DB_INTERNAL_H
#define CAY_DB_DB_INTERNAL_H
/* db-internal - the parts of the journal
 *
 *	schema.c    the file: open, check, migrate
 *	mark.c      how far it had come, in a file beside it
 *	row.c       structs to columns and back, everything checked
 *	write-queue.h       submitted writes
 *	db.c        the queue and its writer
 */
#include <sqlite3.h>

#include "db/db.h"

/* "Cayj", in the file header. */
#define DB_APPLICATION_ID 0x4361796a

/* Where a journal is.  All but its own number only grow. */
struct db_past {
	uint64_t events;  /* number of the last event */
	uint64_t changes; /* transactions */
	uint64_t filed;   /* those of them that are in the file without its -wal, at least */
	uint64_t journal; /* random, given when the journal is created; 0: not known */
};

/* A step from one version to the next; ended by NULL.  Only ever appended to. */
extern const char *const db_schema[];

enum db_stmt {
	STMT_BEGIN,
	STMT_COMMIT,
	STMT_ROLLBACK,
	STMT_SANDBOX_PUT,
	STMT_SANDBOX_DROP,
	STMT_EVENT,
	STMT_EVENT_DROP,
	STMT_BARRIER,
	STMT_TENANT_PUT,
	STMT_TENANT_DROP,
	STMT_KEY_PUT,
	STMT_KEY_DROP,
	STMT_TEMPLATE_PUT,
	STMT_TEMPLATE_DROP,
	STMT_KEPT_KEY_PUT,
	STMT_KEPT_KEY_DROP,
	STMT_SNAPSHOT_PUT,
	STMT_SNAPSHOT_DROP,
	STMT_VOLUME_PUT,
	STMT_VOLUME_DROP,
	STMT_PAST,
	STMT_NUM
};

/* Open, check and migrate DB_NAME; on success the connection is the caller's.  Closing it
 * leaves the -wal in place unless configured otherwise. */
[[nodiscard]] int db_schema_open(int dirfd, bool had_past, sqlite3 **ret, struct db_past *ret_past,
				 struct cay_err *err);
/* False, and zeros: there is none, or it cannot be read. */
bool db_mark_read(int dirfd, struct db_past *ret);
/* Transactions that it once had are missing. */
bool db_past_is_behind(const struct db_past *past, const struct db_past *mark);
/* It is another journal than the one beside the mark was. */
bool db_past_is_foreign(const struct db_past *past, const struct db_past *mark);
/* Its file is older than what its -wal continues. */
bool db_past_is_mixed(const struct db_past *past, const struct db_past *mark);
/* A mark that is at most `past`.  Its fd is negative if there is none; only an existing mark that
 * cannot be replaced is a failure. */
[[nodiscard]] int db_mark_open(int dirfd, const struct db_past *past, int *ret,
			       struct cay_err *err);
void db_mark_write(int fd, const struct db_past *past, bool sync);
/* SQLite's result as ours. */
enum cay_code db_error_code(int rc, int sys);

/* NULL if it can be written and read back, else the reason. */
const char *db_sandbox_invalid_reason(const struct db_sandbox *row);
const char *db_event_invalid_reason(const struct db_event *event);
const char *db_entry_invalid_reason(const struct db_entry *entry);
/* SQLite's result code. */
int db_sandbox_bind(sqlite3_stmt *s, const struct db_sandbox *row);
int db_event_bind(sqlite3_stmt *s, const struct db_event *event);
int db_entry_bind(sqlite3_stmt *s, const struct db_entry *entry);
int db_bind_id(sqlite3_stmt *s, int column, const struct id *id);
int db_bind_u64(sqlite3_stmt *s, int column, uint64_t v);
[[nodiscard]] int db_sandboxes_load(sqlite3 *sql, const struct db_reader *to, struct cay_err *err);
[[nodiscard]] int db_entries_load(sqlite3 *sql, const struct db_reader *to, struct cay_err *err);
[[nodiscard]] int db_events_load(sqlite3 *sql, const struct db_reader *to, struct cay_err *err);
extern const char *const db_sandbox_put_sql, *const db_event_sql;
/* Nouns stored as an id and a text, one table each. */
#define DB_ENTRY_KINDS 6
struct db_entry_kind {
	enum id_noun noun;
	enum db_stmt put, drop;
	bool settled; /* rare and precious: counted, and moved from the -wal into the file soon */
	const char *name, *put_sql, *drop_sql, *all_sql;
};
extern const struct db_entry_kind db_entry_kinds[DB_ENTRY_KINDS];
/* The row of a noun; the first if it has none, which db_entry_invalid_reason() reports. */
const struct db_entry_kind *db_entry_kind_find(enum id_noun noun);
#endif
