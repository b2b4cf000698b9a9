/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "db/db-internal.h"
#include "text/percent.h"

/* Words, not enum numbers, NULL for LIFE_NEVER: numbers may change, and a person can read it. */
const char *const db_schema[] = {
	"CREATE TABLE sandbox ("
	" id TEXT NOT NULL PRIMARY KEY, seq INTEGER NOT NULL, boot TEXT NOT NULL,"
	" generation INTEGER NOT NULL, born_ns INTEGER NOT NULL, expires_ns INTEGER,"
	" ceiling_ns INTEGER, idle_ns INTEGER, active_ns INTEGER NOT NULL,"
	" started_ns INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL,"
	" failed INTEGER NOT NULL, entry INTEGER NOT NULL, on_exit TEXT NOT NULL,"
	" text TEXT NOT NULL) STRICT",
	/* AUTOINCREMENT: a number is not given again when its event is forgotten */
	"CREATE TABLE event ("
	" seq INTEGER PRIMARY KEY AUTOINCREMENT, wall_ns INTEGER NOT NULL,"
	" sandbox TEXT NOT NULL, text TEXT NOT NULL) STRICT",
	"CREATE TABLE tenant (id TEXT NOT NULL PRIMARY KEY, text TEXT NOT NULL) STRICT;"
	"CREATE TABLE api_key (id TEXT NOT NULL PRIMARY KEY, text TEXT NOT NULL) STRICT",
	"CREATE TABLE template (id TEXT NOT NULL PRIMARY KEY, text TEXT NOT NULL) STRICT",
	"ALTER TABLE sandbox ADD COLUMN warm INTEGER NOT NULL DEFAULT 0",
	"CREATE TABLE kept_key (id TEXT NOT NULL PRIMARY KEY, text TEXT NOT NULL) STRICT;"
	"CREATE TABLE past (entries INTEGER NOT NULL) STRICT; INSERT INTO past VALUES (0)",
	"CREATE TABLE snapshot (id TEXT NOT NULL PRIMARY KEY, text TEXT NOT NULL) STRICT",
	"ALTER TABLE past ADD COLUMN journal INTEGER NOT NULL DEFAULT 0;"
	"UPDATE past SET journal = random() & 9223372036854775807",
	"CREATE TABLE volume (id TEXT NOT NULL PRIMARY KEY, text TEXT NOT NULL) STRICT",
	NULL,
};

#define SYNCHRONOUS_FULL 2 /* as SQLite numbers it */
#define VERSION_EVENTS 2   /* has the table of events */
#define VERSION_PAST 6     /* has the table `past` */
#define VERSION_JOURNAL 8  /* has a number in it */
#define VERSION_NOW ((int)ARRAY_SIZE(db_schema) - 1)

enum cay_code db_error_code(int rc, int sys)
{
	if (rc == SQLITE_OK || rc == SQLITE_DONE || rc == SQLITE_ROW)
		return CAY_OK;
	if ((rc & 0xff) == SQLITE_FULL)
		return CAY_E_DISK_FULL;
	if ((rc & 0xff) == SQLITE_NOMEM)
		return CAY_E_NO_MEMORY;
	if ((rc & 0xff) == SQLITE_BUSY)
		return CAY_E_CONFLICT;
	return (rc & 0xff) == SQLITE_READONLY ? CAY_E_CAPACITY : cay_code_from_disk_errno(sys);
}

static int db_schema_fail(sqlite3 *sql, int rc, struct cay_err *err)
{
	int sys = sqlite3_system_errno(sql);
	enum cay_code code = db_error_code(rc, sys);

	if (code == CAY_E_CONFLICT)
		return cay_fail(err, code,
				DB_NAME " is open in another process; stop the other cayd");
	if ((rc & 0xff) == SQLITE_NOTADB || (rc & 0xff) == SQLITE_CORRUPT ||
	    (rc & 0xff) == SQLITE_ERROR)
		return cay_fail(err, CAY_E_INTERNAL,
				DB_NAME " is damaged (%s); put back a copy of db/, or move it away "
					"with its -wal and run 'cay fsck --end-foreign'",
				sqlite3_errmsg(sql));
	return (rc & 0xff) == SQLITE_IOERR && sys
		       ? cay_fail_sys(err, code, sys, DB_NAME ": %s", sqlite3_errmsg(sql))
		       : cay_fail(err, code, DB_NAME ": %s", sqlite3_errmsg(sql));
}

static int db_schema_exec(sqlite3 *sql, const char *text, struct cay_err *err)
{
	int rc = sqlite3_exec(sql, text, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : db_schema_fail(sql, rc, err);
}

/* The first column of the first row. */
static int db_schema_query_text(sqlite3 *sql, const char *text, struct buf *ret,
				struct cay_err *err)
{
	sqlite3_stmt *s = NULL;
	int rc = sqlite3_prepare_v2(sql, text, -1, &s, NULL), r = 0;

	if (rc == SQLITE_OK)
		rc = sqlite3_step(s);
	buf_clear(ret);
	if (rc == SQLITE_ROW) {
		const unsigned char *answer = sqlite3_column_text(s, 0);

		r = buf_printf(ret, "%.*s", 128, answer ? (const char *)answer : "");
	}
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		r = db_schema_fail(sql, rc, err);
	(void)sqlite3_finalize(s);
	return r;
}

static int db_schema_query_number(sqlite3 *sql, const char *text, uint64_t *ret,
				  struct cay_err *err)
{
	auto_buf b = BUF_INIT(256);
	int r = db_schema_query_text(sql, text, &b, err);

	if (r >= 0 && str_parse_u64((struct slice){ b.data, b.len }, 0, DB_NUMBER_MAX, ret) < 0)
		r = cay_fail(err, CAY_E_INTERNAL, DB_NAME ": %s says '%s'", text, buf_str(&b));
	return r;
}

/* Check application id and version before anything is written to the file. */
static int db_schema_identify(sqlite3 *sql, uint64_t *ret_version, struct cay_err *err)
{
	auto_buf b = BUF_INIT(256);
	uint64_t id = 0, objects = 0;
	int r = db_schema_query_number(sql, "PRAGMA application_id", &id, err);

	if (r >= 0)
		r = db_schema_query_number(sql, "PRAGMA user_version", ret_version, err);
	if (r >= 0)
		r = db_schema_query_number(sql, "SELECT count(*) FROM sqlite_schema", &objects,
					   err);
	if (r < 0)
		return r;
	if (id != DB_APPLICATION_ID && (id || *ret_version || objects))
		return cay_fail(err, CAY_E_INTERNAL, DB_NAME " is another program's; move it away");
	if (*ret_version > VERSION_NOW)
		return cay_fail(err, CAY_E_INCOMPATIBLE,
				DB_NAME " is of version %ju, this program knows %d; "
					"start the newer program, or put back the copy made before",
				(uintmax_t)*ret_version, VERSION_NOW);
	r = db_schema_query_text(sql, "PRAGMA integrity_check(1)", &b, err);
	if (r >= 0 && !str_eq(buf_str(&b), "ok"))
		r = cay_fail(err, CAY_E_INTERNAL,
			     DB_NAME " is damaged (%s); put back a copy of db/, or move it away "
				     "with its -wal and run 'cay fsck --end-foreign'",
			     buf_str(&b));
	return r;
}

static int db_schema_fail_lost(const struct db_past *past, const struct db_past *mark,
			       struct cay_err *err)
{
	auto_buf why = BUF_INIT(256);

	if (db_past_is_behind(past, mark) || !past->journal)
		(void)buf_printf(&why,
				 "it has %ju events and %ju changes, and once had %ju and %ju",
				 (uintmax_t)past->events, (uintmax_t)past->changes,
				 (uintmax_t)mark->events, (uintmax_t)mark->changes);
	else if (db_past_is_foreign(past, mark))
		(void)buf_puts(&why, DB_NAME " or its -wal is of another node");
	else
		(void)buf_puts(&why, DB_NAME " is an older copy than the one its -wal continues");
	(void)cay_fail(err, CAY_E_UNAVAILABLE,
		       "the journal lost its past: %s; put back a copy of db/, all its files, or "
		       "accept the loss with 'cay fsck --end-foreign'",
		       buf_str(&why));
	return -ESTALE;
}

/* What the caller and the mark know, to be compared with the file before it is written. */
struct db_expected {
	struct db_past mark;
	uint64_t filed; /* of the file without its -wal */
	bool had_past, accepted;
};

static int db_schema_read_past(sqlite3 *sql, uint64_t version, struct db_past *ret,
			       struct cay_err *err)
{
	int r = 0;

	if (version >= VERSION_EVENTS)
		r = db_schema_query_number(
			sql,
			"SELECT max((SELECT ifnull(max(seq), 0) FROM event),"
			" (SELECT ifnull(max(seq), 0) FROM sqlite_sequence WHERE name = 'event'))",
			&ret->events, err);
	if (r >= 0 && version >= VERSION_PAST)
		r = db_schema_query_number(sql, "SELECT ifnull(max(entries), 0) FROM past",
					   &ret->changes, err);
	if (r >= 0 && version >= VERSION_JOURNAL)
		r = db_schema_query_number(sql, "SELECT ifnull(max(journal), 0) FROM past",
					   &ret->journal, err);
	return r;
}

static int db_schema_check_past(sqlite3 *sql, uint64_t version, const struct db_expected *expected,
				struct cay_err *err)
{
	struct db_past past = { .filed = expected->filed };
	int r = db_schema_read_past(sql, version, &past, err);

	if (r < 0 || expected->accepted)
		return r;
	return db_past_is_behind(&past, &expected->mark) ||
			       db_past_is_foreign(&past, &expected->mark) ||
			       db_past_is_mixed(&past, &expected->mark) ||
			       (!version && expected->had_past)
		       ? db_schema_fail_lost(&past, &expected->mark, err)
		       : 0;
}

static int db_schema_migrate(sqlite3 *sql, uint64_t version, struct cay_err *err)
{
	for (; db_schema[version]; version++) {
		auto_buf b = BUF_INIT(KIB(16));
		int r = buf_printf(&b,
				   "BEGIN IMMEDIATE; %s; PRAGMA application_id = %d; "
				   "PRAGMA user_version = %d; COMMIT",
				   db_schema[version], DB_APPLICATION_ID, (int)version + 1);

		if (r >= 0)
			r = db_schema_exec(sql, buf_str(&b), err);
		if (r < 0)
			return cay_err_wrap(err, r, "version %ju to %ju", (uintmax_t)version,
					    (uintmax_t)version + 1);
	}
	return 0;
}

/* EXCLUSIVE comes before the first read: then no shared memory can be truncated under us,
 * and no other process can checkpoint at the same time. */
static int db_schema_set_up(sqlite3 *sql, const struct db_expected *expected,
			    struct db_past *ret_past, struct cay_err *err)
{
	static const char lock[] = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA mmap_size = 0;"
				   "PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY;"
				   "PRAGMA wal_autocheckpoint = 0; PRAGMA synchronous = FULL;"
				   "PRAGMA journal_size_limit = 16777216";
	auto_buf b = BUF_INIT(256);
	uint64_t version = 0, synchronous = 0;
	int r = db_schema_exec(sql, lock, err);

	if (r >= 0)
		r = db_schema_identify(sql, &version, err);
	if (r >= 0)
		r = db_schema_check_past(sql, version, expected, err);
	if (r >= 0)
		r = db_schema_query_text(sql, "PRAGMA journal_mode = WAL", &b, err);
	if (r >= 0 && !str_eq(buf_str(&b), "wal"))
		r = cay_fail(err, CAY_E_INTERNAL, DB_NAME ": no WAL here, only '%s'", buf_str(&b));
	if (r >= 0)
		r = db_schema_query_number(sql, "PRAGMA synchronous", &synchronous, err);
	if (r >= 0 && synchronous != SYNCHRONOUS_FULL)
		r = cay_fail(err, CAY_E_INTERNAL, DB_NAME ": SQLite does not sync as configured");
	if (r >= 0)
		r = db_schema_migrate(sql, version, err);
	*ret_past = (struct db_past){ .filed = expected->filed };
	return r < 0 ? r : db_schema_read_past(sql, VERSION_NOW, ret_past, err);
}

/* A hostile schema must not run code, and a refused file must not get its -wal written into it. */
static int db_schema_harden(sqlite3 *sql)
{
	static const struct {
		int option, value;
	} options[] = {
		{ SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1 }, { SQLITE_DBCONFIG_DEFENSIVE, 1 },
		{ SQLITE_DBCONFIG_ENABLE_TRIGGER, 0 },   { SQLITE_DBCONFIG_ENABLE_VIEW, 0 },
		{ SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },   { SQLITE_DBCONFIG_DQS_DDL, 0 },
		{ SQLITE_DBCONFIG_DQS_DML, 0 },
	};
	int rc = SQLITE_OK;

	for (size_t i = 0; i < ARRAY_SIZE(options) && rc == SQLITE_OK; i++)
		rc = sqlite3_db_config(sql, options[i].option, options[i].value, NULL);
	return rc;
}

/* Create the file with mode 0600.  An existing one is not opened, because closing it again
 * would drop the locks this process has on it. */
static int db_file_create(int dirfd, struct cay_err *err)
{
	auto_close int fd = -EBADF;
	struct stat st;

	if (fstatat(dirfd, DB_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return S_ISREG(st.st_mode)
			       ? 0
			       : cay_fail(err, CAY_E_INTERNAL, DB_NAME " is not a file");
	fd = path_open(dirfd, DB_NAME, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0)
		return cay_fail_sys(err, cay_code_from_disk_errno(fd), -fd, "make " DB_NAME);
	return fsync(dirfd) == 0
		       ? 0
		       : cay_fail_sys(err, CAY_E_INTERNAL, errno, "sync the directory of " DB_NAME);
}

/* SQLite needs a name.  The kernel's name of the directory has no links in it, so any link
 * SQLite meets was planted. */
static int db_file_find_path(int dirfd, struct buf *ret, struct cay_err *err)
{
	char link[64], dir[PATH_MAX];
	int r = db_file_create(dirfd, err);
	ssize_t n;

	if (r < 0)
		return r;
	if (snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd) >= (int)sizeof(link))
		return -EINVAL;
	n = readlink(link, dir, sizeof(dir));
	if (n < 0 || n >= (ssize_t)sizeof(dir) || buf_printf(ret, "%.*s/" DB_NAME, (int)n, dir) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, n < 0 ? errno : ENAMETOOLONG,
				    "name the directory of " DB_NAME);
	return 0;
}

/* SQLite deletes the -wal of an empty file: it is not even opened, if there was a past. */
static bool db_file_is_lost(int dirfd, const struct db_expected *expected)
{
	static const struct db_past none;
	struct stat st = {};

	return (fstatat(dirfd, DB_NAME, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		(S_ISREG(st.st_mode) && !st.st_size)) &&
	       !expected->accepted &&
	       (expected->had_past || db_past_is_behind(&none, &expected->mark));
}

/* How many changes the file has without its -wal, which SQLite takes for the file's whatever it
 * is.  A crash in a checkpoint can leave a file that cannot be read without its -wal: then it is
 * what the mark says. */
static uint64_t db_file_read_filed(const char *path, uint64_t unknown)
{
	auto_buf uri = BUF_INIT(KIB(16));
	char encoded[3 * PATH_MAX];
	size_t n = percent_encode(path, strlen(path), encoded);
	sqlite3 *sql = NULL;
	sqlite3_stmt *s = NULL;
	uint64_t filed = unknown;
	int rc;

	if (buf_printf(&uri, "file:%.*s?immutable=1", (int)n, encoded) < 0)
		return unknown;
	rc = sqlite3_open_v2(buf_str(&uri), &sql,
			     SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(sql, "SELECT entries FROM past", -1, &s, NULL);
	if (rc == SQLITE_ERROR) /* of a version without that table */
		filed = 0;
	if (rc == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW && sqlite3_column_int64(s, 0) >= 0)
		filed = (uint64_t)sqlite3_column_int64(s, 0);
	(void)sqlite3_finalize(s);
	(void)sqlite3_close(sql);
	return filed;
}

int db_schema_open(int dirfd, bool had_past, sqlite3 **ret, struct db_past *ret_past,
		   struct cay_err *err)
{
	struct db_expected expected = { .had_past = had_past,
					.accepted = db_loss_is_accepted(dirfd) };
	auto_buf path = BUF_INIT(PATH_MAX);
	sqlite3 *sql = NULL;
	int r, rc;

	(void)db_mark_read(dirfd, &expected.mark);
	if (db_file_is_lost(dirfd, &expected))
		return db_schema_fail_lost(&(struct db_past){}, &expected.mark, err);
	r = db_file_find_path(dirfd, &path, err);
	if (r < 0)
		return r;
	expected.filed = db_file_read_filed(buf_str(&path), expected.mark.filed);
	rc = sqlite3_open_v2(buf_str(&path), &sql,
			     SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW |
				     SQLITE_OPEN_EXRESCODE,
			     NULL);
	if (rc == SQLITE_OK)
		rc = db_schema_harden(sql);
	r = rc == SQLITE_OK ? db_schema_set_up(sql, &expected, ret_past, err)
			    : db_schema_fail(sql, rc, err);
	if (r < 0) {
		(void)sqlite3_close(sql);
		return r;
	}
	*ret = sql;
	return 0;
}
