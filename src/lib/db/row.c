/* SPDX-License-Identifier: Apache-2.0 */
/* Structs to columns and back.  Anyone with access may have edited the file, so its content is
 * validated like remote input; and a value that could not be read back is not written. */
#include "db/db-internal.h"

#define BOOT_DIGITS "0123456789abcdef-"

/* Names in the file, in the order of the enums.  They are never changed, only added to: on
 * purpose not the names of ops/schemas.c, which belong to the API. */
static const char *const states[] = {
	[SB_PENDING] = "pending",     [SB_RUNNING] = "running",   [SB_PAUSED] = "paused",
	[SB_SUSPENDED] = "suspended", [SB_STOPPING] = "stopping", [SB_STOPPED] = "stopped",
	[SB_STARTING] = "starting",   [SB_ENDING] = "ending",     [SB_TERMINATED] = "terminated",
	[SB_FAILED] = "failed",       [SB_NUM_STATES] = NULL,
};
static const char *const reasons[] = {
	[END_EXIT] = "exit",           [END_SIGNAL] = "signal",
	[END_TIMEOUT] = "timeout",     [END_OOM] = "oom",
	[END_KILLED] = "killed",       [END_TTL] = "ttl",
	[END_IDLE] = "idle",           [END_QUOTA] = "quota",
	[END_EVICTED] = "evicted",     [END_START_FAILED] = "start_failed",
	[END_NODE_LOST] = "node_lost", [END_NODE_OOM] = "node_oom",
	[END_LEASE] = "lease",         [END_NUM_REASONS] = NULL,
};
static const char *const on_exits[] = { [ON_EXIT_KEEP] = "keep", [ON_EXIT_END] = "end", NULL };
static const char *const booleans[] = { "0", "1", NULL };

/* A number, or a word of the choices. */
struct db_life_column {
	const char *name;
	size_t at; /* in struct life: a uint64_t, or a byte where there are choices */
	const char *const *choices;
	unsigned n_choices;
	bool never; /* NULL is LIFE_NEVER */
};

#define NUMBER(m, ...) { .name = #m, .at = offsetof(struct life, m), __VA_ARGS__ }
#define CHOICE(m, c) NUMBER(m, .choices = (c), .n_choices = ARRAY_SIZE(c) - 1)

static const struct db_life_column columns[] = {
	NUMBER(generation),
	NUMBER(born_ns),
	NUMBER(expires_ns, .never = true),
	NUMBER(ceiling_ns, .never = true),
	NUMBER(idle_ns, .never = true),
	NUMBER(active_ns),
	NUMBER(started_ns),
	CHOICE(state, states),
	CHOICE(reason, reasons),
	CHOICE(failed, booleans),
	CHOICE(entry, booleans),
	CHOICE(on_exit, on_exits),
	CHOICE(warm, booleans),
};

/* Columns are those of `columns`, between these. */
enum { COL_ID, COL_SEQ, COL_BOOT, COL_LIFE, COL_TEXT = COL_LIFE + ARRAY_SIZE(columns) };
enum { EV_SEQ, EV_WALL, EV_SANDBOX, EV_TEXT };

#define ROW_COLUMNS \
	"id, seq, boot, generation, born_ns, expires_ns, ceiling_ns, idle_ns, active_ns, " \
	"started_ns, state, reason, failed, entry, on_exit, warm, text"
const char *const db_sandbox_put_sql =
	"INSERT INTO sandbox (" ROW_COLUMNS ") VALUES "
	"(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
	"seq = excluded.seq, boot = excluded.boot, generation = excluded.generation, "
	"born_ns = excluded.born_ns, expires_ns = excluded.expires_ns, "
	"ceiling_ns = excluded.ceiling_ns, idle_ns = excluded.idle_ns, "
	"active_ns = excluded.active_ns, started_ns = excluded.started_ns, "
	"state = excluded.state, reason = excluded.reason, failed = excluded.failed, "
	"entry = excluded.entry, on_exit = excluded.on_exit, warm = excluded.warm, "
	"text = excluded.text";
#define EVENT_COLUMNS "seq, wall_ns, sandbox, text"
const char *const db_event_sql =
	"INSERT OR REPLACE INTO event (" EVENT_COLUMNS ") VALUES (?, ?, ?, ?)";

/* They are read in this order. */
#define KIND(noun, sym, settled, name, table) \
	{ noun, \
	  STMT_##sym##_PUT, \
	  STMT_##sym##_DROP, \
	  settled, \
	  name, \
	  "INSERT INTO " table " (id, text) VALUES (?, ?) " \
	  "ON CONFLICT (id) DO UPDATE SET text = excluded.text", \
	  "DELETE FROM " table " WHERE id = ?", \
	  "SELECT id, text FROM " table " ORDER BY rowid LIMIT ?" }
const struct db_entry_kind db_entry_kinds[DB_ENTRY_KINDS] = {
	KIND(ID_TENANT, TENANT, true, "tenant", "tenant"),
	KIND(ID_KEY, KEY, true, "key", "api_key"),
	KIND(ID_TEMPLATE, TEMPLATE, true, "template", "template"),
	KIND(ID_SANDBOX, KEPT_KEY, false, "idempotency key", "kept_key"),
	KIND(ID_SNAPSHOT, SNAPSHOT, true, "snapshot", "snapshot"),
	KIND(ID_VOLUME, VOLUME, true, "volume", "volume"),
};

const struct db_entry_kind *db_entry_kind_find(enum id_noun noun)
{
	for (size_t i = 0; i < DB_ENTRY_KINDS; i++)
		if (db_entry_kinds[i].noun == noun)
			return &db_entry_kinds[i];
	return &db_entry_kinds[0];
}

static uint64_t *db_life_u64_at(const struct life *l, const struct db_life_column *c)
{
	return (uint64_t *)(void *)((char *)(uintptr_t)l + c->at);
}

static uint8_t *db_life_u8_at(const struct life *l, const struct db_life_column *c)
{
	return (uint8_t *)((char *)(uintptr_t)l + c->at);
}

static const char *db_text_invalid_reason(struct slice text)
{
	if (text.n > DB_TEXT_MAX)
		return "text is too long";
	return utf8_is_valid(text.p, text.n) ? NULL : "text is not UTF-8";
}

const char *db_sandbox_invalid_reason(const struct db_sandbox *row)
{
	if (!id_is_valid(&row->life.id, ID_SANDBOX))
		return "id is not a sandbox's";
	if (row->seq > DB_NUMBER_MAX)
		return "seq is out of range";
	if (row->boot[BOOT_ID_LEN] || strspn(row->boot, BOOT_DIGITS) != BOOT_ID_LEN)
		return "boot is not a boot's id";
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		const struct db_life_column *c = &columns[i];

		if (c->choices
			    ? *db_life_u8_at(&row->life, c) >= c->n_choices
			    : *db_life_u64_at(&row->life, c) > DB_NUMBER_MAX &&
				      !(c->never && *db_life_u64_at(&row->life, c) == LIFE_NEVER))
			return c->name;
	}
	return db_text_invalid_reason(row->text);
}

const char *db_event_invalid_reason(const struct db_event *event)
{
	if (!event->seq || event->seq > DB_NUMBER_MAX)
		return "seq is out of range";
	if (event->wall_ns > DB_NUMBER_MAX)
		return "wall_ns is out of range";
	if (!id_is_valid(&event->sandbox, ID_SANDBOX))
		return "sandbox is not a sandbox's id";
	return db_text_invalid_reason(event->text);
}

const char *db_entry_invalid_reason(const struct db_entry *entry)
{
	if (!id_is_valid(&entry->id, db_entry_kind_find(entry->id.noun)->noun))
		return "id is of nothing that is kept";
	return db_text_invalid_reason(entry->text);
}

int db_bind_u64(sqlite3_stmt *s, int column, uint64_t v)
{
	return v > DB_NUMBER_MAX ? sqlite3_bind_null(s, column + 1)
				 : sqlite3_bind_int64(s, column + 1, (int64_t)v);
}

static int db_bind_text(sqlite3_stmt *s, int column, struct slice v)
{
	return sqlite3_bind_text64(s, column + 1, v.n ? v.p : "", v.n, SQLITE_STATIC, SQLITE_UTF8);
}

int db_bind_id(sqlite3_stmt *s, int column, const struct id *id)
{
	char text[ID_TEXT_LEN + 1];

	id_format(id, text);
	return sqlite3_bind_text(s, column + 1, text, ID_TEXT_LEN, SQLITE_TRANSIENT);
}

static int db_bind_life(sqlite3_stmt *s, const struct life *l)
{
	int rc = SQLITE_OK;

	for (size_t i = 0; i < ARRAY_SIZE(columns) && rc == SQLITE_OK; i++) {
		const struct db_life_column *c = &columns[i];
		int at = COL_LIFE + (int)i;

		if (c->choices == booleans)
			rc = db_bind_u64(s, at, *db_life_u8_at(l, c));
		else if (c->choices)
			rc = db_bind_text(s, at, slice_of(c->choices[*db_life_u8_at(l, c)]));
		else
			rc = db_bind_u64(s, at, *db_life_u64_at(l, c));
	}
	return rc;
}

int db_sandbox_bind(sqlite3_stmt *s, const struct db_sandbox *row)
{
	int rc = db_bind_id(s, COL_ID, &row->life.id);

	if (rc == SQLITE_OK)
		rc = db_bind_u64(s, COL_SEQ, row->seq);
	if (rc == SQLITE_OK)
		rc = db_bind_text(s, COL_BOOT, slice_of(row->boot));
	if (rc == SQLITE_OK)
		rc = db_bind_life(s, &row->life);
	return rc == SQLITE_OK ? db_bind_text(s, COL_TEXT, row->text) : rc;
}

int db_event_bind(sqlite3_stmt *s, const struct db_event *event)
{
	int rc = db_bind_u64(s, EV_SEQ, event->seq);

	if (rc == SQLITE_OK)
		rc = db_bind_u64(s, EV_WALL, event->wall_ns);
	if (rc == SQLITE_OK)
		rc = db_bind_id(s, EV_SANDBOX, &event->sandbox);
	return rc == SQLITE_OK ? db_bind_text(s, EV_TEXT, event->text) : rc;
}

int db_entry_bind(sqlite3_stmt *s, const struct db_entry *entry)
{
	int rc = db_bind_id(s, 0, &entry->id);

	return rc == SQLITE_OK ? db_bind_text(s, 1, entry->text) : rc;
}

/* Nothing but text: a number would be turned into one. */
static bool db_column_read_text(sqlite3_stmt *s, int column, struct slice *ret)
{
	if (sqlite3_column_type(s, column) != SQLITE_TEXT)
		return false;
	ret->p = (const char *)sqlite3_column_text(s, column);
	ret->n = (size_t)sqlite3_column_bytes(s, column);
	return ret->p;
}

static bool db_column_read_u64(sqlite3_stmt *s, int column, uint64_t *ret)
{
	int64_t v = sqlite3_column_int64(s, column);

	if (sqlite3_column_type(s, column) != SQLITE_INTEGER || v < 0)
		return false;
	*ret = (uint64_t)v;
	return true;
}

static bool db_column_read_id(sqlite3_stmt *s, int column, enum id_noun noun, struct id *ret)
{
	struct slice text;

	return db_column_read_text(s, column, &text) && id_parse(noun, text, ret) == 0;
}

static bool db_column_read_choice(sqlite3_stmt *s, int at, const struct db_life_column *c,
				  uint8_t *ret)
{
	struct slice word;
	uint64_t number;
	unsigned choice;

	if (c->choices == booleans) {
		if (!db_column_read_u64(s, at, &number) || number > 1)
			return false;
		*ret = (uint8_t)number;
		return true;
	}
	if (!db_column_read_text(s, at, &word) || str_find_choice(word, c->choices, &choice) < 0)
		return false;
	*ret = (uint8_t)choice;
	return true;
}

static bool db_column_read(sqlite3_stmt *s, int at, const struct db_life_column *c, struct life *l)
{
	if (c->choices)
		return db_column_read_choice(s, at, c, db_life_u8_at(l, c));
	if (c->never && sqlite3_column_type(s, at) == SQLITE_NULL) {
		*db_life_u64_at(l, c) = LIFE_NEVER;
		return true;
	}
	return db_column_read_u64(s, at, db_life_u64_at(l, c));
}

static const char *db_sandbox_read(sqlite3_stmt *s, struct db_sandbox *ret)
{
	struct slice boot;

	if (!db_column_read_u64(s, COL_SEQ, &ret->seq))
		return "seq";
	if (!db_column_read_text(s, COL_BOOT, &boot) || boot.n != BOOT_ID_LEN)
		return "boot";
	memcpy(ret->boot, boot.p, BOOT_ID_LEN);
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		if (!db_column_read(s, COL_LIFE + (int)i, &columns[i], &ret->life))
			return columns[i].name;
	if (!db_column_read_text(s, COL_TEXT, &ret->text))
		return "text";
	ret->life.saved_ns = ret->life.active_ns;
	life_reset_transient(&ret->life);
	return db_sandbox_invalid_reason(ret);
}

static const char *db_event_read(sqlite3_stmt *s, struct db_event *ret)
{
	if (!db_column_read_u64(s, EV_SEQ, &ret->seq))
		return "seq";
	if (!db_column_read_u64(s, EV_WALL, &ret->wall_ns))
		return "wall_ns";
	return db_column_read_text(s, EV_TEXT, &ret->text) ? db_event_invalid_reason(ret) : "text";
}

static void db_reader_report_bad(const struct db_reader *to, const struct id *id, const char *what,
				 const char *column)
{
	char name[ID_TEXT_LEN + 1] = "without an id";
	struct cay_err why = {};

	if (!to->bad)
		return;
	if (id)
		id_format(id, name);
	(void)cay_fail(&why, CAY_E_INTERNAL, DB_NAME ": %s %s was changed by another program: %s",
		       what, name, column);
	to->bad(to->arg, id, &why);
}

typedef int db_load_fn(sqlite3_stmt *s, const struct db_entry_kind *kind,
		       const struct db_reader *to, struct cay_err *err);

/* Step through a SELECT; -errno of `one` ends it. */
static int db_select_for_each(sqlite3 *sql, const char *text, uint64_t limit, db_load_fn *one,
			      const struct db_entry_kind *kind, const struct db_reader *to,
			      struct cay_err *err)
{
	sqlite3_stmt *s = NULL;
	int rc = sqlite3_prepare_v2(sql, text, -1, &s, NULL), r = 0;

	if (rc == SQLITE_OK)
		rc = db_bind_u64(s, 0, limit < DB_NUMBER_MAX ? limit : DB_NUMBER_MAX);
	while (rc == SQLITE_OK || rc == SQLITE_ROW) {
		rc = sqlite3_step(s);
		if (rc == SQLITE_ROW)
			r = one(s, kind, to, err);
		if (r < 0)
			break;
	}
	if (r >= 0 && rc != SQLITE_DONE)
		r = cay_fail(err, db_error_code(rc, sqlite3_system_errno(sql)),
			     "read " DB_NAME ": %s", sqlite3_errmsg(sql));
	(void)sqlite3_finalize(s);
	return r;
}

static int db_load_sandbox_row(sqlite3_stmt *s, const struct db_entry_kind *,
			       const struct db_reader *to, struct cay_err *err)
{
	struct db_sandbox row = {};
	bool has_id = db_column_read_id(s, COL_ID, ID_SANDBOX, &row.life.id);
	const char *fault = has_id ? db_sandbox_read(s, &row) : "id";

	if (fault) {
		db_reader_report_bad(to, has_id ? &row.life.id : NULL, "sandbox", fault);
		return 0;
	}
	return to->row ? to->row(to->arg, &row, err) : 0;
}

static int db_load_event_row(sqlite3_stmt *s, const struct db_entry_kind *,
			     const struct db_reader *to, struct cay_err *err)
{
	struct db_event event = {};
	bool has_id = db_column_read_id(s, EV_SANDBOX, ID_SANDBOX, &event.sandbox);
	const char *fault = has_id ? db_event_read(s, &event) : "sandbox";

	if (fault) {
		db_reader_report_bad(to, has_id ? &event.sandbox : NULL, "event of", fault);
		return 0;
	}
	return to->event ? to->event(to->arg, &event, err) : 0;
}

/* Ids begin with their noun, so that one in another's table is seen. */
static int db_load_entry_row(sqlite3_stmt *s, const struct db_entry_kind *kind,
			     const struct db_reader *to, struct cay_err *err)
{
	struct db_entry entry = {};
	bool has_id = db_column_read_id(s, 0, kind->noun, &entry.id);
	const char *fault = has_id ? "text" : "id";

	if (has_id && db_column_read_text(s, 1, &entry.text))
		fault = db_entry_invalid_reason(&entry);
	if (fault) {
		db_reader_report_bad(to, has_id ? &entry.id : NULL, kind->name, fault);
		return 0;
	}
	return to->entry ? to->entry(to->arg, &entry, err) : 0;
}

int db_entries_load(sqlite3 *sql, const struct db_reader *to, struct cay_err *err)
{
	int r = 0;

	for (size_t i = 0; i < DB_ENTRY_KINDS && r >= 0; i++)
		r = db_select_for_each(sql, db_entry_kinds[i].all_sql, DB_NUMBER_MAX,
				       db_load_entry_row, &db_entry_kinds[i], to, err);
	return r;
}

int db_sandboxes_load(sqlite3 *sql, const struct db_reader *to, struct cay_err *err)
{
	return db_select_for_each(sql,
				  "SELECT " ROW_COLUMNS " FROM sandbox ORDER BY seq, rowid LIMIT ?",
				  DB_NUMBER_MAX, db_load_sandbox_row, NULL, to, err);
}

int db_events_load(sqlite3 *sql, const struct db_reader *to, struct cay_err *err)
{
	return db_select_for_each(sql,
				  "SELECT * FROM (SELECT " EVENT_COLUMNS
				  " FROM event ORDER BY seq DESC LIMIT ?) ORDER BY seq",
				  to->events, db_load_event_row, NULL, to, err);
}
