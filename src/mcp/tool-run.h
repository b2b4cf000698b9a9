/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_MCP_TOOL_RUN_H
#define CAY_MCP_TOOL_RUN_H
/*
 * run - one tool call under way: operations asked for one after the other
 *
 *	int ask_something(struct tool_run *run, struct cay_err *err)
 *	{
 *		if (run->step == 0) {
 *			tool_run_begin_call(run, OP_SHELL_CREATE);
 *			return tool_run_set_text(run, "name", "main", err);	(TOOL_CALLS is 0)
 *		}
 *		tool_run_begin_call(run, OP_SHELL_RUN);
 *		...
 *	}
 *
 * An answer that is a failure ends the tool with that failure, unless run->hears is set;
 * behind the last answer `show` is called.  ask and show are given what is checked: args has
 * the types of the table, and presets are filled in.  What an operation answered may be a
 * sandbox's word: it is checked where it is looked at, and never obeyed.
 */
#include "base/arena.h"
#include "base/id.h"
#include "mcp/tool.h"
#include "ops/settings.h"

#define TOOL_RUN_CALLS_MAX 32
#define TOOL_RUN_ANSWER_MAX MIB(4)

struct tool_op_call {
	enum op_id op;
	json_t *members;    /* of path, query and body */
	struct slice body;  /* raw; lives in the pool */
	const char *accept; /* NULL: JSON */
	const char *range;  /* of file.read: "bytes=0-99" */
};

struct tool_op_answer {
	unsigned status;
	struct slice media, body;
	json_t *json; /* NULL: it is not JSON */
};

struct tool_run {
	const struct mcp_tool *tool;
	json_t *args;
	const char *group; /* of ?group=; NULL: none */
	struct actor actor;
	struct arena arena;            /* dies with the run */
	char sandbox[ID_TEXT_LEN + 1]; /* which one is meant, once that is known */
	unsigned step;                 /* answers that came */
	bool accepts_failure;          /* ask is given failures, too; of the next call only */
	struct tool_op_call call;
	struct tool_op_answer answer;
	void *tool_state; /* the tool's, from the pool */
	const struct settings *settings;
};

/* The next call, and its members; each replaces one of that name.  All return -errno. */
void tool_run_begin_call(struct tool_run *run, enum op_id op);
[[nodiscard]] int tool_run_set_json(struct tool_run *run, const char *member, json_t *stolen,
				    struct cay_err *err);
[[nodiscard]] int tool_run_set_text(struct tool_run *run, const char *member, const char *text,
				    struct cay_err *err);
[[nodiscard]] int tool_run_set_number(struct tool_run *run, const char *member, uint64_t n,
				      struct cay_err *err);
/* Every argument that has a member, and fixed ones: what a row without ask does. */
[[nodiscard]] int tool_run_map_args(struct tool_run *run, struct cay_err *err);

/* Which sandbox is meant: TOOL_CALLS to find out, TOOL_SHOWN when run->sandbox says it (or
 * the tool is of none).  Called until then, in front of ask. */
[[nodiscard]] int tool_run_find_sandbox(struct tool_run *run, struct cay_err *err);
/* The failure of an operation, in the model's words: of arguments, not of members. */
void tool_run_read_failure(const struct tool_run *run, struct cay_err *err);

/* Arguments: NULL, 0 and false when absent. */
const char *tool_run_arg_text(const struct tool_run *run, const char *name);
uint64_t tool_run_arg_number(const struct tool_run *run, const char *name);
bool tool_run_arg_bool(const struct tool_run *run, const char *name);

/* The request of run->call as it goes out: METHOD, target, JSON body.  Pure. */
[[nodiscard]] int tool_run_write_request(const struct tool_run *run, struct buf *target,
					 struct buf *body, struct cay_err *err);
#endif
