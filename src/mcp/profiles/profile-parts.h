/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_MCP_PROFILES_PROFILE_PARTS_H
#define CAY_MCP_PROFILES_PROFILE_PARTS_H
/*
 * profile-parts - what tools of several profiles do alike
 *
 * All that is read here is an answer, and so may be a sandbox's word: a member that is
 * absent or of another type is empty, never an error of ours.
 */
#include "mcp/profiles/profile.h"
#include "mcp/tool-result.h"
#include "mcp/tool-run.h"

/* A member as text; empty when it is none. */
struct slice json_member_text(const json_t *o, const char *name);
/* The same as a C string: "" when it is none. */
const char *json_member_str(const json_t *o, const char *name);
uint64_t json_member_number(const json_t *o, const char *name);
/* The name of a file: member, or "base64:..." for one that is not UTF-8. */
[[nodiscard]] int json_member_filename(const json_t *o, const char *member, struct buf *out);
/* Of an answer that was heard whatever it is: why it is a failure, or NULL.  Its status says
 * whether, not what stands in it. */
const char *tool_run_failure_text(struct tool_run *run);

/* What a command wrote to a stream, cut where it is long; id is what `output` is asked with to
 * read on, or "". */
void tool_result_add_stream(const json_t *answer, const char *stream, const char *id,
			    struct tool_result *out);
/* "[exit 1]": how it ended.  Anything but 0 is an error. */
void tool_result_add_exit(const json_t *end, struct tool_result *out);

/* The same as a value: text, cut where it is long. */
json_t *json_stream_text_cut(const json_t *answer, const char *stream);
/* An object as text and as data; it is given away. */
void tool_result_set_json(struct tool_result *out, json_t *stolen);

/* Lines for a model, at most RESULT_TEXT of them; what does not fit is counted. */
struct result_lines {
	struct buf text;
	size_t left_out;
};
#define RESULT_LINES_INIT ((struct result_lines){ .text = BUF_INIT(RESULT_TEXT) })
#define auto_lines CAY_CLEANUP(result_lines_fini) struct result_lines
__attribute__((format(printf, 2, 3))) void result_lines_printf(struct result_lines *l,
							       const char *fmt, ...);
/* empty: what to say when there are none; more: whether even those were not all. */
void result_lines_write(struct result_lines *l, const char *empty, bool more,
			struct tool_result *out);
void result_lines_fini(struct result_lines *l);

/* How long a command may take when neither the call nor the tool's own description says. */
uint64_t tool_run_default_timeout_ms(const struct tool_run *run);
/* exec.run by the arguments, with that timeout where it is waited for. */
[[nodiscard]] int exec_tool_next_call(struct tool_run *run, struct cay_err *err);

/* A shell that stays, by its name: found or opened, then asked to run.  Without a command it
 * is only opened; restart deletes the one there is. */
struct shell_tool_request {
	const char *name, *command;
	uint64_t timeout_ms;
	bool restart;
};
[[nodiscard]] int shell_tool_next_call(struct tool_run *run, const struct shell_tool_request *want,
				       struct cay_err *err);
/* Its id, once it is known. */
const char *shell_tool_id(const struct tool_run *run);
/* The run's output and end, and where the shell is now. */
[[nodiscard]] int shell_tool_write_result(struct tool_run *run, struct tool_result *out,
					  struct cay_err *err);

/* base64 as the raw body of the call; arg: whose fault it is when it is none. */
[[nodiscard]] int tool_run_set_base64_body(struct tool_run *run, const char *arg,
					   struct slice base64, struct cay_err *err);

/* file.view; for what is no text file.read behind it, for lines that are not UTF-8 file.view
 * once more without numbers: both are shown as base64, or as a picture. */
[[nodiscard]] int file_view_next_call(struct tool_run *run, const char *path, uint64_t first,
				      uint64_t limit, struct cay_err *err);
[[nodiscard]] int file_view_write_result(struct tool_run *run, struct tool_result *out,
					 struct cay_err *err);

/* file.edit with one change.  kind is one of its kinds. */
[[nodiscard]] int file_edit_begin_call(struct tool_run *run, const char *path, const char *kind,
				       const char *old, const char *text, uint64_t line,
				       struct cay_err *err);
#endif
