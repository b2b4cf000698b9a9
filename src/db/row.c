/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structs to columns and back.  The file may have been edited by anybody, so what
 * comes out of it is looked at as if a stranger had sent it; and what could not be
 * read back is not written.
 */
#include "db/db-internal.h"

#define BOOT_DIGITS "0123456789abcdef-"

/* What the file says; never changed, only added to.  Their order is the enums'. */
static const char *const states[] = {
	[SB_PENDING] = "pending",     [SB_RUNNING] = "running", [SB_PAUSED] = "paused",
	[SB_SUSPENDED] = "suspended", [SB_ENDING] = "ending",   [SB_TERMINATED] = "terminated",
	[SB_FAILED] = "failed",       [SB_NUM_STATES] = NULL,
};
static const char *const reasons[] = {
	[END_EXIT] = "exit",           [END_SIGNAL] = "signal",
	[END_TIMEOUT] = "timeout",     [END_OOM] = "oom",
	[END_KILLED] = "killed",       [END_TTL] = "ttl",
	[END_IDLE] = "idle",           [END_QUOTA] = "quota",
	[END_EVICTED] = "evicted",     [END_START_FAILED] = "start_failed",
	[END_NODE_LOST] = "node_lost", [END_NUM_REASONS] = NULL,
};
static const char *const on_exits[] = {
	[ON_EXIT_KEEP] = "keep",
	[ON_EXIT_END] = "end",
	[ON_EXIT_NUM] = NULL,
};
static const char *const booleans[] = { "0", "1", NULL };

/* A number, or a word of the choices. */
struct column {
	const char *name;
	size_t at; /* in struct life: a uint64_t, or a byte where there are choices */
	const char *const *choices;
	unsigned n_choices;
	bool never; /* NULL is LIFE_NEVER */
};

#define NUMBER(m, ...) { .name = #m, .at = offsetof(struct life, m), __VA_ARGS__ }
#define CHOICE(m, c) NUMBER(m, .choices = (c), .n_choices = ARRAY_SIZE(c) - 1)

static const struct column columns[] = {
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
const char *const db_put_sql =
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
#define KIND(noun, sym, name, table) \
	{ noun, \
	  STMT_##sym##_PUT, \
	  STMT_##sym##_DROP, \
	  name, \
	  "INSERT INTO " table " (id, text) VALUES (?, ?) " \
	  "ON CONFLICT (id) DO UPDATE SET text = excluded.text", \
	  "DELETE FROM " table " WHERE id = ?", \
	  "SELECT id, text FROM " table " ORDER BY rowid LIMIT ?" }
const struct entry_kind entry_kinds[ENTRY_KINDS] = {
	KIND(ID_TENANT, TENANT, "tenant", "tenant"),
	KIND(ID_KEY, KEY, "key", "api_key"),
	KIND(ID_TEMPLATE, TEMPLATE, "template", "template"),
};

const struct entry_kind *entry_kind(enum id_noun noun)
{
	for (size_t i = 0; i < ENTRY_KINDS; i++)
		if (entry_kinds[i].noun == noun)
			return &entry_kinds[i];
	return &entry_kinds[0];
}

static uint64_t *life_u64(const struct life *l, const struct column *c)
{
	return (uint64_t *)(void *)((char *)(uintptr_t)l + c->at);
}

static uint8_t *life_u8(const struct life *l, const struct column *c)
{
	return (uint8_t *)((char *)(uintptr_t)l + c->at);
}

static const char *text_fault(struct slice text)
{
	if (text.n > DB_TEXT_MAX)
		return "text is too long";
	return utf8_valid(text.p, text.n) ? NULL : "text is not UTF-8";
}

const char *row_fault(const struct db_row *row)
{
	if (!id_valid(&row->life.id, ID_SANDBOX))
		return "id is not a sandbox's";
	if (row->seq > DB_NUMBER_MAX)
		return "seq is out of range";
	if (row->boot[BOOT_ID_LEN] || strspn(row->boot, BOOT_DIGITS) != BOOT_ID_LEN)
		return "boot is not a boot's id";
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		const struct column *c = &columns[i];

		if (c->choices ? *life_u8(&row->life, c) >= c->n_choices
			       : *life_u64(&row->life, c) > DB_NUMBER_MAX &&
					 !(c->never && *life_u64(&row->life, c) == LIFE_NEVER))
			return c->name;
	}
	return text_fault(row->text);
}

const char *event_fault(const struct db_event *event)
{
	if (!event->seq || event->seq > DB_NUMBER_MAX)
		return "seq is out of range";
	if (event->wall_ns > DB_NUMBER_MAX)
		return "wall_ns is out of range";
	if (!id_valid(&event->sandbox, ID_SANDBOX))
		return "sandbox is not a sandbox's id";
	return text_fault(event->text);
}

const char *entry_fault(const struct db_entry *entry)
{
	if (!id_valid(&entry->id, entry_kind(entry->id.noun)->noun))
		return "id is of nothing that is kept";
	return text_fault(entry->text);
}

int u64_bind(sqlite3_stmt *s, int column, uint64_t v)
{
	return v > DB_NUMBER_MAX ? sqlite3_bind_null(s, column + 1)
				 : sqlite3_bind_int64(s, column + 1, (int64_t)v);
}

static int text_bind(sqlite3_stmt *s, int column, struct slice v)
{
	return sqlite3_bind_text64(s, column + 1, v.n ? v.p : "", v.n, SQLITE_STATIC, SQLITE_UTF8);
}

int id_bind(sqlite3_stmt *s, int column, const struct id *id)
{
	char text[ID_TEXT_LEN + 1];

	id_format(id, text);
	return sqlite3_bind_text(s, column + 1, text, ID_TEXT_LEN, SQLITE_TRANSIENT);
}

static int life_bind(sqlite3_stmt *s, const struct life *l)
{
	int rc = SQLITE_OK;

	for (size_t i = 0; i < ARRAY_SIZE(columns) && rc == SQLITE_OK; i++) {
		const struct column *c = &columns[i];
		int at = COL_LIFE + (int)i;

		if (c->choices == booleans)
			rc = u64_bind(s, at, *life_u8(l, c));
		else if (c->choices)
			rc = text_bind(s, at, slice_of(c->choices[*life_u8(l, c)]));
		else
			rc = u64_bind(s, at, *life_u64(l, c));
	}
	return rc;
}

int row_bind(sqlite3_stmt *s, const struct db_row *row)
{
	int rc = id_bind(s, COL_ID, &row->life.id);

	if (rc == SQLITE_OK)
		rc = u64_bind(s, COL_SEQ, row->seq);
	if (rc == SQLITE_OK)
		rc = text_bind(s, COL_BOOT, slice_of(row->boot));
	if (rc == SQLITE_OK)
		rc = life_bind(s, &row->life);
	return rc == SQLITE_OK ? text_bind(s, COL_TEXT, row->text) : rc;
}

int event_bind(sqlite3_stmt *s, const struct db_event *event)
{
	int rc = u64_bind(s, EV_SEQ, event->seq);

	if (rc == SQLITE_OK)
		rc = u64_bind(s, EV_WALL, event->wall_ns);
	if (rc == SQLITE_OK)
		rc = id_bind(s, EV_SANDBOX, &event->sandbox);
	return rc == SQLITE_OK ? text_bind(s, EV_TEXT, event->text) : rc;
}

int entry_bind(sqlite3_stmt *s, const struct db_entry *entry)
{
	int rc = id_bind(s, 0, &entry->id);

	return rc == SQLITE_OK ? text_bind(s, 1, entry->text) : rc;
}

/* Nothing but text: a number would be turned into one. */
static bool text_read(sqlite3_stmt *s, int column, struct slice *ret)
{
	if (sqlite3_column_type(s, column) != SQLITE_TEXT)
		return false;
	ret->p = (const char *)sqlite3_column_text(s, column);
	ret->n = (size_t)sqlite3_column_bytes(s, column);
	return ret->p;
}

static bool u64_read(sqlite3_stmt *s, int column, uint64_t *ret)
{
	int64_t v = sqlite3_column_int64(s, column);

	if (sqlite3_column_type(s, column) != SQLITE_INTEGER || v < 0)
		return false;
	*ret = (uint64_t)v;
	return true;
}

static bool id_read(sqlite3_stmt *s, int column, enum id_noun noun, struct id *ret)
{
	struct slice text;

	return text_read(s, column, &text) && id_parse(noun, text, ret) == 0;
}

static bool choice_read(sqlite3_stmt *s, int at, const struct column *c, uint8_t *ret)
{
	struct slice word;
	uint64_t number;
	unsigned choice;

	if (c->choices == booleans) {
		if (!u64_read(s, at, &number) || number > 1)
			return false;
		*ret = (uint8_t)number;
		return true;
	}
	if (!text_read(s, at, &word) || str_choice(word, c->choices, &choice) < 0)
		return false;
	*ret = (uint8_t)choice;
	return true;
}

static bool column_read(sqlite3_stmt *s, int at, const struct column *c, struct life *l)
{
	if (c->choices)
		return choice_read(s, at, c, life_u8(l, c));
	if (c->never && sqlite3_column_type(s, at) == SQLITE_NULL) {
		*life_u64(l, c) = LIFE_NEVER;
		return true;
	}
	return u64_read(s, at, life_u64(l, c));
}

static const char *row_read(sqlite3_stmt *s, struct db_row *ret)
{
	struct slice boot;

	if (!u64_read(s, COL_SEQ, &ret->seq))
		return "seq";
	if (!text_read(s, COL_BOOT, &boot) || boot.n != BOOT_ID_LEN)
		return "boot";
	memcpy(ret->boot, boot.p, BOOT_ID_LEN);
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		if (!column_read(s, COL_LIFE + (int)i, &columns[i], &ret->life))
			return columns[i].name;
	if (!text_read(s, COL_TEXT, &ret->text))
		return "text";
	ret->life.saved_ns = ret->life.active_ns;
	life_wake(&ret->life);
	return row_fault(ret);
}

static const char *event_read(sqlite3_stmt *s, struct db_event *ret)
{
	if (!u64_read(s, EV_SEQ, &ret->seq))
		return "seq";
	if (!u64_read(s, EV_WALL, &ret->wall_ns))
		return "wall_ns";
	return text_read(s, EV_TEXT, &ret->text) ? event_fault(ret) : "text";
}

static void tell_bad(const struct db_reader *to, const struct id *id, const char *what,
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

/* Step through a SELECT; -errno of `one` ends it. */
static int each(sqlite3 *sql, const char *text, uint64_t limit,
		int (*one)(sqlite3_stmt *s, const struct db_reader *to, struct cay_err *err),
		const struct db_reader *to, struct cay_err *err)
{
	sqlite3_stmt *s = NULL;
	int rc = sqlite3_prepare_v2(sql, text, -1, &s, NULL), r = 0;

	if (rc == SQLITE_OK)
		rc = u64_bind(s, 0, limit < DB_NUMBER_MAX ? limit : DB_NUMBER_MAX);
	while (rc == SQLITE_OK || rc == SQLITE_ROW) {
		rc = sqlite3_step(s);
		if (rc == SQLITE_ROW)
			r = one(s, to, err);
		if (r < 0)
			break;
	}
	if (r >= 0 && rc != SQLITE_DONE)
		r = cay_fail(err, db_code(rc, sqlite3_system_errno(sql)), "read " DB_NAME ": %s",
			     sqlite3_errmsg(sql));
	(void)sqlite3_finalize(s);
	return r;
}

static int one_row(sqlite3_stmt *s, const struct db_reader *to, struct cay_err *err)
{
	struct db_row row = {};
	const char *fault;

	if (!id_read(s, COL_ID, ID_SANDBOX, &row.life.id)) {
		tell_bad(to, NULL, "sandbox", "id");
		return 0;
	}
	fault = row_read(s, &row);
	if (fault) {
		tell_bad(to, &row.life.id, "sandbox", fault);
		return 0;
	}
	return to->row ? to->row(to->arg, &row, err) : 0;
}

static int one_event(sqlite3_stmt *s, const struct db_reader *to, struct cay_err *err)
{
	struct db_event event = {};
	bool has_id = id_read(s, EV_SANDBOX, ID_SANDBOX, &event.sandbox);
	const char *fault = has_id ? event_read(s, &event) : "sandbox";

	if (fault) {
		tell_bad(to, has_id ? &event.sandbox : NULL, "event of", fault);
		return 0;
	}
	return to->event ? to->event(to->arg, &event, err) : 0;
}

/* Ids begin with their noun, so that one in another's table is seen. */
static int one_entry(sqlite3_stmt *s, const struct entry_kind *kind, const struct db_reader *to,
		     struct cay_err *err)
{
	const char *what = kind->name, *fault = "text";
	struct db_entry entry = {};

	if (!id_read(s, 0, kind->noun, &entry.id)) {
		tell_bad(to, NULL, what, "id");
		return 0;
	}
	if (text_read(s, 1, &entry.text))
		fault = entry_fault(&entry);
	if (fault) {
		tell_bad(to, &entry.id, what, fault);
		return 0;
	}
	return to->entry ? to->entry(to->arg, &entry, err) : 0;
}

#define ONE(noun) \
	static int one_##noun(sqlite3_stmt *s, const struct db_reader *to, struct cay_err *err) \
	{ \
		return one_entry(s, entry_kind(noun), to, err); \
	}
ONE(ID_TENANT)
ONE(ID_KEY)
ONE(ID_TEMPLATE)

int entries_load(sqlite3 *sql, const struct db_reader *to, struct cay_err *err)
{
	static int (*const ones[ENTRY_KINDS])(sqlite3_stmt *, const struct db_reader *,
					      struct cay_err *) = { one_ID_TENANT, one_ID_KEY,
								    one_ID_TEMPLATE };
	int r = 0;

	for (size_t i = 0; i < ENTRY_KINDS && r >= 0; i++)
		r = each(sql, entry_kinds[i].all_sql, DB_NUMBER_MAX, ones[i], to, err);
	return r;
}

int rows_load(sqlite3 *sql, const struct db_reader *to, struct cay_err *err)
{
	return each(sql, "SELECT " ROW_COLUMNS " FROM sandbox ORDER BY seq, rowid LIMIT ?",
		    DB_NUMBER_MAX, one_row, to, err);
}

int events_load(sqlite3 *sql, const struct db_reader *to, struct cay_err *err)
{
	return each(sql,
		    "SELECT * FROM (SELECT " EVENT_COLUMNS
		    " FROM event ORDER BY seq DESC LIMIT ?) ORDER BY seq",
		    to->events, one_event, to, err);
}
