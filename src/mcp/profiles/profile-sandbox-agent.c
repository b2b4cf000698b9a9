/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile-sandbox-agent - sessions are sandboxes; files are copied one by one, each with a result
 */
#include "mcp/profiles/profile-output.h"

#define WORKSPACE "/workspace"

const char *const agent_languages[] = { "python", "node", "r", NULL };
const char *const agent_encodings[] = { "text", "base64", NULL };

int agent_create_next_call(struct tool_run *run, struct cay_err *err)
{
	const char *language = tool_run_arg_text(run, "language");
	json_t *packages = json_object_get(run->args, "dependencies");
	int r;

	if (run->step)
		return TOOL_FINISHED;
	r = tool_run_call(run, OP_SANDBOX_CREATE, err, "{s:s, s:s*}", "template", language, "group",
			  run->group);
	if (r >= 0 && packages)
		r = tool_run_set(run, err, "{s:{s:O}}", "packages", language, packages);
	return r;
}

int agent_create_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *j = run->answer.json;

	return tool_result_pack(out, "{s:s, s:s, s:s, s:s}", "session_id", json_member_str(j, "id"),
				"language", tool_run_arg_text(run, "language"), "status",
				json_member_str(j, "state"), "created_at",
				json_member_str(j, "created_at"));
}

int agent_terminal_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	const json_t *j = run->answer.json, *end = json_object_get(j, "end");
	const json_t *code = json_object_get(end, "exit_code");

	if (!json_is_object(j))
		return cay_fail(err, CAY_E_MISBEHAVED, "the sandbox returned no result");
	return tool_result_pack(out, "{s:o, s:o, s:O?, s:s*}", "stdout",
				output_stream_json(run, "stdout"), "stderr",
				output_stream_json(run, "stderr"), "exit_code", code, "error",
				code ? NULL : json_member_str(end, "reason"));
}

int agent_stop_write_result(struct tool_run *, struct tool_result *out, struct cay_err *)
{
	return tool_result_pack(out, "{s:b}", "success", true);
}

/* The first file that has no result yet. */
static const json_t *agent_files_next(const struct tool_run *run)
{
	size_t done = json_array_size(json_object_get(run->args, TOOL_ROWS));

	return json_array_get(json_object_get(run->args, "files"), done);
}

static const char *agent_path_basename(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static const char *agent_file_source(const json_t *file)
{
	const char *source = json_member_str(file, "source");

	return source[0] ? source : json_member_str(file, "path");
}

static const char *agent_file_destination(const json_t *file)
{
	const char *to = json_member_str(file, "destination"),
		   *name = json_member_str(file, "file_name");

	if (to[0] || name[0])
		return to[0] ? to : name;
	return agent_path_basename(agent_file_source(file));
}

/* Relative to the workspace, unless absolute. */
static int agent_set_path_member(struct tool_run *run, const char *member, const char *path,
				 struct cay_err *err)
{
	auto_buf b = BUF_INIT(KIB(8));

	if (buf_printf(&b, "%s%s", path[0] == '/' ? "" : WORKSPACE "/", path) < 0)
		return cay_fail_field(err, CAY_E_INVALID, "files", "a path is too long");
	return tool_run_set(run, err, "{s:s}", member, buf_str(&b));
}

static int agent_import_content_call(struct tool_run *run, const json_t *file, struct cay_err *err)
{
	struct slice text = json_member_text(file, "file_content");
	int r = 0;

	tool_run_begin_call(run, OP_FILE_WRITE);
	run->call.body = text;
	if (str_eq(json_member_str(file, "encoding"), "base64"))
		r = tool_run_set_base64_body(run, "file_content", text, err);
	if (r < 0) {
		cay_err_prefix_field(err, "files");
		return r;
	}
	if (!agent_file_destination(file)[0])
		return cay_fail_field(err, CAY_E_INVALID, "files",
				      "a file with file_content needs a file_name");
	r = agent_set_path_member(run, "path", agent_file_destination(file), err);
	return r < 0 ? r : tool_run_set(run, err, "{s:b}", "parents", true);
}

/* For a call to another sandbox than the session's. */
struct agent_import_state {
	char target_sandbox[ID_TEXT_LEN + 1];
	bool stat_sent; /* the call in progress is the stat of a foreign file */
};

static int agent_import_stat_call(struct tool_run *run, const json_t *file, struct cay_err *err)
{
	struct slice from = json_member_text(file, "session_id");
	struct agent_import_state *own = run->tool_state;
	struct id id;
	int r;

	if (!own)
		own = run->tool_state = arena_alloc(&run->arena, 1, sizeof(*own));
	if (!own)
		return cay_no_memory(err);
	if (id_parse(ID_SANDBOX, from, &id) < 0)
		return cay_fail_field(err, CAY_E_INVALID, "files", "'%.40s' is not a session_id",
				      from.p);
	memcpy(own->target_sandbox, run->sandbox, sizeof(own->target_sandbox));
	id_format(&id, run->sandbox);
	own->stat_sent = true;
	tool_run_begin_call(run, OP_FILE_STAT);
	r = agent_set_path_member(run, "path", json_member_str(file, "path"), err);
	return r < 0 ? r : tool_run_set(run, err, "{s:b}", "follow", true);
}

/* A directory's contents go into a directory; a file keeps its name. */
static int agent_import_foreign_call(struct tool_run *run, const json_t *file, struct cay_err *err)
{
	bool dir = str_eq(json_member_str(run->answer.json, "type"), "directory");
	const char *to = agent_file_destination(file), *name = agent_path_basename(to), *where;
	int r;

	where = arena_strndup(&run->arena, to, dir ? strlen(to) : (size_t)(name - to));
	if (!where)
		return cay_no_memory(err);
	if (!dir && name[0] && !str_eq(name, agent_path_basename(json_member_str(file, "path"))))
		return cay_fail_field(err, CAY_E_INVALID, "files",
				      "a file of another session keeps its name: destination must "
				      "end in '%.200s'",
				      agent_path_basename(json_member_str(file, "path")));
	r = tool_run_call(run, OP_TREE_IMPORT, err, "{s:s}", "from",
			  json_member_str(file, "session_id"));
	if (r >= 0)
		r = agent_set_path_member(run, "path", json_member_str(file, "path"), err);
	return r < 0 ? r : agent_set_path_member(run, "to", where, err);
}

/* Whether the reply is that of agent_import_stat_call(): then continue with the same file, unless
 * it does not exist. */
static bool agent_import_answer_is_stat(struct tool_run *run)
{
	struct agent_import_state *own = run->tool_state;

	if (!run->step || !own || !own->stat_sent)
		return false;
	own->stat_sent = false;
	memcpy(run->sandbox, own->target_sandbox, sizeof(own->target_sandbox));
	return run->answer.status < 400;
}

static json_t *agent_import_result_row(struct tool_run *run, const json_t *file)
{
	const char *source = agent_file_source(file), *why = tool_run_failure_text(run);

	return json_pack("{s:s, s:s, s:b, s:I, s:s*}", "source", source[0] ? source : "content",
			 "destination", agent_file_destination(file), "success", !why, "size",
			 (json_int_t)json_member_number(run->answer.json, "size"), "error", why);
}

int agent_import_next_call(struct tool_run *run, struct cay_err *err)
{
	const json_t *file = agent_files_next(run);
	bool looked = agent_import_answer_is_stat(run);
	int r = 0;

	run->accepts_failure = true;
	if (looked)
		return agent_import_foreign_call(run, file, err);
	if (run->step) {
		r = tool_run_add_row(run, agent_import_result_row(run, file), err);
		file = agent_files_next(run);
	}
	if (r < 0 || !file)
		return r < 0 ? r : TOOL_FINISHED;
	if (json_object_get(file, "file_content"))
		return agent_import_content_call(run, file, err);
	if (json_object_get(file, "session_id") && json_object_get(file, "path"))
		return agent_import_stat_call(run, file, err);
	return cay_fail_field(err, CAY_E_INVALID, "files",
			      "give file_name and file_content, or session_id and path; files of "
			      "the server cannot be read");
}

/* A directory has no size: its tar is made while it is downloaded. */
static json_t *agent_export_result_row(struct tool_run *run, const json_t *file)
{
	const json_t *made = run->answer.json;
	const char *why = tool_run_failure_text(run),
		   *path = why ? "" : json_member_str(made, "path");
	json_t *size = why ? NULL : json_object_get(made, "size");

	return json_pack("{s:s, s:s, s:b, s:O*, s:s*, s:s*}", "session_id",
			 tool_run_arg_text(run, "session_id"), "path",
			 path[0] ? path : json_member_str(file, "source"), "success", !why, "size",
			 size, "download_url", why ? NULL : json_member_str(made, "url"), "error",
			 why);
}

int agent_export_next_call(struct tool_run *run, struct cay_err *err)
{
	const json_t *file = agent_files_next(run);
	int r = 0;

	if (run->step) {
		r = tool_run_add_row(run, agent_export_result_row(run, file), err);
		file = agent_files_next(run);
	}
	if (r < 0 || !file)
		return r < 0 ? r : TOOL_FINISHED;
	run->accepts_failure = true;
	tool_run_begin_call(run, OP_EXPORT_CREATE);
	return agent_set_path_member(run, "path", json_member_str(file, "source"), err);
}

int agent_files_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	return tool_run_write_rows(run, "files", out);
}
