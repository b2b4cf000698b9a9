/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_MCP_PROFILES_PROFILE_PARTS_H
#define CAY_MCP_PROFILES_PROFILE_PARTS_H
/*
 * profile-parts - shared by the tools of several profiles
 *
 * Everything read here is a reply and may come from a sandbox: a member that is absent or of
 * another type is empty, never an error of ours.
 */
#include "mcp/profiles/profile.h"
#include "mcp/tool-result.h"
#include "mcp/tool-run.h"

/* A member as text; empty when it is not text. */
struct slice json_member_text(const json_t *o, const char *name);
/* The same as a C string. */
const char *json_member_str(const json_t *o, const char *name);
uint64_t json_member_number(const json_t *o, const char *name);
bool json_member_true(const json_t *o, const char *name);
/* Set a member; NULL counts as no memory. */
[[nodiscard]] int json_member_put(json_t *o, const char *name, json_t *stolen);
/* Set a member to that of another object, if that has it. */
[[nodiscard]] int json_member_copy(json_t *o, const char *name, const json_t *from,
				   const char *member);
/* A file name: member, or "base64:..." for one that is not UTF-8. */
[[nodiscard]] int json_member_filename(const json_t *o, const char *member, struct buf *out);
/* A member of a stream, such as "stdout" "_offset"; 0 or empty when it is of another type. */
uint64_t json_stream_number(const json_t *o, const char *stream, const char *what);
struct slice json_stream_text(const json_t *o, const char *stream, const char *what);
/* The error of a reply received with accepts_failure, or NULL.  Its status decides, not its
 * contents. */
const char *tool_run_failure_text(struct tool_run *run);

/* Output of a command, with the middle of a long one omitted; id: for `output` to read on, or
 * "". */
void tool_result_add_stream(const json_t *answer, const char *stream, const char *id,
			    struct tool_result *out);
void tool_result_add_streams(const json_t *answer, const char *id, struct tool_result *out);
/* A status or a signal is the command's own result; an end by a limit, such as timeout or oom, is
 * not. */
bool end_is_result(const json_t *end);
/* "[exit 1]"; run: the call of the command, or NULL. */
[[nodiscard]] int end_add_text(const struct tool_run *run, const json_t *end, struct buf *out);
/* The same as content; an end by a limit is an error. */
void tool_result_add_exit(const struct tool_run *run, const json_t *end, struct tool_result *out);

/* Set an object as text and as data, for write_result to return: 0. */
int tool_result_set_json(struct tool_result *out, json_t *stolen);
/* The same, packed as by json_pack(). */
int tool_result_pack(struct tool_result *out, const char *fmt, ...);
/* Results so far, kept with the arguments: no argument has that name. */
#define TOOL_ROWS "@rows"
/* Results of a tool with a call for each entry of a list; one with an "error" makes the tool's
 * result an error. */
[[nodiscard]] int tool_run_add_row(struct tool_run *run, json_t *stolen, struct cay_err *err);
int tool_run_write_rows(struct tool_run *run, const char *member, struct tool_result *out);

/* Lines for a model, at most RESULT_TEXT bytes; lines that do not fit are counted. */
struct result_lines {
	struct buf text;
	size_t left_out;
};
#define RESULT_LINES_INIT ((struct result_lines){ .text = BUF_INIT(RESULT_TEXT) })
#define auto_lines CAY_CLEANUP(result_lines_fini) struct result_lines
__attribute__((format(printf, 2, 3))) void result_lines_printf(struct result_lines *l,
							       const char *fmt, ...);
/* none: the text for no lines; more: the reply itself was incomplete.  Returns 0. */
int result_lines_end(struct result_lines *l, const char *none, bool more, struct tool_result *out);
void result_lines_fini(struct result_lines *l);

/* Limit the output in the reply of the exec.run in run->call, unless it is detached. */
[[nodiscard]] int exec_tool_limit_output(struct tool_run *run, struct cay_err *err);
/* exec.run by the arguments, with the settings' timeout unless detached or given. */
[[nodiscard]] int exec_tool_next_call(struct tool_run *run, struct cay_err *err);

/* A persistent shell by its name: found or created, then used to run a command.  Without a command
 * it is only created; restart deletes an existing one. */
struct shell_tool_request {
	const char *name, *command;
	uint64_t timeout_ms;
	bool restart;
};
[[nodiscard]] int shell_tool_next_call(struct tool_run *run, const struct shell_tool_request *want,
				       struct cay_err *err);
/* The run's output and end, and the shell's directory. */
[[nodiscard]] int shell_tool_write_result(struct tool_run *run, struct tool_result *out,
					  struct cay_err *err);

/* Decode base64 as the raw body of the call; arg is named in the error. */
[[nodiscard]] int tool_run_set_base64_body(struct tool_run *run, const char *arg,
					   struct slice base64, struct cay_err *err);

/* file.view; then file.read for binary files, or file.view without numbers for lines that are not
 * UTF-8: both are shown as base64, or as an image. */
[[nodiscard]] int file_view_next_call(struct tool_run *run, const char *path, uint64_t first,
				      uint64_t limit, struct cay_err *err);
[[nodiscard]] int file_view_write_result(struct tool_run *run, struct tool_result *out,
					 struct cay_err *err);

/* file.edit with one change. */
[[nodiscard]] int file_edit_begin_call(struct tool_run *run, const char *path, const char *kind,
				       const char *old, const char *text, uint64_t line,
				       struct cay_err *err);
#endif
