/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_MCP_TOOL_H
#define CAY_MCP_TOOL_H
/*
 * tool - the tool table: what a model is shown, and which operation each tool is
 *
 *	tools.def          native tools; includes the others at its end
 *	tools-PROFILE.def  names and arguments of another product, one to one
 *	tool.c             the table; tool-schema.c: as JSON Schema; tool-args.c: arguments checked
 *	profile*.c         ask and show functions of the rows that need their own (profile.h)
 *	tool-run.h, tool-result.h    what those functions have: calls of operations, and content
 *
 * A tool is a row: a profile, a name, arguments, an operation, how its answer is shown.
 * An argument says what it is called, what it may be, and which member of the operation it
 * becomes.  Where that member travels is the operation's business: in its path, its query
 * or its JSON body, looked up in this order; TOOL_BODY is a raw body.  So most tools have no
 * code.  One that needs several calls, or another layout, names a function for it: `ask`
 * says what is called next, `show` writes content.  Neither does anything itself; all that
 * is done is done by operations, asked for with the caller's own credential.
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

struct profile {
	const char *name; /* as in ?profile= */
	const char *help;
	const char *instructions; /* instructions, for models */
};
extern const struct profile profiles[PROFILE_NUM];

enum tool_type {
	TOOL_TEXT, /* min and max are bytes */
	TOOL_INT,  /* a whole number; sent times `scale` */
	TOOL_REAL, /* any number; sent times `scale`, rounded */
	TOOL_BOOL,
	TOOL_CHOICE, /* one of `choices` */
	TOOL_TEXTS,  /* array of text; min and max are how many */
	TOOL_INTS,   /* array of whole numbers, the same */
	TOOL_MAP,    /* object of text */
	TOOL_OBJECT, /* `sub` says what is in it */
	TOOL_LIST,   /* array of such objects */
	TOOL_ANY,    /* an object, whatever is in it: for `ask` to look into */
	TOOL_FIXED,  /* no argument at all: `preset` is always sent */
	TOOL_NUM_TYPES
};

#define TOOL_BODY "@body" /* as: the raw body of the request */
#define TOOL_ARGS_MAX 32

struct tool_arg {
	const char *name; /* what the model calls it */
	const char *as;   /* member of the operation; NULL: ask and show look at it */
	enum tool_type type;
	bool required;
	uint64_t min, max;
	uint64_t scale;     /* 0 is 1; seconds to milliseconds: 1000 */
	const char *preset; /* JSON; what is sent, and shown as the default, when it is absent */
	const char *const *choices;
	const struct tool_arg *sub; /* ends with a row without a name */
	bool nulls;                 /* of a map: null is "" */
	const char *help;
};

/* What MCP calls annotations, and what a row wants of us. */
enum tool_hint {
	TOOL_READ_ONLY = 1 << 0,   /* changes nothing */
	TOOL_DESTRUCTIVE = 1 << 1, /* what it changes may be lost */
	TOOL_IDEMPOTENT = 1 << 2,  /* twice is as once */
	TOOL_OPEN_WORLD = 1 << 3,  /* reaches beyond the sandbox */
	TOOL_DEFAULT_SANDBOX =
		1 << 4, /* without a sandbox argument: that of the group, made if need be */
};

struct tool_run;
struct tool_result;

/* What is called next: TOOL_CALLS when run's call is filled in, TOOL_SHOWN when the result
 * is written.  Called once at the beginning and once for every answer. */
enum tool_next { TOOL_NEXT_CALL, TOOL_FINISHED };
typedef int tool_next_call_fn(struct tool_run *run, struct cay_err *err);
/* The answer, as content. */
typedef int tool_write_result_fn(struct tool_run *run, struct tool_result *out,
				 struct cay_err *err);

struct mcp_tool {
	enum tool_profile profile;
	const char *name, *title;
	enum op_id op; /* the one it is, or whose scope it needs when ask makes several */
	unsigned hints;
	const struct tool_arg *args;  /* ends with a row without a name or a member */
	tool_next_call_fn *next_call; /* NULL: the operation, once, by the arguments' members */
	tool_write_result_fn *write_result; /* NULL: the answer as JSON */
	const char *help;
};

extern const struct mcp_tool mcp_tools[];
extern const size_t n_mcp_tools;

/* NULL: there is none of that name. */
const struct profile *profile_find(struct slice name);
const struct mcp_tool *tool_find(enum tool_profile profile, struct slice name);
/* Whether whoever asks may call it at all; what it may do is the operation's to say. */
bool tool_is_allowed(const struct mcp_tool *t, const struct actor *a);

/* Arguments as JSON Schema; one tool as tools/list has it. */
void tool_schema_write(const struct mcp_tool *t, const char *key, struct jw *w);
void tool_describe(const struct mcp_tool *t, struct jw *w);

/* Check what a model sent, and fill in presets.  The failure is for the model: it names the
 * argument, says what is wrong with it and what would do.  args NULL is {}; the caller owns
 * *ret. */
[[nodiscard]] int tool_args_check(const struct mcp_tool *t, json_t *args, json_t **ret,
				  struct cay_err *err);
#endif
