/* SPDX-License-Identifier: Apache-2.0 */
/* The journal's file: older, newer, damaged, edited by hand, in use. */
#include <sys/stat.h>

#include "base/path.h"
#include "db-fixture.h"

/* The file as another program sees it. */
static sqlite3 *by_hand(struct fixture *f)
{
	char path[128];
	sqlite3 *sql = NULL;

	assert_true(snprintf(path, sizeof(path), "%s/" DB_NAME, f->dir) > 0);
	assert_int_equal(sqlite3_open(path, &sql), SQLITE_OK);
	return sql;
}

static void edit(struct fixture *f, const char *text)
{
	sqlite3 *sql = by_hand(f);
	char *why = NULL;

	if (sqlite3_exec(sql, text, NULL, NULL, &why) != SQLITE_OK)
		fail_msg("%s: %s", text, why);
	assert_int_equal(sqlite3_close(sql), SQLITE_OK);
}

/* Refused with this code, and the file is the same afterwards. */
static void refused(struct fixture *f, enum cay_code code, const char *says)
{
	auto_buf before = BUF_INIT(MIB(1)), after = BUF_INIT(MIB(1));
	struct cay_err err = {};
	struct db *db = NULL;

	assert_int_equal(path_read(f->dirfd, DB_NAME, &before), 0);
	assert_true(db_open(f->dirfd, false, &f->loop, &db, &err) < 0);
	assert_null(db);
	assert_int_equal(err.code, code);
	if (!strstr(err.msg, says))
		fail_msg("'%s' does not say '%s'", err.msg, says);
	assert_int_equal(path_read(f->dirfd, DB_NAME, &after), 0);
	assert_int_equal(after.len, before.len);
	assert_memory_equal(after.data, before.data, before.len);
}

static void fill(struct fixture *f, uint64_t n)
{
	load(f, 0);
	for (uint64_t i = 1; i <= n; i++) {
		struct db_sandbox a = row_of(i);

		db_sandbox_put(f->db, &a, NULL, NULL);
	}
	shut(f);
}

static void older_files_are_brought_up_to_date(void **state)
{
	struct fixture *f = *state;
	struct db_sandbox a = row_of(9);
	char text[512], id[ID_TEXT_LEN + 1];
	sqlite3 *sql = by_hand(f);
	sqlite3_stmt *s = NULL;

	assert_true(snprintf(text, sizeof(text), "PRAGMA application_id = %d", DB_APPLICATION_ID) >
		    0);
	assert_int_equal(sqlite3_exec(sql, text, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(sql, db_schema[0], NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(sql, "PRAGMA user_version = 1", NULL, NULL, NULL), SQLITE_OK);
	id_format(&a.life.id, id);
	assert_true(snprintf(text, sizeof(text),
			     "INSERT INTO sandbox VALUES ('%s', 9, '%s', 1, 1, NULL, NULL, NULL, "
			     "1, 0, 'running', 'exit', 0, 0, 'keep', '{}')",
			     id, a.boot) < (int)sizeof(text));
	assert_int_equal(sqlite3_exec(sql, text, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(sql), SQLITE_OK);
	load(f, 0);
	assert_int_equal(f->seen.n_rows, 1);
	assert_int_equal(f->seen.rows[0].seq, 9);
	assert_int_equal(db_event_next_seq(f->db), 1);
	shut(f);
	sql = by_hand(f);
	assert_int_equal(sqlite3_prepare_v2(sql, "PRAGMA user_version", -1, &s, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(s), SQLITE_ROW);
	assert_null(db_schema[sqlite3_column_int(s, 0)]); /* all of them were applied */
	(void)sqlite3_finalize(s);
	assert_int_equal(sqlite3_close(sql), SQLITE_OK);
}

static void later_and_foreign_files_are_refused(void **state)
{
	struct fixture *f = *state;
	char text[64];
	int now = 0;

	fill(f, 3);
	edit(f, "PRAGMA user_version = 1000");
	refused(f, CAY_E_INCOMPATIBLE, "start the newer program");
	while (db_schema[now])
		now++;
	assert_true(snprintf(text, sizeof(text),
			     "PRAGMA user_version = %d; PRAGMA application_id = 7", now) > 0);
	edit(f, text);
	refused(f, CAY_E_INTERNAL, "another program's");
	edit(f, "PRAGMA application_id = 0");
	refused(f, CAY_E_INTERNAL, "another program's");
	edit(f, "PRAGMA application_id = 0x4361796a; DROP TABLE sandbox");
	refused(f, CAY_E_INTERNAL, "other tables than it says");
}

static void overwrite(struct fixture *f, off_t at, size_t n)
{
	auto_close int fd = openat(f->dirfd, DB_NAME, O_RDWR | O_CLOEXEC);
	char junk[8192];

	memset(junk, 0xa5, sizeof(junk));
	assert_int_equal(pwrite(fd, junk, n, at), n);
}

static void damaged_files_are_refused(void **state)
{
	struct fixture *f = *state;
	auto_close int fd = -EBADF;
	struct stat st;

	fill(f, 400);
	assert_int_equal(fstatat(f->dirfd, DB_NAME, &st, 0), 0);
	assert_true(st.st_size > 8 * 4096);
	overwrite(f, 5 * 4096, 4096);
	refused(f, CAY_E_INTERNAL, "damaged");
	fd = openat(f->dirfd, DB_NAME, O_RDWR | O_CLOEXEC);
	assert_int_equal(ftruncate(fd, 4096 * 3), 0);
	refused(f, CAY_E_INTERNAL, "damaged");
	overwrite(f, 0, 4096);
	refused(f, CAY_E_INTERNAL, "damaged");
	assert_int_equal(unlinkat(f->dirfd, DB_NAME, 0), 0);
	assert_int_equal(mkfifoat(f->dirfd, DB_NAME, 0600), 0);
	assert_int_equal(db_open(f->dirfd, false, &f->loop, &f->db, NULL), -EIO);
	assert_int_equal(unlinkat(f->dirfd, DB_NAME, 0), 0);
	assert_int_equal(symlinkat("/etc/passwd", f->dirfd, DB_NAME), 0);
	assert_int_equal(db_open(f->dirfd, false, &f->loop, &f->db, NULL), -EIO);
	assert_int_equal(db_open(-1, false, &f->loop, &f->db, NULL), -EBADF);
}

/* A writer that was killed leaves a -wal; a refusal does not write it into the file. */
static void a_refusal_leaves_the_wal_alone(void **state)
{
	struct fixture *f = *state;
	struct stat before, after;
	int status;
	pid_t pid;

	fill(f, 400);
	pid = fork();
	if (pid == 0) {
		struct db_sandbox a = row_of(1);

		load(f, 0);
		a.text = SLICE("[]");
		(void)put(f, &a);
		(void)raise(SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WTERMSIG(status), SIGKILL);
	overwrite(f, 5 * 4096, 8192); /* of which the -wal has one page at most */
	assert_int_equal(fstatat(f->dirfd, DB_NAME "-wal", &before, 0), 0);
	assert_true(before.st_size > 0);
	refused(f, CAY_E_INTERNAL, "damaged");
	assert_int_equal(fstatat(f->dirfd, DB_NAME "-wal", &after, 0), 0);
	assert_int_equal(after.st_size, before.st_size);
}

/* Each vandalism hits row 2 of 3; the other two come back and row 2 is named. */
static void edited_rows_are_reported_and_the_rest_goes_on(void **state)
{
	struct fixture *f = *state;
	static const struct {
		const char *set, *says;
	} cases[] = {
		{ "state = 'dancing'", "state" },
		{ "state = ''", "state" },
		{ "reason = 'exit '", "reason" },
		{ "on_exit = 'x'", "on_exit" },
		{ "warm = 2", "warm" },
		{ "failed = 2", "failed" },
		{ "entry = -1", "entry" },
		{ "generation = -1", "generation" },
		{ "born_ns = -5", "born_ns" },
		{ "expires_ns = -9223372036854775808", "expires_ns" },
		{ "seq = -1", "seq" },
		{ "boot = 'yesterday'", "boot" },
		{ "boot = upper(boot)", "boot" },
		{ "text = CAST(x'ff' AS TEXT)", "UTF-8" },
		{ "text = hex(zeroblob(131073))", "too long" },
		{ "id = 'ex' || substr(id, 3)", NULL },
		{ "id = upper(id)", NULL },
		{ "id = id || '0'", NULL },
		{ "id = ''", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct db_sandbox two = row_of(2);
		char text[256];

		fill(f, 3);
		assert_true(snprintf(text, sizeof(text), "UPDATE sandbox SET %s WHERE seq = 2",
				     cases[i].set) > 0);
		edit(f, text);
		load(f, 0);
		row_check(i, f->seen.n_rows == 2 && f->seen.n_bad == 1);
		row_check(i, f->seen.rows[0].seq == 1 && f->seen.rows[1].seq == 3);
		row_check(i, f->seen.n_nameless == !cases[i].says);
		row_check(i, !cases[i].says || (id_eq(&f->seen.bad, &two.life.id) &&
						strstr(f->seen.why, cases[i].says)));
		/* it stays until somebody decides */
		again(f);
		row_check(i, f->seen.n_bad == 1);
		if (cases[i].says) {
			row_check(i, put(f, &two) == CAY_OK);
			again(f);
			row_check(i, f->seen.n_rows == 3 && f->seen.n_bad == 0);
		}
		shut(f);
		edit(f, "DELETE FROM sandbox");
	}
}

/* The tables' own types can be edited away too. */
static void other_types_are_reported(void **state)
{
	struct fixture *f = *state;

	fill(f, 3);
	edit(f, "CREATE TABLE loose AS SELECT * FROM sandbox; DROP TABLE sandbox;"
		"ALTER TABLE loose RENAME TO sandbox; CREATE UNIQUE INDEX i ON sandbox (id);"
		"UPDATE sandbox SET generation = 'one' WHERE seq = 1;"
		"UPDATE sandbox SET state = x'72756e6e696e67' WHERE seq = 2;"
		"UPDATE sandbox SET text = NULL, born_ns = 1.5 WHERE seq = 3");
	load(f, 0);
	assert_int_equal(f->seen.n_rows, 0);
	assert_int_equal(f->seen.n_bad, 3);
}

static void edited_events_are_reported_and_numbers_stay_sane(void **state)
{
	struct fixture *f = *state;
	struct db_event e = { .text = SLICE("{}") };

	e.sandbox = row_of(1).life.id;
	load(f, 0);
	for (unsigned i = 0; i < 5; i++) {
		e.seq = db_event_next_seq(f->db);
		db_event_append(f->db, &e, NULL, NULL);
	}
	shut(f);
	edit(f, "UPDATE event SET wall_ns = -1 WHERE seq = 1;"
		"UPDATE event SET sandbox = 'x' WHERE seq = 2;"
		"UPDATE event SET text = CAST(x'c0' AS TEXT) WHERE seq = 3;"
		"UPDATE event SET seq = -4 WHERE seq = 4; DELETE FROM sqlite_sequence");
	load(f, 10);
	assert_int_equal(f->seen.n_bad, 4);
	assert_int_equal(f->seen.n_events, 1);
	assert_int_equal(db_event_next_seq(f->db), 6);
	shut(f);
	edit(f, "UPDATE event SET seq = 9223372036854775807 WHERE seq = 5");
	refused(f, CAY_E_INTERNAL, "the last there is");
}

static struct db_entry entry_of(enum id_noun noun, uint8_t n, const char *text)
{
	return (struct db_entry){ { (uint8_t)noun, { n } }, slice_of(text) };
}

static void tenants_and_keys_are_kept_apart(void **state)
{
	struct fixture *f = *state;
	struct db_entry key = entry_of(ID_KEY, 1, "key"), tenant = entry_of(ID_TENANT, 1, "old");
	struct db_entry other = entry_of(ID_TENANT, 2, "other");
	struct db_entry sandbox = entry_of(ID_EXEC, 1, "exec");
	struct db_entry kind = entry_of(ID_TEMPLATE, 1, "kind");
	struct told told = {};

	load(f, 0);
	db_entry_put(f->db, &kind, on_told, &told);
	db_entry_put(f->db, &key, on_told, &told);
	db_entry_put(f->db, &tenant, on_told, &told);
	db_entry_put(f->db, &other, on_told, &told);
	tenant.text = SLICE("new");
	db_entry_put(f->db, &tenant, on_told, &told);
	db_entry_put(f->db, &sandbox, on_told, &told);
	turn(f);
	assert_int_equal(told.by[CAY_OK], 5);
	assert_int_equal(told.by[CAY_E_INVALID], 1);
	again(f);
	assert_int_equal(f->seen.n_entries, 4);
	assert_true(id_eq(&f->seen.entries[3], &kind.id));
	assert_string_equal(f->seen.entry_texts[0], "new"); /* tenants first, in their order */
	assert_string_equal(f->seen.entry_texts[1], "other");
	assert_true(id_eq(&f->seen.entries[2], &key.id));
	db_entry_delete(f->db, &tenant.id, on_told, &told);
	db_entry_delete(f->db, &key.id, on_told, &told);
	db_entry_delete(f->db, &kind.id, on_told, &told);
	again(f);
	assert_int_equal(f->seen.n_entries, 1);
	assert_string_equal(f->seen.entry_texts[0], "other");
}

static void edited_tenants_and_keys_are_reported(void **state)
{
	struct fixture *f = *state;

	load(f, 0);
	for (uint8_t i = 1; i <= 3; i++) {
		struct db_entry tenant = entry_of(ID_TENANT, i, "t"),
				key = entry_of(ID_KEY, i, "k");

		db_entry_put(f->db, &tenant, NULL, NULL);
		db_entry_put(f->db, &key, NULL, NULL);
	}
	shut(f);
	edit(f, "UPDATE tenant SET id = 'ky' || substr(id, 3) WHERE rowid = 1;"
		"UPDATE tenant SET text = CAST(x'c0' AS TEXT) WHERE rowid = 2;"
		"UPDATE api_key SET id = 'x' WHERE rowid = 3");
	load(f, 0);
	assert_int_equal(f->seen.n_entries, 3);
	assert_int_equal(f->seen.n_bad, 3);
	assert_int_equal(f->seen.n_nameless, 2);
}

/* What a trigger would do on the side is not done. */
static void planted_triggers_do_not_run(void **state)
{
	struct fixture *f = *state;

	fill(f, 3);
	edit(f, "CREATE TRIGGER t AFTER INSERT ON sandbox BEGIN DELETE FROM sandbox; END");
	fill(f, 4);
	load(f, 0);
	assert_int_equal(f->seen.n_rows, 4);
}

static int refuse_row(void *, const struct db_sandbox *, struct cay_err *err)
{
	return cay_fail(err, CAY_E_LIMIT, "no more");
}

static void a_callbacks_failure_ends_the_load(void **state)
{
	struct fixture *f = *state;
	struct cay_err err = {};

	fill(f, 3);
	assert_int_equal(db_open(f->dirfd, false, &f->loop, &f->db, NULL), 0);
	assert_int_equal(db_load(f->db, &(struct db_reader){ .row = refuse_row }, &err), -EDQUOT);
	assert_int_equal(err.code, CAY_E_LIMIT);
}

static void nobody_else_gets_in(void **state)
{
	struct fixture *f = *state;
	int status;
	pid_t pid;

	fill(f, 3);
	load(f, 0);
	pid = fork();
	if (pid == 0) {
		struct cay_err err = {};
		uv_loop_t loop;
		struct db *db;

		if (uv_loop_init(&loop) < 0 || db_open(f->dirfd, false, &loop, &db, &err) >= 0)
			_exit(1);
		_exit(err.code == CAY_E_CONFLICT && strstr(err.msg, "stop the other") ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(put(f, &(struct db_sandbox){ .life = row_of(8).life, .boot = BOOT }),
			 CAY_OK);
}

/* A row and its event, durable. */
static void put_with_event(struct fixture *f, uint64_t n)
{
	struct db_sandbox row = row_of(n);
	struct db_event event = { .seq = db_event_next_seq(f->db),
				  .sandbox = row.life.id,
				  .text = SLICE("{}") };

	db_event_append(f->db, &event, NULL, NULL);
	assert_int_equal(put(f, &row), CAY_OK);
}

static int open_only(struct fixture *f, bool had_past)
{
	struct cay_err err = {};
	int r = db_open(f->dirfd, had_past, &f->loop, &f->db, &err);

	if (r >= 0)
		shut(f);
	else
		assert_non_null(strstr(err.msg, "fsck --end-foreign"));
	return r;
}

/* The process is killed: the files stay as they are. */
static void leave_as_killed(struct fixture *f, char to[static 64])
{
	static const char *const names[] = { DB_NAME, DB_NAME "-wal", DB_MARK };
	char from[128], copy[128];

	assert_true(snprintf(to, 64, "/tmp/cay-past-XXXXXX") > 0);
	assert_non_null(mkdtemp(to));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		static char text[MIB(1)];
		int fd;
		ssize_t n;

		assert_true(snprintf(from, sizeof(from), "%s/%s", f->dir, names[i]) > 0);
		assert_true(snprintf(copy, sizeof(copy), "%s/%s", to, names[i]) > 0);
		fd = open(from, O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? 0 : read(fd, text, sizeof(text));
		(void)close(fd);
		fd = open(copy, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		assert_true(fd >= 0 && write(fd, text, (size_t)n) == n);
		(void)close(fd);
	}
}

static void a_journal_that_lost_its_past_is_refused(void **state)
{
	static const struct {
		const char *file;
		off_t cut; /* to this size; -1: 5,000 bad bytes at 200 */
	} damages[] = { { DB_NAME "-wal", -1 },
			{ DB_NAME "-wal", 0 },
			{ DB_NAME "-wal", 4000 },
			{ DB_NAME, 0 } };
	struct fixture *f = *state;
	struct fixture other = { .loop = f->loop };
	static const char bad[5000] = { 1, 2, 3 };

	load(f, 1);
	for (uint64_t i = 1; i < 20; i++)
		put_with_event(f, i);
	for (size_t i = 0; i < ARRAY_SIZE(damages); i++) {
		struct cay_err err = {};
		struct stat before, after;
		int fd;

		leave_as_killed(f, other.dir);
		assert_int_equal(uv_loop_init(&other.loop), 0);
		other.dirfd = open(other.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		fd = openat(other.dirfd, damages[i].file, O_RDWR | O_CLOEXEC);
		if (damages[i].cut < 0)
			assert_int_equal(pwrite(fd, bad, sizeof(bad), 200), sizeof(bad));
		else
			assert_int_equal(ftruncate(fd, damages[i].cut), 0);
		(void)close(fd);
		assert_int_equal(fstatat(other.dirfd, DB_NAME, &before, 0), 0);
		row_check(i, open_only(&other, false) == -ESTALE);
		row_check(i, open_only(&other, false) == -ESTALE);
		assert_int_equal(fstatat(other.dirfd, DB_NAME, &after, 0), 0);
		assert_int_equal(before.st_size, after.st_size);
		assert_int_equal(db_loss_accept(other.dirfd, &err), 0);
		row_check(i, open_only(&other, false) == 0);
		db_loss_accept_finish(other.dirfd);
		row_check(i, open_only(&other, false) == 0); /* the mark is the journal's again */
		for (size_t k = 0; k < 3; k++)
			(void)unlinkat(other.dirfd,
				       (const char *[]){ DB_NAME, DB_NAME "-wal", DB_MARK }[k], 0);
		/* a new one: only its owner knows of a past */
		assert_int_equal(open_only(&other, true), -ESTALE);
		assert_int_equal(open_only(&other, false), 0);
		assert_int_equal(open_only(&other, true), 0);
		for (size_t k = 0; k < 3; k++)
			(void)unlinkat(other.dirfd,
				       (const char *[]){ DB_NAME, DB_NAME "-wal", DB_MARK }[k], 0);
		(void)close(other.dirfd);
		assert_int_equal(rmdir(other.dir), 0);
		assert_int_equal(uv_loop_close(&other.loop), 0);
	}
}

/* Half a mark, another program's, none: the journal is opened, and has a mark again. */
static void a_mark_that_cannot_be_read_says_nothing(void **state)
{
	static const char *const texts[] = { "", "cay-journal 2 ",
					     "cay-journal 2 "
					     "00000000000000000099 00000000000000000099 "
					     "00000000000000000099 00000000000000000099 "
					     "0000000000000000\n",
					     "cay-journal 1 "
					     "00000000000000000001 00000000000000000001 "
					     "0000000000000000\n" };
	struct fixture *f = *state;
	struct db_past past;

	load(f, 1);
	put_with_event(f, 1);
	shut(f);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		int fd = openat(f->dirfd, DB_MARK, O_WRONLY | O_TRUNC | O_CLOEXEC);

		assert_int_equal(write(fd, texts[i], strlen(texts[i])), strlen(texts[i]));
		(void)close(fd);
		row_check(i, !db_mark_read(f->dirfd, &past));
		row_check(i, open_only(f, false) == 0);
		row_check(i, db_mark_read(f->dirfd, &past) && past.events == 1);
	}
}

/* Tenants and keys are in the file itself soon, and the mark counts their changes. */
static void a_tenant_is_moved_into_the_file(void **state)
{
	struct fixture *f = *state;
	struct db_entry entry = { .id = { .noun = ID_TENANT, .bits = { 1 } }, .text = SLICE("{}") };
	struct told t = {};
	struct db_past past;

	load(f, 1);
	db_entry_put(f->db, &entry, on_told, &t);
	turn(f);
	assert_int_equal(t.by[CAY_OK], 1);
	/* the writer does it when no write waits */
	for (int i = 0; i < 10000 && !db_get_stats(f->db).checkpoints; i++)
		uv_sleep(1);
	assert_int_equal(db_get_stats(f->db).checkpoints, 1);
	assert_true(db_mark_read(f->dirfd, &past) && past.changes == 1 && past.filed == 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_journal_that_lost_its_past_is_refused, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_mark_that_cannot_be_read_says_nothing, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_tenant_is_moved_into_the_file, set_up, tear_down),
		T(older_files_are_brought_up_to_date),
		T(later_and_foreign_files_are_refused),
		T(damaged_files_are_refused),
		T(a_refusal_leaves_the_wal_alone),
		T(edited_rows_are_reported_and_the_rest_goes_on),
		T(other_types_are_reported),
		T(edited_events_are_reported_and_numbers_stay_sane),
		T(tenants_and_keys_are_kept_apart),
		T(edited_tenants_and_keys_are_reported),
		T(planted_triggers_do_not_run),
		T(a_callbacks_failure_ends_the_load),
		T(nobody_else_gets_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
