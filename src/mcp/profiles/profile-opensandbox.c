/* SPDX-License-Identifier: Apache-2.0 */
/* profile-opensandbox - opensandbox-mcp's names and shapes over our operations */
#include <stdio.h>

#include "mcp/profiles/profile-network.h"
#include "mcp/profiles/profile-output.h"

/* of a label that the server can filter by */
#define OSB_LABEL_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/="

/* Unsupported arguments are refused, not ignored. */
static int osb_create_check_args(const struct tool_run *run, struct cay_err *err)
{
	if (!tool_run_arg_text(run, "auth_username") != !tool_run_arg_text(run, "auth_password"))
		return cay_fail_field(err, CAY_E_INVALID, "auth_username",
				      "give auth_username and auth_password, or neither");
	if (json_object_size(json_object_get(run->args, "extensions")))
		return cay_fail_field(err, CAY_E_INVALID, "extensions", "are not supported");
	return 0;
}

static int osb_create_set_resource(struct tool_run *run, struct cay_err *err)
{
	static const struct {
		const char *name, *member;
	} known[] = { { "cpu", "limits.cpu_milli" }, { "memory", "limits.memory_bytes" } };
	const char *key;
	json_t *v;
	int r = 0;

	json_object_foreach (json_object_get(run->args, "resource"), key, v) {
		size_t i = 0;

		while (i < ARRAY_SIZE(known) && !str_eq(known[i].name, key))
			i++;
		if (i == ARRAY_SIZE(known))
			return cay_fail_field(err, CAY_E_INVALID, "resource",
					      "unknown resource '%.64s'; expected: cpu, memory",
					      key);
		r = tool_run_set(run, err, "{s:O}", known[i].member, v);
		if (r < 0)
			return r;
	}
	return 0;
}

int osb_create_next_call(struct tool_run *run, struct cay_err *err)
{
	json_int_t ttl_ms = (json_int_t)tool_run_arg_number(run, "timeout_seconds") * 1000;
	int r = osb_create_check_args(run, err);

	if (r < 0 || run->step)
		return r < 0 ? r : TOOL_FINISHED;
	r = tool_run_call(run, OP_SANDBOX_CREATE, err, "{s:O*, s:O*, s:O*, s:O*}", "image",
			  json_object_get(run->args, "image"), "env",
			  json_object_get(run->args, "env"), "labels",
			  json_object_get(run->args, "metadata"), "entrypoint",
			  json_object_get(run->args, "entrypoint"));
	if (r >= 0)
		r = osb_create_set_resource(run, err);
	if (r >= 0)
		r = osb_create_set_policy(run, err);
	if (r >= 0 && tool_run_arg_text(run, "auth_username"))
		r = tool_run_set(run, err, "{s:s, s:s}", "registry_auth.username",
				 tool_run_arg_text(run, "auth_username"), "registry_auth.password",
				 tool_run_arg_text(run, "auth_password"));
	return r < 0 ? r
		     : tool_run_set(run, err, "{s:s*, s:I}", "group", run->group, "ttl_ms", ttl_ms);
}

/* Our states, and their names for them. */
static const char *const osb_states[][2] = {
	{ "pending", "Pending" },       { "running", "Running" }, { "paused", "Paused" },
	{ "terminated", "Terminated" }, { "failed", "Failed" },   { "ending", "Stopping" },
};

static const char *osb_sandbox_state_name(const json_t *sandbox)
{
	const char *state = json_member_str(sandbox, "state");

	for (size_t i = 0; i < ARRAY_SIZE(osb_states); i++)
		if (str_eq(osb_states[i][0], state))
			return osb_states[i][1];
	return state;
}

static json_t *osb_sandbox_describe(const json_t *sandbox)
{
	return json_pack(
		"{s:s, s:{s:s}, s:{s:s}, s:O*, s:s, s:s*}", "id", json_member_str(sandbox, "id"),
		"status", "state", osb_sandbox_state_name(sandbox), "image", "image",
		json_member_str(sandbox, "image"), "metadata", json_object_get(sandbox, "labels"),
		"created_at", json_member_str(sandbox, "created_at"), "expires_at",
		json_string_value(json_object_get(sandbox, "expires_at")));
}

int osb_create_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *j = run->answer.json;

	return tool_result_pack(out, "{s:s, s:o}", "sandbox_id", json_member_str(j, "id"), "info",
				osb_sandbox_describe(j));
}

int osb_info_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	return tool_result_set_json(out, osb_sandbox_describe(run->answer.json));
}

static uint64_t osb_filter_number(const struct tool_run *run, const char *name, uint64_t without)
{
	uint64_t n = json_member_number(json_object_get(run->args, "filter"), name);

	return n ? n : without;
}

#define LIST_ROWS 200 /* a call */

/* Leave to the server what it can filter: one state, and one label. */
static int osb_list_set_filter(struct tool_run *run, struct cay_err *err)
{
	const json_t *filter = json_object_get(run->args, "filter");
	const json_t *states = json_object_get(filter, "states");
	const char *state = json_string_value(json_array_get(states, 0)), *key;
	char label[256];
	json_t *value;
	int r = 0;

	for (size_t i = 0; json_array_size(states) == 1 && i < ARRAY_SIZE(osb_states); i++)
		if (str_eq(osb_states[i][1], state))
			r = tool_run_set(run, err, "{s:s}", "state", osb_states[i][0]);
	json_object_foreach ((json_t *)json_object_get(filter, "metadata"), key, value) {
		int n = snprintf(label, sizeof(label), "%s=%s", key, json_string_value(value));

		if (r >= 0 && n > 0 && n < (int)sizeof(label) &&
		    strspn(label, OSB_LABEL_CHARS) == (size_t)n)
			r = tool_run_set(run, err, "{s:s}", "label", label);
		break;
	}
	return r;
}

static bool osb_filter_matches(const struct tool_run *run, const json_t *sandbox)
{
	const json_t *filter = json_object_get(run->args, "filter");
	const json_t *states = json_object_get(filter, "states"), *want;
	bool state = json_array_size(states) == 0;
	const char *key;
	size_t i;

	json_array_foreach(states, i, want)
	{
		state |= str_eq(json_string_value(want), osb_sandbox_state_name(sandbox));
	}
	json_object_foreach ((json_t *)json_object_get(filter, "metadata"), key, want)
		if (!str_eq(json_member_str(json_object_get(sandbox, "labels"), key),
			    json_string_value(want)))
			return false;
	return state;
}

/* Keep the matches of a reply, up to one more than the pages need. */
static int osb_list_add_matches(struct tool_run *run, size_t most, struct cay_err *err)
{
	const json_t *list = json_object_get(run->answer.json, "sandboxes"), *sandbox;
	size_t i;
	int r = 0;

	json_array_foreach(list, i, sandbox)
	{
		size_t have = json_array_size(json_object_get(run->args, TOOL_ROWS));

		if (r >= 0 && have <= most && osb_filter_matches(run, sandbox))
			r = tool_run_add_row(run, osb_sandbox_describe(sandbox), err);
	}
	return r;
}

/* They number the pages of what matches, we use cursors: read on until the requested page is
 * full and another match is known. */
int osb_list_next_call(struct tool_run *run, struct cay_err *err)
{
	uint64_t size = osb_filter_number(run, "page_size", 20);
	uint64_t most = size * osb_filter_number(run, "page", 1);
	json_t *cursor = json_object_get(run->answer.json, "next_cursor");
	int r = 0;

	if (most > 1000)
		return cay_fail_field(err, CAY_E_INVALID, "filter",
				      "page times page_size must not be more than 1000");
	if (run->step) {
		r = osb_list_add_matches(run, (size_t)most, err);
		if (r < 0 || !json_is_string(cursor) ||
		    json_array_size(json_object_get(run->args, TOOL_ROWS)) > most)
			return r < 0 ? r : TOOL_FINISHED;
	}
	if (run->step == TOOL_RUN_CALLS_MAX)
		return cay_fail_field(err, CAY_E_TOO_LARGE, "filter",
				      "there are too many sandboxes: filter by metadata");
	r = tool_run_call(run, OP_SANDBOX_LIST, err, "{s:i, s:O*}", "limit", LIST_ROWS, "cursor",
			  cursor);
	return r < 0 ? r : osb_list_set_filter(run, err);
}

int osb_list_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	uint64_t size = osb_filter_number(run, "page_size", 20),
		 page = osb_filter_number(run, "page", 1);
	json_t *rows = json_object_get(run->args, TOOL_ROWS), *infos = json_array();

	for (uint64_t i = (page - 1) * size; i < page * size && i < json_array_size(rows); i++)
		(void)json_array_append(infos, json_array_get(rows, i));
	return tool_result_pack(out, "{s:o, s:{s:I, s:I, s:b}}", "sandbox_infos", infos,
				"pagination", "page", (json_int_t)page, "page_size",
				(json_int_t)size, "has_next_page",
				json_array_size(rows) > page * size);
}

int osb_renew_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	return tool_result_pack(out, "{s:s}", "expires_at",
				json_member_str(run->answer.json, "expires_at"));
}

int osb_health_next_call(struct tool_run *run, struct cay_err *err)
{
	run->accepts_failure = true;
	return tool_run_default_call(run, err);
}

int osb_health_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	return tool_result_pack(out, "{s:s, s:b}", "sandbox_id",
				tool_run_arg_text(run, "sandbox_id"), "healthy",
				run->answer.status == 200);
}

/* The host of a port, and the header to send with each request. */
int osb_endpoint_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *j = run->answer.json;
	const char *origin = json_member_str(j, "origin"), *host = strstr(origin, "://");

	return tool_result_pack(out, "{s:s, s:{s:s}}", "endpoint", host ? host + 3 : origin,
				"headers", "Cay-Preview", json_member_str(j, "token"));
}

static json_t *osb_stream_log(const struct tool_run *run, const char *stream)
{
	auto_buf text = BUF_INIT(OUTPUT_TEXT_MAX);

	if (output_add_stream(run, stream, &text) < 0)
		return NULL;
	return text.len ? json_pack("[{s:s%}]", "text", buf_str(&text), text.len) : json_array();
}

int osb_execution_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	const json_t *j = run->answer.json, *end = json_object_get(j, "end");
	const json_t *code = json_object_get(end, "exit_code");

	if (!json_is_object(j))
		return cay_fail(err, CAY_E_MISBEHAVED, "the sandbox returned no result");
	return tool_result_pack(out, "{s:s, s:O?, s:{s:o, s:o}, s:s*}", "id",
				json_member_str(j, "id"), "exit_code", code, "logs", "stdout",
				osb_stream_log(run, "stdout"), "stderr",
				osb_stream_log(run, "stderr"), "error",
				end && !code ? json_member_str(end, "reason") : NULL);
}

static int osb_check_encoding(const struct tool_run *run, struct cay_err *err)
{
	const char *encoding = tool_run_arg_text(run, "encoding");

	if (!str_eq(encoding, "utf-8") && !str_eq(encoding, "utf8") && !str_eq(encoding, "ascii"))
		return cay_fail_field(err, CAY_E_INVALID, "encoding", "must be utf-8");
	return 0;
}

int osb_read_next_call(struct tool_run *run, struct cay_err *err)
{
	const char *range = tool_run_arg_text(run, "range_header");
	int r = osb_check_encoding(run, err);

	if (r < 0 || run->step)
		return r < 0 ? r : TOOL_FINISHED;
	for (const char *c = range ? range : ""; *c; c++)
		if (*c < ' ' || *c > '~')
			return cay_fail_field(err, CAY_E_INVALID, "range_header",
					      "must be as in bytes=0-1023");
	tool_run_begin_call(run, OP_FILE_READ);
	run->call.range = range;
	return tool_run_map_args(run, err);
}

int osb_read_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	struct slice body = run->answer.body;

	if (tool_result_add_image(out, body))
		return 0;
	if (!body.n)
		body.p = "";
	if (!utf8_is_valid(body.p, body.n) || memchr(body.p, 0, body.n))
		return cay_fail(err, CAY_E_INVALID, "the file is not text");
	if (body.n > RESULT_TEXT)
		return cay_fail_field(err, CAY_E_TOO_LARGE, "range_header",
				      "the file has %zu bytes: read parts of at most %zu, as in "
				      "bytes=0-%zu",
				      body.n, RESULT_TEXT, RESULT_TEXT - 1);
	return tool_result_pack(out, "{s:s, s:o}", "path", tool_run_arg_text(run, "path"),
				"content", json_stringn(body.p, body.n));
}

/* The decimal number 755 stands for octal 0755. */
static int osb_set_owner_and_mode(json_t *to, const json_t *from, const char *mode_without)
{
	const json_t *number = json_object_get(from, "mode");
	const char *owner = json_member_str(from, "owner"), *group = json_member_str(from, "group");
	char mode[8], whose[72];
	int n = number ? snprintf(mode, sizeof(mode), "%04lld",
				  (long long)json_integer_value(number))
		       : snprintf(mode, sizeof(mode), "%s", mode_without);

	if (n < 0 || n >= (int)sizeof(mode) ||
	    json_object_set_new(to, "mode", json_string(mode)) < 0)
		return -EINVAL;
	if (!owner[0] && !group[0])
		return 0;
	n = snprintf(whose, sizeof(whose), "%s%s%s", owner, group[0] ? ":" : "", group);
	if (n < 0 || n >= (int)sizeof(whose))
		return -EINVAL;
	return json_object_set_new(to, "owner", json_string(whose));
}

int osb_write_next_call(struct tool_run *run, struct cay_err *err)
{
	int r = osb_check_encoding(run, err);

	if (r < 0 || run->step)
		return r < 0 ? r : TOOL_FINISHED;
	tool_run_begin_call(run, OP_FILE_WRITE);
	run->call.body = json_member_text(run->args, "content");
	if (osb_set_owner_and_mode(run->call.members, run->args, "0755") < 0)
		return cay_fail_field(err, CAY_E_INVALID, "mode", "must be as in 755");
	return tool_run_set(run, err, "{s:s, s:b}", "path", tool_run_arg_text(run, "path"),
			    "parents", true);
}

static json_t *osb_batch_step_delete(const json_t *path)
{
	return json_pack("{s:s, s:O}", "do", "delete", "path", path);
}

static json_t *osb_batch_step_rmdir(const json_t *path)
{
	return json_pack("{s:s, s:O, s:b}", "do", "delete", "path", path, "recursive", true);
}

static json_t *osb_batch_step_mkdir(const json_t *entry)
{
	json_t *step = json_pack("{s:s, s:O, s:b}", "do", "mkdir", "path",
				 json_object_get(entry, "path"), "parents", true);

	if (step && osb_set_owner_and_mode(step, entry, "0755") < 0) {
		json_decref(step);
		return NULL;
	}
	return step;
}

static json_t *osb_batch_step_move(const json_t *entry)
{
	return json_pack("{s:s, s:O, s:O, s:b}", "do", "move", "path",
			 json_object_get(entry, "source"), "to",
			 json_object_get(entry, "destination"), "parents", true);
}

/* Tools whose reply is a status; with an argument, a batch that has a step for each entry. */
static const struct osb_status_tool {
	const char *name, *status, *arg;
	json_t *(*step)(const json_t *entry);
} osb_status_tools[] = {
	{ "sandbox_kill", "killed", NULL, NULL },
	{ "command_interrupt", "interrupted", NULL, NULL },
	{ "file_write", "written", NULL, NULL },
	{ "file_delete", "deleted", "paths", osb_batch_step_delete },
	{ "file_delete_directories", "deleted", "paths", osb_batch_step_rmdir },
	{ "file_create_directories", "created", "entries", osb_batch_step_mkdir },
	{ "file_move", "moved", "entries", osb_batch_step_move },
};

static const struct osb_status_tool *osb_status_tool_find(const struct tool_run *run)
{
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(osb_status_tools) &&
	       !str_eq(osb_status_tools[i].name, run->tool->name))
		i++;
	return &osb_status_tools[i];
}

int osb_batch_next_call(struct tool_run *run, struct cay_err *err)
{
	const struct osb_status_tool *t = osb_status_tool_find(run);
	const json_t *entry;
	json_t *steps;
	size_t i;

	if (run->step)
		return TOOL_FINISHED;
	steps = json_array();
	json_array_foreach(json_object_get(run->args, t->arg), i, entry)
	{
		if (json_array_append_new(steps, t->step(entry)) < 0) {
			json_decref(steps);
			return cay_no_memory(err);
		}
	}
	return tool_run_call(run, OP_FILE_BATCH, err, "{s:o}", "steps", steps);
}

int osb_status_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const struct osb_status_tool *t = osb_status_tool_find(run);
	const json_t *j = t->arg ? run->answer.json : NULL, *row;
	size_t i;

	json_array_foreach(json_object_get(j, "results"), i, row)
	{
		if (json_member_true(row, "done"))
			continue;
		out->error = true;
		tool_result_printf(out, "%s: %s: %s", json_member_str(row, "path"),
				   json_member_str(row, "code"), json_member_str(row, "message"));
	}
	if (json_member_number(j, "left"))
		tool_result_printf(out, "[%llu after it were not tried]",
				   (unsigned long long)json_member_number(j, "left"));
	return out->error ? 0 : tool_result_pack(out, "{s:s}", "status", t->status);
}

/* A pattern without a directory matches in all of them. */
int osb_search_next_call(struct tool_run *run, struct cay_err *err)
{
	const char *pattern = tool_run_arg_text(run, "pattern");
	auto_buf b = BUF_INIT(KIB(2));
	int r = tool_run_default_call(run, err);

	if (r != TOOL_NEXT_CALL)
		return r;
	if (buf_printf(&b, "%s%s", strchr(pattern, '/') ? "" : "**/", pattern) < 0)
		return cay_no_memory(err);
	return tool_run_set(run, err, "{s:s}", "pattern", buf_str(&b));
}

int osb_search_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	const json_t *list = json_object_get(run->answer.json, "files"), *f;
	json_t *found = json_array();
	size_t i;

	json_array_foreach(list, i, f)
	{
		auto_buf path = BUF_INIT(KIB(12));

		if (buf_printf(&path, "%s/", tool_run_arg_text(run, "path")) < 0 ||
		    json_member_filename(f, "path", &path) < 0)
			continue;
		(void)json_array_append_new(
			found, json_pack("{s:s, s:s, s:I, s:s}", "path", buf_str(&path), "type",
					 json_member_str(f, "type"), "size",
					 (json_int_t)json_member_number(f, "size"), "modified_at",
					 json_member_str(f, "mtime")));
	}
	return tool_result_pack(out, "{s:o}", "result", found);
}

/* One edit after the other; text that is not found counts as 0. */
int osb_replace_next_call(struct tool_run *run, struct cay_err *err)
{
	const json_t *entries = json_object_get(run->args, "entries");
	const json_t *entry = json_array_get(entries, run->step);
	int r = 0;

	if (run->step)
		r = tool_run_add_row(
			run,
			json_pack("{s:s, s:I, s:s*}", "path",
				  json_member_str(json_array_get(entries, run->step - 1), "path"),
				  "replaced_count",
				  (json_int_t)json_member_number(run->answer.json, "changes"),
				  "error", tool_run_failure_text(run)),
			err);
	if (r < 0 || !entry)
		return r < 0 ? r : TOOL_FINISHED;
	run->accepts_failure = true;
	return file_edit_begin_call(run, json_member_str(entry, "path"), "replace_all",
				    json_member_str(entry, "old_content"),
				    json_member_str(entry, "new_content"), 0, err);
}

int osb_replace_write_result(struct tool_run *run, struct tool_result *out, struct cay_err *)
{
	return tool_run_write_rows(run, "result", out);
}
