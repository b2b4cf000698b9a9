/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_MCP_TOOL_H
#define CAY_MCP_TOOL_H
/*
 * tool - the table of tools: what a model sees, and the operation behind each tool
 *
 *	profiles/tools.def          native tools; includes the others at its end
 *	profiles/tools-PROFILE.def  names and arguments of another product, one to one
 *	profiles/limits.def         its timeouts, how it cuts output, the shape of its results
 *	profiles/tool-table.c       the table
 *	profiles/profile-*.c        functions of the rows that need their own (profile.h)
 *	tool-schema.c, tool-args.c  arguments as JSON Schema, and checked
 *	tool-run.h, tool-result.h   calls of operations, and content, for those functions
 *	tool-hint.c, hints.def      what a model can do about an error
 *
 * A tool is a row: a profile, a name, arguments, an operation, how its reply is shown.  An
 * argument has a name, limits, and the member of the operation it becomes.  The operation
 * decides where that member goes: its path, its query or its JSON body, looked up in this
 * order; TOOL_BODY is a raw body.  So most tools have no code.  One that needs several calls,
 * or another layout, names functions: `next_call` prepares the next call, `write_result`
 * writes content.  Neither has side effects; everything is done by operations, called with
 * the caller's own credential.
 *
 * Pure: no I/O, no clock.
 */
#include "base/jsonw.h"
#include "ops/actor.h"
#include "text/json.h"

enum tool_profile {
#define CAY_PROFILE(sym, name, help, says) PROFILE_##sym,
#include "mcp/profiles/profiles.def"
#undef CAY_PROFILE
	PROFILE_NUM
};

enum output_cut { CUT_MIDDLE, CUT_HALVES, CUT_CHARS, CUT_LINES };
enum result_shape { SHAPE_PLAIN, SHAPE_HUB };

/* A row of limits.def, which says what its columns are. */
struct profile_limits {
	uint64_t timeout_ms, ceiling_ms;
	enum output_cut cut;
	size_t stdout_max, stderr_max, lines_max, chars_max;
	enum result_shape shape;
};
extern const struct profile_limits profile_limits[PROFILE_NUM];

struct profile {
	const char *name; /* as in ?profile= */
	const char *help;
	const char *instructions; /* for models */
};
extern const struct profile profiles[PROFILE_NUM];

enum tool_type {
	TOOL_TEXT, /* min and max are bytes */
	TOOL_INT,  /* an integer; multiplied by `scale` */
	TOOL_REAL, /* any number; multiplied by `scale`, rounded */
	TOOL_BOOL,
	TOOL_CHOICE, /* one of `choices` */
	TOOL_TEXTS,  /* array of text; min and max count entries */
	TOOL_INTS,   /* array of integers, the same */
	TOOL_MAP,    /* object of text */
	TOOL_OBJECT, /* members in `sub` */
	TOOL_LIST,   /* array of such objects */
	TOOL_ANY,    /* an object, interpreted by next_call */
	TOOL_FIXED,  /* not an argument: `preset` is always sent */
	TOOL_ALIAS,  /* another name of the argument `as`; accepted, not in the schema */
	TOOL_NUM_TYPES
};

#define TOOL_BODY "@body" /* value of `as`: the raw body of the request */
#define TOOL_ARGS_MAX 32

struct tool_arg {
	const char *name; /* in the tool's schema */
	const char *as;   /* member of the operation; NULL: used by next_call or write_result */
	enum tool_type type;
	bool required;
	uint64_t min, max;
	bool either_sign;   /* of a number: from -max */
	uint64_t scale;     /* 0 is 1; seconds to milliseconds: 1000 */
	const char *preset; /* JSON; the default */
	const char *const *choices;
	const struct tool_arg *sub; /* ended by a row without a name */
	bool nulls;                 /* for a map: null becomes "" */
	const char *help;
};

/* Annotations of MCP, and three of ours. */
enum tool_hint {
	TOOL_READ_ONLY = 1 << 0,   /* changes nothing */
	TOOL_DESTRUCTIVE = 1 << 1, /* may destroy data */
	TOOL_IDEMPOTENT = 1 << 2,  /* repeating it has no further effect */
	TOOL_OPEN_WORLD = 1 << 3,  /* reaches beyond the sandbox */
	/* without a sandbox argument: the group's, created on demand */
	TOOL_DEFAULT_SANDBOX = 1 << 4,
	/* without a sandbox argument: the group's, if there is one */
	TOOL_OWN_SANDBOX = 1 << 5,
	/* its operation refuses a token of one sandbox */
	TOOL_OF_TENANT = 1 << 6,
};

struct tool_run;
struct tool_result;

/* Prepare the next call: TOOL_NEXT_CALL when run->call is filled in, TOOL_FINISHED when the result
 * can be written.  Called once at the beginning and once for every reply. */
enum tool_next { TOOL_NEXT_CALL, TOOL_FINISHED };
typedef int tool_next_call_fn(struct tool_run *run, struct cay_err *err);
/* Write the reply as content. */
typedef int tool_write_result_fn(struct tool_run *, struct tool_result *out, struct cay_err *err);

struct mcp_tool {
	enum tool_profile profile;
	const char *name, *title;
	enum op_id op; /* the operation; of several, the one whose scope is needed */
	unsigned hints;
	const struct tool_arg *args;        /* ended by a row without a name or a member */
	tool_next_call_fn *next_call;       /* NULL: one call of the operation */
	tool_write_result_fn *write_result; /* NULL: the reply as JSON */
	const char *help;
};

extern const struct mcp_tool mcp_tools[];
extern const size_t n_mcp_tools;

/* NULL: no such name. */
const struct profile *profile_find(struct slice name);
const struct mcp_tool *tool_find(enum tool_profile profile, struct slice name);
/* Whether the caller's scope allows the tool; the operation decides the rest. */
bool tool_is_allowed(const struct mcp_tool *t, const struct actor *a);

/* Arguments as JSON Schema; one tool as tools/list has it. */
void tool_schema_write(const struct mcp_tool *t, const char *key, struct jw *w);
void tool_describe(const struct mcp_tool *t, struct jw *w);

/* Check a model's arguments and fill in defaults.  The error is written for the model: it names the
 * argument, the problem and valid values.  args NULL is {}; the caller owns *ret. */
[[nodiscard]] int tool_args_check(const struct mcp_tool *t, json_t *args, json_t **ret,
				  struct cay_err *err);

/* What a model can do about an error of this operation; "": nothing to add. */
const char *tool_hint_find(enum op_id op, const struct cay_err *err);
#endif
