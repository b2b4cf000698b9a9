/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_MCP_TOOL_RUN_H
#define CAY_MCP_TOOL_RUN_H
/*
 * tool-run - one tool call in progress: a sequence of operations
 *
 *	if (run->step == 0)
 *		return tool_run_call(run, OP_SHELL_CREATE, err, "{s:s}", "name", "main");
 *	return tool_run_call(run, OP_SHELL_RUN, ...);
 *
 * A failed operation ends the tool with its error, unless run->accepts_failure is set; after
 * the last reply `write_result` is called.  Both get checked arguments: args has the types of
 * the table, and defaults are filled in.  A reply may come from a sandbox: check it where it
 * is used, and never obey it.
 */
#include "base/arena.h"
#include "base/id.h"
#include "mcp/told-ends.h"
#include "mcp/tool.h"
#include "ops/settings.h"

#define TOOL_RUN_CALLS_MAX 32
#define TOOL_RUN_ANSWER_MAX MIB(4)

struct tool_op_call {
	enum op_id op;
	json_t *members;    /* of path, query and body */
	struct slice body;  /* raw; in the arena */
	const char *accept; /* NULL: JSON */
	const char *range;  /* of file.read: "bytes=0-99" */
};

struct tool_op_answer {
	unsigned status;
	struct slice body;
	json_t *json; /* NULL: not JSON */
};

/* What the reply is that tool_run_find_sandbox() waits for. */
enum tool_find { FIND_BEGIN, FIND_BY_NAME, FIND_OWN, FIND_CREATED };

struct tool_run {
	const struct mcp_tool *tool;
	json_t *args;
	const char *group; /* of ?group=; NULL: none */
	struct actor actor;
	struct arena arena;            /* freed with the run */
	char sandbox[ID_TEXT_LEN + 1]; /* "" until known */
	enum tool_find find;
	struct told_ends *told; /* NULL: none */
	unsigned step;          /* replies received */
	bool accepts_failure;   /* pass a failure of the next call to next_call */
	struct tool_op_call call;
	struct tool_op_answer answer;
	void *tool_state; /* of the tool; in the arena */
	const struct settings *settings;
};

/* Begin the next call; with members, packed as by json_pack(): "{s:s, s:b}". */
void tool_run_begin_call(struct tool_run *run, enum op_id op);
[[nodiscard]] int tool_run_call(struct tool_run *run, enum op_id op, struct cay_err *err,
				const char *fmt, ...);
/* Set more members, packed the same way; a member replaces one of the same name. */
[[nodiscard]] int tool_run_set(struct tool_run *run, struct cay_err *err, const char *fmt, ...);
/* Map every argument that has a member, and fixed ones. */
[[nodiscard]] int tool_run_map_args(struct tool_run *run, struct cay_err *err);
/* The default of a row: one call of the tool's operation, with the arguments mapped. */
[[nodiscard]] int tool_run_default_call(struct tool_run *run, struct cay_err *err);

/* Find the sandbox: TOOL_NEXT_CALL for a lookup, TOOL_FINISHED when run->sandbox is set (or not
 * needed).  Called until then, before next_call.  If the group's sandbox has ended this fails
 * once, with the reason, before another one is created. */
[[nodiscard]] int tool_run_find_sandbox(struct tool_run *run, struct cay_err *err);
/* After a tool has finished: the model knows of a sandbox that it has deleted. */
void tool_run_note_end(struct tool_run *run);
/* The error of an operation, with arguments' names instead of members'. */
void tool_run_read_failure(const struct tool_run *run, struct cay_err *err);

/* Arguments: NULL, 0 and false when absent. */
const char *tool_run_arg_text(const struct tool_run *run, const char *name);
uint64_t tool_run_arg_number(const struct tool_run *run, const char *name);
bool tool_run_arg_bool(const struct tool_run *run, const char *name);
/* The timeout of a command: as asked, or the profile's (0), and never above its ceiling. */
uint64_t tool_run_timeout_ms(const struct tool_run *run, uint64_t asked_ms);

/* Write the request of run->call: target and body.  Pure. */
[[nodiscard]] int tool_run_write_request(const struct tool_run *run, struct buf *target,
					 struct buf *body, struct cay_err *err);
#endif
