/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OPS_FIELD_H
#define CAY_OPS_FIELD_H
/* field - one table per JSON object: it decodes, encodes, documents and shows
 *
 * A table row gives the name of a member, its place in the C struct, its constraints and an
 * example; everything else is derived. field_decode() fills a zeroed struct from JSON (unknown,
 * duplicate, missing and mistyped members are refused by name), field_decode_query() does so from a
 * query string, field_encode() writes the struct back, field_schema_write() writes JSON Schema,
 * field_example_write() an object that field_decode() accepts.
 *
 * If a table has `given`, the struct records which members were present: field_merge() fills the
 * others from another struct, and field_encode() writes only those given, unless none was.
 *
 * null means absent.  An absent number takes the row's default; where absent must differ from 0 the
 * row names a bool for it.  Text, lists and maps live in the request's arena and are freed with
 * it. */
#include "base/arena.h"
#include "base/err.h"
#include "base/id.h"
#include "base/jsonw.h"
#include "text/json.h"

enum field_type {
	FIELD_BOOL,   /* bool */
	FIELD_U64,    /* uint64_t */
	FIELD_BYTES,  /* uint64_t; a number or "512Mi" */
	FIELD_MILLI,  /* uint64_t; a number of thousandths or "500m", "2" */
	FIELD_TEXT,   /* const char *, NULL when absent */
	FIELD_ENUM,   /* unsigned, an index into choices */
	FIELD_ID,     /* struct id */
	FIELD_TIME,   /* uint64_t, nanoseconds since 1970 */
	FIELD_TEXTS,  /* struct field_texts */
	FIELD_MAP,    /* struct field_map */
	FIELD_OBJECT, /* a struct, described by sub */
	FIELD_LIST,   /* struct field_list of such structs */
	FIELD_NUM_TYPES
};

struct field_texts {
	const char **v;
	size_t n;
};

struct field_map {
	const char **keys, **values;
	size_t n;
};

struct field_list {
	void *v; /* n structs of the sub table's size */
	size_t n;
};

/* Constraints on text, beyond valid UTF-8 without NUL. */
enum field_check {
	CHECK_ANY,
	CHECK_NAME,    /* a DNS label */
	CHECK_SANDBOX, /* the name of a sandbox: text/sandbox-name.h */
	CHECK_LABEL,   /* Kubernetes label values (maps: and keys) */
	CHECK_ENV,     /* maps: keys are variable names */
	CHECK_PATH,    /* absolute */
	CHECK_WORD,    /* printable ASCII without space */
	CHECK_ZONE,    /* a time zone as IANA names them */
	CHECK_FILE,    /* names joined by '/', without control characters, "." and ".." */
	CHECK_PORTS,   /* texts: a port, which may also be a number, or a range such as 8000-8010 */
	CHECK_NUM
};

struct field;

struct field_table {
	const char *name; /* of the schema */
	const char *help;
	size_t size; /* of the C struct */
	const struct field *rows;
	size_t n;
	size_t given; /* offset of a uint64_t plus one, or 0: a bit for each row that was there */
};

struct field {
	const char *name;
	enum field_type type;
	size_t offset;
	size_t has; /* offset of a bool plus one, or 0: set when present */
	bool required;
	bool patch;        /* FIELD_MAP: an entry may be null (NULL), which removes it */
	uint64_t min, max; /* of the number, the text's length, the list's length */
	uint64_t preset;   /* the number when absent */
	enum field_check check;
	enum id_noun noun;
	const char *const *choices; /* FIELD_ENUM: n_choices names, then NULL */
	unsigned n_choices;
	const struct field_table *sub;
	const char *example; /* as text; FIELD_TEXTS separated by '|', FIELD_MAP a=b; NULL: none */
	const char *help;
};

[[nodiscard]] int field_decode(const struct field_table *t, const json_t *j, struct arena *arena,
			       void *ret, struct cay_err *err);
/* From its text, within these limits. */
[[nodiscard]] int field_decode_text(const struct field_table *t, struct slice text,
				    const struct json_limits *limits, struct arena *arena,
				    void *ret, struct cay_err *err);
/* Members not given in `over` are taken from base; maps are joined, with over's entries
 * before base's.  For tables with `given`. */
[[nodiscard]] int field_merge(const struct field_table *t, const void *base, void *over,
			      struct arena *arena);
/* A list of t's structs, with all that is in them from this pool. */
[[nodiscard]] int field_list_copy(const struct field_table *t, const struct field_list *in,
				  struct arena *arena, struct field_list *ret);
/* query is the part after '?'; only scalar rows can be in it, and plain digits are a number. */
[[nodiscard]] int field_decode_query(const struct field_table *t, struct slice query,
				     struct arena *arena, void *ret, struct cay_err *err);
/* A value no client could have sent (an enum without a name, a missing required member)
 * makes jw_finish() fail. */
void field_encode(const struct field_table *t, const char *key, const void *in, struct jw *w);
void field_schema_write(const struct field_table *t, const char *key, struct jw *w);
/* The schema of one row, as OpenAPI parameters need it. */
void field_schema_write_row(const struct field *f, const char *key, struct jw *w);
/* That of the values of a map: text of a pattern or any (NULL), and nulls where they remove. */
void field_schema_write_values(bool nulls, const char *pattern, struct jw *w);
/* An object that field_decode() accepts.  Objects that may be absent are left out, and text
 * without an example. */
void field_example_write(const struct field_table *t, const char *key, struct jw *w);
/* Only the rows in `names`: words, with members of an object or a list after a dot. */
void field_example_write_some(const struct field_table *t, const char *names, const char *key,
			      struct jw *w);
/* Of one row, as OpenAPI parameters need it. */
void field_example_write_row(const struct field *f, const char *key, struct jw *w);
/* Whether a word of names is `name`, or with a top `top.name`. */
bool field_names_contain(const char *names, const char *top, const char *name);
/* The same as field_encode() would write it: the form clients see. */
void field_example_write_reply(const struct field_table *t, const char *key, struct jw *w);
const char *field_type_name(enum field_type type);
#endif
