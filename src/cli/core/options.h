/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CORE_OPTIONS_H
#define CAY_CLI_CORE_OPTIONS_H
/*
 * options - parse the options of a command by its table
 *
 *	--name N   --name=N   -u USER   -uUSER   -di   --
 *
 * Options and operands may be in any order up to "--"; words after it are not parsed.  Help,
 * the man page and completion use the same rows.  An option given twice is refused unless
 * it collects values.
 */
#include "base/arena.h"
#include "base/err.h"
#include "ops/field.h"

enum opt_type {
	OPT_FLAG,     /* bool */
	OPT_TEXT,     /* const char * */
	OPT_U64,      /* uint64_t */
	OPT_BYTES,    /* uint64_t, "512Mi" */
	OPT_MILLI,    /* uint64_t, "500m", "2" */
	OPT_DURATION, /* uint64_t in ms, "15m" */
	OPT_CHOICE,   /* unsigned: a choice of the table's member */
	OPT_PAIRS,    /* struct field_map, "K=V", may be repeated */
	OPT_TEXTS,    /* struct field_texts, may be repeated */
	OPT_NUM_TYPES
};

#define OPT_PAIRS_MAX 256

/* The kind of object a word names, for completion. */
enum operand {
	OPERAND_FREE,
	OPERAND_FILE, /* local */
	OPERAND_COMMAND,
	OPERAND_CONTEXT,
	OPERAND_SHELL,
	OPERAND_SANDBOX,              /* from here on completed by the server */
	OPERAND_ANY_SANDBOX,          /* found even if it has ended */
	OPERAND_LOCAL_OR_REMOTE_PATH, /* a local file, or NAME:PATH */
	OPERAND_SERVICE,              /* of the sandbox before it */
	OPERAND_KERNEL,               /* of the sandbox before it */
	OPERAND_GROUP,
	OPERAND_IMAGE,
	OPERAND_TEMPLATE,
	OPERAND_SNAPSHOT,
	OPERAND_VOLUME,
	OPERAND_TENANT,
	OPERAND_KEY,
	OPERAND_NUM
};

struct opt {
	const char *name; /* without dashes */
	char letter;      /* 0: none */
	enum opt_type type;
	size_t offset;
	uint64_t min, max;               /* of a number; 0, 0: any */
	enum operand operand;            /* kind of the value */
	const char *arg;                 /* placeholder of the value in help */
	const struct field_table *table; /* OPT_CHOICE */
	const char *member;              /* OPT_CHOICE: of that table */
	const char *help;
};

/* Options that fill one struct, which may lie inside a larger one. */
struct opt_group {
	const struct opt *rows;
	size_t n;
	size_t base;
};

#define OPT_GROUPS_MAX 4

struct opt_words {
	const char **operands; /* before "--" */
	size_t n_operands;
	const char *const *rest; /* after it, ended by NULL; NULL: no "--" */
	size_t n_rest;
};

/* words ends with NULL.  On CAY_E_INVALID, *ret_near is an option similar to the unknown
 * one, or NULL. */
[[nodiscard]] int opt_parse_words(const struct opt_group *groups, const char *const *words,
				  size_t n, struct arena *arena, void *args, struct opt_words *ret,
				  const char **ret_near, struct cay_err *err);
/* How many words come before the command that follows so many operands: it begins with the first
 * word after them that is no option, or after "--", which is not counted. */
size_t opt_count_own_words(const struct opt_group *groups, const char *const *words, size_t n,
			   size_t operands);
/* "-u, --user USER" */
[[nodiscard]] int opt_format_spelling(const struct opt *o, struct buf *ret);
/* The choices of a member of a table, ended by NULL. */
const char *const *opt_list_choices(const struct opt *o);
#endif
