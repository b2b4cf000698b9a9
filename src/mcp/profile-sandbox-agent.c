/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile-sandbox-agent - sessions are sandboxes; files go one by one, each with its result
 */
#include "mcp/profile-parts.h"

#define WORKSPACE "/workspace"
#define ROWS "@rows" /* results so far, kept with the arguments: no model's has that name */

const char *const agent_languages[] = { "python", "node", "r", NULL };
const char *const agent_encodings[] = { "text", "base64", NULL };

int agent_ask_create(struct tool_run *run, struct cay_err *err)
{
	const char *language = run_arg(run, "language");
	const json_t *packages = json_object_get(run->args, "dependencies");
	int r;

	if (run->step)
		return TOOL_SHOWN;
	run_call(run, OP_SANDBOX_CREATE);
	r = run_text(run, "template", language, err);
	if (r >= 0 && run->group)
		r = run_text(run, "group", run->group, err);
	if (r >= 0 && packages)
		r = run_set(run, "packages", json_pack("{s:O}", language, packages), err);
	return r;
}

int agent_show_create(struct tool_run *run, struct result *out, struct cay_err *)
{
	const json_t *j = run->answer.json;

	part_json(out, json_pack("{s:s, s:s, s:s, s:s}", "session_id", part_str(j, "id"),
				 "language", run_arg(run, "language"), "status",
				 part_str(j, "state"), "created_at", part_str(j, "created_at")));
	return 0;
}

int agent_show_terminal(struct tool_run *run, struct result *out, struct cay_err *err)
{
	const json_t *j = run->answer.json, *end = json_object_get(j, "end");
	const json_t *code = json_object_get(end, "exit_code");

	if (!json_is_object(j))
		return cay_fail(err, CAY_E_MISBEHAVED, "the sandbox did not say how it ended");
	part_json(out, json_pack("{s:o, s:o, s:O?, s:s*}", "stdout", part_cut(j, "stdout"),
				 "stderr", part_cut(j, "stderr"), "exit_code", code, "error",
				 code ? NULL : part_str(end, "reason")));
	return 0;
}

int agent_show_stop(struct tool_run *, struct result *out, struct cay_err *)
{
	part_json(out, json_pack("{s:b}", "success", true));
	return 0;
}

/* The row of the file that was under way: what became of it. */
static int add_row(struct tool_run *run, json_t *row, struct cay_err *err)
{
	json_t *rows = json_object_get(run->args, ROWS);

	if (!rows) {
		rows = json_array();
		if (json_object_set_new(run->args, ROWS, rows) < 0)
			return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	}
	return json_array_append_new(rows, row) < 0 ? cay_fail(err, CAY_E_NO_MEMORY, "no memory")
						    : 0;
}

static const json_t *file_at(const struct tool_run *run, size_t i)
{
	return json_array_get(json_object_get(run->args, "files"), i);
}

/* How many files are done. */
static size_t done(const struct tool_run *run)
{
	return json_array_size(json_object_get(run->args, ROWS));
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static const char *source_of(const json_t *file)
{
	const char *source = part_str(file, "source");

	return source[0] ? source : part_str(file, "path");
}

static const char *goes_to(const json_t *file)
{
	const char *to = part_str(file, "destination");

	return to[0] ? to : last_part(source_of(file));
}

/* Below the workspace, unless it is absolute. */
static int set_path(struct tool_run *run, const char *member, const char *path, struct cay_err *err)
{
	auto_buf b = BUF_INIT(KIB(8));

	if (buf_printf(&b, "%s%s", path[0] == '/' ? "" : WORKSPACE "/", path) < 0)
		return cay_fail_field(err, CAY_E_INVALID, "files", "a path is too long");
	return run_text(run, member, buf_str(&b), err);
}

static int send_content(struct tool_run *run, const json_t *file, struct cay_err *err)
{
	struct slice text = part_text(file, "file_content");
	int r = 0;

	run_call(run, OP_FILE_WRITE);
	run->call.body = text;
	if (str_eq(part_str(file, "encoding"), "base64"))
		r = part_body(run, "file_content", text, err);
	if (r < 0) {
		cay_in_field(err, "files");
		return r;
	}
	if (!goes_to(file)[0])
		return cay_fail_field(err, CAY_E_INVALID, "files",
				      "a file with file_content needs a destination");
	r = set_path(run, "path", goes_to(file), err);
	return r < 0 ? r : run_set(run, "parents", json_true(), err);
}

/* What is asked of another sandbox than the one that is meant. */
struct import_own {
	char meant[ID_TEXT_LEN + 1];
	bool looked; /* at what is to come from there */
};

static int look_there(struct tool_run *run, const json_t *file, struct cay_err *err)
{
	struct slice from = part_text(file, "session_id");
	struct import_own *own = run->own;
	struct id id;
	int r;

	if (!own)
		own = run->own = pool_take(&run->pool, 1, sizeof(*own));
	if (!own)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	if (id_parse(ID_SANDBOX, from, &id) < 0)
		return cay_fail_field(err, CAY_E_INVALID, "files", "'%.40s' is no session_id",
				      from.p);
	memcpy(own->meant, run->sandbox, sizeof(own->meant));
	id_format(&id, run->sandbox);
	own->looked = true;
	run_call(run, OP_FILE_STAT);
	r = set_path(run, "path", part_str(file, "path"), err);
	return r < 0 ? r : run_set(run, "follow", json_true(), err);
}

/* What is in a directory goes into a directory; a file keeps its name. */
static int send_foreign(struct tool_run *run, const json_t *file, struct cay_err *err)
{
	bool dir = str_eq(part_str(run->answer.json, "type"), "directory");
	const char *to = goes_to(file), *name = last_part(to), *where;
	int r;

	where = pool_strn(&run->pool, to, dir ? strlen(to) : (size_t)(name - to));
	if (!where)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	if (!dir && name[0] && !str_eq(name, last_part(part_str(file, "path"))))
		return cay_fail_field(err, CAY_E_INVALID, "files",
				      "a file of another session keeps its name: destination must "
				      "end in '%.200s'",
				      last_part(part_str(file, "path")));
	run_call(run, OP_TREE_IMPORT);
	r = run_text(run, "from", part_str(file, "session_id"), err);
	if (r >= 0)
		r = set_path(run, "path", part_str(file, "path"), err);
	return r < 0 ? r : set_path(run, "to", where, err);
}

/* The answer is that of look_there(): the same file once more, unless it is not there. */
static bool was_look(struct tool_run *run)
{
	struct import_own *own = run->own;

	if (!run->step || !own || !own->looked)
		return false;
	own->looked = false;
	memcpy(run->sandbox, own->meant, sizeof(own->meant));
	return run->answer.status < 400;
}

static json_t *import_row(struct tool_run *run, const json_t *file)
{
	const char *source = source_of(file), *failure = part_failure(run);

	return json_pack("{s:s, s:s, s:b, s:I, s:s*}", "source", source[0] ? source : "content",
			 "destination", goes_to(file), "success", !failure, "size",
			 (json_int_t)part_number(run->answer.json, "size"), "error", failure);
}

int agent_ask_import(struct tool_run *run, struct cay_err *err)
{
	const json_t *file = file_at(run, done(run));
	bool looked = was_look(run);
	int r = 0;

	run->hears = true;
	if (looked)
		return send_foreign(run, file, err);
	if (run->step) {
		r = add_row(run, import_row(run, file), err);
		file = file_at(run, done(run));
	}
	if (r < 0 || !file)
		return r < 0 ? r : TOOL_SHOWN;
	if (json_object_get(file, "file_content"))
		return send_content(run, file, err);
	if (json_object_get(file, "session_id") && json_object_get(file, "path"))
		return look_there(run, file, err);
	return cay_fail_field(err, CAY_E_INVALID, "files",
			      "give file_content and destination, or session_id and path; files of "
			      "the server cannot be read");
}

static json_t *export_row(struct tool_run *run, const json_t *file)
{
	const char *failure = part_failure(run), *url = part_str(run->answer.json, "url");

	return json_pack("{s:s, s:s, s:b, s:s*, s:s*}", "session_id", run_arg(run, "session_id"),
			 "path", part_str(file, "source"), "success", !failure, "download_url",
			 failure ? NULL : url, "error", failure);
}

int agent_ask_export(struct tool_run *run, struct cay_err *err)
{
	const json_t *file = file_at(run, done(run));
	int r = 0;

	if (run->step) {
		r = add_row(run, export_row(run, file), err);
		file = file_at(run, done(run));
	}
	if (r < 0 || !file)
		return r < 0 ? r : TOOL_SHOWN;
	run->hears = true;
	run_call(run, OP_TREE_LINK);
	return set_path(run, "path", part_str(file, "source"), err);
}

int agent_show_rows(struct tool_run *run, struct result *out, struct cay_err *)
{
	json_t *rows = json_object_get(run->args, ROWS), *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		out->error |= !json_is_true(json_object_get(row, "success"));
	}
	part_json(out, json_pack("{s:O}", "files", rows));
	return 0;
}
