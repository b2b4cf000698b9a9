/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TEXT_CONF_H
#define CAY_TEXT_CONF_H
/* conf - the configuration file, read strictly from one table
 *
 *	# comment
 *	[section]
 *	key = value
 *
 * An unknown section or key, a key set twice, a value of the wrong type or outside its range, a
 * control character or a line that is none of the three forms above is an error that names the
 * line.  '#' begins a comment only at the start of a line; a value goes to the end of its line.  A
 * variable CAY_SECTION_KEY ('-' becomes '_') overrides the file.
 *
 * The same table writes the sample file and the man page, so neither can disagree with the
 * reader. */
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum conf_type {
	CONF_U64,      /* uint64_t */
	CONF_BYTES,    /* uint64_t, "512Mi" */
	CONF_DURATION, /* uint64_t in ms, "15m" */
	CONF_BOOL,     /* bool, "yes" or "no" */
	CONF_CHOICE,   /* unsigned, an index into choices */
	CONF_PATH,     /* char[max + 1], absolute */
	CONF_WORD,     /* char[max + 1], a-z 0-9 - _ */
	CONF_TEXT,     /* char[max + 1], words with a space between them; may be empty */
	CONF_NUM_TYPES
};

struct conf_key {
	const char *section, *key;
	enum conf_type type;
	size_t offset;              /* in the settings struct */
	uint64_t min, max;          /* of the number, or of the text's length */
	const char *value;          /* the default, as in the file */
	const char *const *choices; /* CONF_CHOICE: ended by NULL */
	bool live;                  /* SIGHUP applies a change; else a restart does */
	const char *help;
};

struct conf_table {
	const struct conf_key *keys;
	size_t n;
};

#define CONF_KEYS_MAX 256

/* Where the value of a key comes from. */
enum conf_from { CONF_FROM_DEFAULT, CONF_FROM_FILE, CONF_FROM_VARIABLE, CONF_FROM_NUM };
struct conf_origin {
	enum conf_from from;
	unsigned line; /* of the file */
};

/* The defaults; a default that its own row refuses is a bug and asserts. */
void conf_set_defaults(const struct conf_table *t, void *settings);
/* name is the file's name in errors.  On failure *settings is partly changed. */
[[nodiscard]] int conf_parse(const struct conf_table *t, struct slice text, const char *name,
			     void *settings, struct cay_err *err);
/* env as in environ. */
[[nodiscard]] int conf_apply_env(const struct conf_table *t, const char *const *env, void *settings,
				 struct cay_err *err);
/* The same two, and where each value comes from: an array with an element per key, zeroed. */
[[nodiscard]] int conf_parse_traced(const struct conf_table *t, struct slice text, const char *name,
				    void *settings, struct conf_origin *origins,
				    struct cay_err *err);
[[nodiscard]] int conf_apply_env_traced(const struct conf_table *t, const char *const *env,
					void *settings, struct conf_origin *origins,
					struct cay_err *err);
/* The value of a key as the file spells it. */
[[nodiscard]] int conf_value_format(const struct conf_key *k, const void *settings,
				    struct buf *ret);
/* CAY_SECTION_KEY */
[[nodiscard]] int conf_env_name(const struct conf_key *k, struct buf *ret);
/* The values of a key, in words: "a number from 1 to 30000". */
[[nodiscard]] int conf_describe(const struct conf_key *k, struct buf *ret);
/* A sample file: every key with its default, commented out. */
[[nodiscard]] int conf_write_sample(const struct conf_table *t, struct buf *ret);
/* The keys as scdoc source, a section each. */
[[nodiscard]] int conf_write_man(const struct conf_table *t, struct buf *ret);
#endif
