/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile-opensandbox - opensandbox-mcp's names and shapes over our operations
 */
#include <stdio.h>

#include "mcp/profile-parts.h"

#define ROWS "@rows" /* results so far, kept with the arguments: no model's has that name */

/* Sandboxes */

/* What cannot be honoured is refused, not ignored. */
static int refuse_create(const struct tool_run *run, struct cay_err *err)
{
	if (run_arg(run, "auth_username") || run_arg(run, "auth_password"))
		return cay_fail_field(err, CAY_E_INVALID, "auth_username",
				      "credentials of registries are the operator's to keep: "
				      "'cay image login'");
	if (json_object_get(run->args, "network_policy"))
		return cay_fail_field(err, CAY_E_INVALID, "network_policy",
				      "cannot be chosen here; leave it out");
	if (json_object_size(json_object_get(run->args, "extensions")))
		return cay_fail_field(err, CAY_E_INVALID, "extensions", "there are none here");
	return 0;
}

static int set_resource(struct tool_run *run, struct cay_err *err)
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
					      "there is no '%.64s'; there are: cpu, memory", key);
		r = run_set(run, known[i].member, json_incref(v), err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int pass(struct tool_run *run, const char *arg, const char *member, struct cay_err *err)
{
	json_t *v = json_object_get(run->args, arg);

	return v ? run_set(run, member, json_incref(v), err) : 0;
}

int osb_ask_create(struct tool_run *run, struct cay_err *err)
{
	int r = refuse_create(run, err);

	if (r < 0 || run->step)
		return r < 0 ? r : TOOL_SHOWN;
	run_call(run, OP_SANDBOX_CREATE);
	r = pass(run, "image", "image", err);
	if (r >= 0)
		r = pass(run, "env", "env", err);
	if (r >= 0)
		r = pass(run, "metadata", "labels", err);
	if (r >= 0)
		r = pass(run, "entrypoint", "entrypoint", err);
	if (r >= 0)
		r = set_resource(run, err);
	if (r >= 0 && run->group)
		r = run_text(run, "group", run->group, err);
	return r < 0 ? r
		     : run_number(run, "ttl_ms", 1000 * run_arg_number(run, "timeout_seconds"),
				  err);
}

/* Our states by their names. */
static const char *state_of(const json_t *box)
{
	static const char *const names[][2] = {
		{ "pending", "Pending" },       { "running", "Running" }, { "paused", "Paused" },
		{ "terminated", "Terminated" }, { "failed", "Failed" },   { "ending", "Stopping" },
	};
	const char *state = part_str(box, "state");

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_eq(names[i][0], state))
			return names[i][1];
	return state;
}

static json_t *info_of(const json_t *box)
{
	return json_pack("{s:s, s:{s:s}, s:{s:s}, s:O*, s:s, s:s*}", "id", part_str(box, "id"),
			 "status", "state", state_of(box), "image", "image", part_str(box, "image"),
			 "metadata", json_object_get(box, "labels"), "created_at",
			 part_str(box, "created_at"), "expires_at",
			 json_string_value(json_object_get(box, "expires_at")));
}

int osb_show_created(struct tool_run *run, struct result *out, struct cay_err *)
{
	const json_t *j = run->answer.json;

	part_json(out,
		  json_pack("{s:s, s:o}", "sandbox_id", part_str(j, "id"), "info", info_of(j)));
	return 0;
}

int osb_show_info(struct tool_run *run, struct result *out, struct cay_err *)
{
	part_json(out, info_of(run->answer.json));
	return 0;
}

static uint64_t filter_number(const struct tool_run *run, const char *name, uint64_t without)
{
	uint64_t n = part_number(json_object_get(run->args, "filter"), name);

	return n ? n : without;
}

/* Pages are counted there and pointed at here: all up to the one that is meant. */
int osb_ask_list(struct tool_run *run, struct cay_err *err)
{
	uint64_t size = filter_number(run, "page_size", 20);
	uint64_t most = size * filter_number(run, "page", 1);

	if (run->step)
		return TOOL_SHOWN;
	if (most > 1000)
		return cay_fail_field(err, CAY_E_INVALID, "filter",
				      "page times page_size must not be more than 1000");
	run_call(run, OP_SANDBOX_LIST);
	return run_number(run, "limit", most, err);
}

static bool fits(const struct tool_run *run, const json_t *box)
{
	const json_t *filter = json_object_get(run->args, "filter");
	const json_t *states = json_object_get(filter, "states"), *want;
	bool state = json_array_size(states) == 0;
	const char *key;
	size_t i;

	json_array_foreach(states, i, want) state |= str_eq(json_string_value(want), state_of(box));
	json_object_foreach ((json_t *)json_object_get(filter, "metadata"), key, want)
		if (!str_eq(part_str(json_object_get(box, "labels"), key), json_string_value(want)))
			return false;
	return state;
}

int osb_show_list(struct tool_run *run, struct result *out, struct cay_err *)
{
	uint64_t size = filter_number(run, "page_size", 20), page = filter_number(run, "page", 1);
	const json_t *list = json_object_get(run->answer.json, "sandboxes"), *box;
	json_t *infos = json_array();
	size_t i;

	json_array_foreach(list, i, box) if (i >= (page - 1) * size && fits(run, box))(void)
		json_array_append_new(infos, info_of(box));
	part_json(out,
		  json_pack("{s:o, s:{s:I, s:I, s:b}}", "sandbox_infos", infos, "pagination",
			    "page", (json_int_t)page, "page_size", (json_int_t)size,
			    "has_next_page", part_text(run->answer.json, "next_cursor").n > 0));
	return 0;
}

int osb_show_renewed(struct tool_run *run, struct result *out, struct cay_err *)
{
	part_json(out, json_pack("{s:s}", "expires_at", part_str(run->answer.json, "expires_at")));
	return 0;
}

int osb_ask_health(struct tool_run *run, struct cay_err *)
{
	if (run->step)
		return TOOL_SHOWN;
	run_call(run, OP_SANDBOX_HEALTH);
	run->hears = true;
	return TOOL_CALLS;
}

int osb_show_health(struct tool_run *run, struct result *out, struct cay_err *)
{
	part_json(out, json_pack("{s:s, s:b}", "sandbox_id", run_arg(run, "sandbox_id"), "healthy",
				 run->answer.status == 200));
	return 0;
}

/* The host a port is at, and what a program sends with each request. */
int osb_show_endpoint(struct tool_run *run, struct result *out, struct cay_err *)
{
	const json_t *j = run->answer.json;
	const char *origin = part_str(j, "origin"), *host = strstr(origin, "://");

	part_json(out, json_pack("{s:s, s:{s:s}}", "endpoint", host ? host + 3 : origin, "headers",
				 "Cay-Preview", part_str(j, "token")));
	return 0;
}

/* {"status": "..."}, as most of them answer. */
static int say(struct result *out, const char *status)
{
	part_json(out, json_pack("{s:s}", "status", status));
	return 0;
}

int osb_show_killed(struct tool_run *, struct result *out, struct cay_err *)
{
	return say(out, "killed");
}

/* Commands */

static json_t *log_of(const json_t *j, const char *stream)
{
	struct slice text = part_text(j, stream);

	return text.n ? json_pack("[{s:o}]", "text", part_cut(j, stream)) : json_array();
}

int osb_show_execution(struct tool_run *run, struct result *out, struct cay_err *err)
{
	const json_t *j = run->answer.json, *end = json_object_get(j, "end");
	const json_t *code = json_object_get(end, "exit_code");

	if (!json_is_object(j))
		return cay_fail(err, CAY_E_MISBEHAVED, "the sandbox did not say how it ended");
	part_json(out, json_pack("{s:s, s:O?, s:{s:o, s:o}, s:s*}", "id", part_str(j, "id"),
				 "exit_code", code, "logs", "stdout", log_of(j, "stdout"), "stderr",
				 log_of(j, "stderr"), "error",
				 end && !code ? part_str(end, "reason") : NULL));
	return 0;
}

int osb_show_interrupted(struct tool_run *, struct result *out, struct cay_err *)
{
	return say(out, "interrupted");
}

/* Files */

static int only_utf8(const struct tool_run *run, struct cay_err *err)
{
	const char *encoding = run_arg(run, "encoding");

	if (!str_eq(encoding, "utf-8") && !str_eq(encoding, "utf8") && !str_eq(encoding, "ascii"))
		return cay_fail_field(err, CAY_E_INVALID, "encoding", "must be utf-8");
	return 0;
}

int osb_ask_read(struct tool_run *run, struct cay_err *err)
{
	const char *range = run_arg(run, "range_header");
	int r = only_utf8(run, err);

	if (r < 0 || run->step)
		return r < 0 ? r : TOOL_SHOWN;
	for (const char *c = range ? range : ""; *c; c++)
		if (*c < ' ' || *c > '~')
			return cay_fail_field(err, CAY_E_INVALID, "range_header",
					      "must be as in bytes=0-1023");
	run_call(run, OP_FILE_READ);
	run->call.range = range;
	return run_map(run, err);
}

int osb_show_read(struct tool_run *run, struct result *out, struct cay_err *err)
{
	struct slice body = run->answer.body;
	auto_buf text = BUF_INIT(RESULT_TEXT);
	json_t *content;

	if (result_image(out, body))
		return 0;
	if (!body.n)
		body.p = "";
	if (!utf8_valid(body.p, body.n) || memchr(body.p, 0, body.n))
		return cay_fail(err, CAY_E_INVALID, "the file is no text");
	if (body.n > RESULT_TEXT)
		return cay_fail_field(err, CAY_E_TOO_LARGE, "range_header",
				      "it has %zu bytes: read parts of %zu at the most, as in "
				      "bytes=0-%zu",
				      body.n, RESULT_TEXT, RESULT_TEXT - 1);
	content = json_stringn(body.p, body.n);
	part_json(out, json_pack("{s:s, s:o}", "path", run_arg(run, "path"), "content", content));
	return 0;
}

/* 755 is written as it is read: in octal. */
static int set_owner_and_mode(json_t *to, const json_t *from, const char *mode_without)
{
	const json_t *number = json_object_get(from, "mode");
	const char *owner = part_str(from, "owner"), *group = part_str(from, "group");
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

int osb_ask_write(struct tool_run *run, struct cay_err *err)
{
	const json_t *content = json_object_get(run->args, "content");
	int r = only_utf8(run, err);

	if (r < 0 || run->step)
		return r < 0 ? r : TOOL_SHOWN;
	run_call(run, OP_FILE_WRITE);
	run->call.body = (struct slice){ json_string_value(content), json_string_length(content) };
	if (set_owner_and_mode(run->call.members, run->args, "0755") < 0)
		return cay_fail_field(err, CAY_E_INVALID, "mode", "must be as in 755");
	r = run_text(run, "path", run_arg(run, "path"), err);
	return r < 0 ? r : run_set(run, "parents", json_true(), err);
}

int osb_show_written(struct tool_run *, struct result *out, struct cay_err *)
{
	return say(out, "written");
}

/* Steps of a batch, made of each entry of an argument. */
static int ask_batch(struct tool_run *run, const char *arg, json_t *(*step)(const json_t *entry),
		     struct cay_err *err)
{
	const json_t *entries = json_object_get(run->args, arg), *entry;
	json_t *steps;
	size_t i;

	if (run->step)
		return TOOL_SHOWN;
	run_call(run, OP_FILE_BATCH);
	steps = json_array();
	json_array_foreach(entries, i, entry) if (json_array_append_new(steps, step(entry)) < 0)
	{
		json_decref(steps);
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	}
	return run_set(run, "steps", steps, err);
}

static json_t *step_delete(const json_t *path)
{
	return json_pack("{s:s, s:O}", "do", "delete", "path", path);
}

static json_t *step_rmdir(const json_t *path)
{
	return json_pack("{s:s, s:O, s:b}", "do", "delete", "path", path, "recursive", true);
}

static json_t *step_mkdir(const json_t *entry)
{
	json_t *step = json_pack("{s:s, s:O, s:b}", "do", "mkdir", "path",
				 json_object_get(entry, "path"), "parents", true);

	if (step && set_owner_and_mode(step, entry, "0755") < 0) {
		json_decref(step);
		return NULL;
	}
	return step;
}

static json_t *step_move(const json_t *entry)
{
	return json_pack("{s:s, s:O, s:O, s:b}", "do", "move", "path",
			 json_object_get(entry, "source"), "to",
			 json_object_get(entry, "destination"), "parents", true);
}

int osb_ask_delete(struct tool_run *run, struct cay_err *err)
{
	return ask_batch(run, "paths", step_delete, err);
}

int osb_ask_rmdirs(struct tool_run *run, struct cay_err *err)
{
	return ask_batch(run, "paths", step_rmdir, err);
}

int osb_ask_mkdirs(struct tool_run *run, struct cay_err *err)
{
	return ask_batch(run, "entries", step_mkdir, err);
}

int osb_ask_move(struct tool_run *run, struct cay_err *err)
{
	return ask_batch(run, "entries", step_move, err);
}

static int show_batch(struct tool_run *run, struct result *out, const char *status)
{
	const json_t *j = run->answer.json, *row;
	size_t i;

	json_array_foreach(json_object_get(j, "results"), i, row)
	{
		if (json_is_true(json_object_get(row, "done")))
			continue;
		out->error = true;
		result_printf(out, "%s: %s: %s", part_str(row, "path"), part_str(row, "code"),
			      part_str(row, "message"));
	}
	if (part_number(j, "left"))
		result_printf(out, "[%llu behind it were not tried]",
			      (unsigned long long)part_number(j, "left"));
	return out->error ? 0 : say(out, status);
}

int osb_show_deleted(struct tool_run *run, struct result *out, struct cay_err *)
{
	return show_batch(run, out, "deleted");
}

int osb_show_mkdirs(struct tool_run *run, struct result *out, struct cay_err *)
{
	return show_batch(run, out, "created");
}

int osb_show_moved(struct tool_run *run, struct result *out, struct cay_err *)
{
	return show_batch(run, out, "moved");
}

/* A pattern without a directory means all of them. */
int osb_ask_search(struct tool_run *run, struct cay_err *err)
{
	const char *pattern = run_arg(run, "pattern");
	auto_buf b = BUF_INIT(KIB(2));
	int r;

	if (run->step)
		return TOOL_SHOWN;
	run_call(run, OP_FILE_GLOB);
	r = run_map(run, err);
	if (r >= 0 && buf_printf(&b, "%s%s", strchr(pattern, '/') ? "" : "**/", pattern) < 0)
		r = cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	return r < 0 ? r : run_text(run, "pattern", buf_str(&b), err);
}

int osb_show_search(struct tool_run *run, struct result *out, struct cay_err *)
{
	const json_t *list = json_object_get(run->answer.json, "files"), *f;
	json_t *found = json_array();
	size_t i;

	json_array_foreach(list, i, f)
	{
		auto_buf path = BUF_INIT(KIB(12));

		if (buf_printf(&path, "%s/", run_arg(run, "path")) < 0 ||
		    part_name(f, "path", &path) < 0)
			continue;
		(void)json_array_append_new(found,
					    json_pack("{s:s, s:s, s:I, s:s}", "path",
						      buf_str(&path), "type", part_str(f, "type"),
						      "size", (json_int_t)part_number(f, "size"),
						      "modified_at", part_str(f, "mtime")));
	}
	part_json(out, json_pack("{s:o}", "result", found));
	return 0;
}

/* One edit after the other; what is not found is counted as 0. */
static int add_count(struct tool_run *run, const json_t *entry, struct cay_err *err)
{
	json_t *rows = json_object_get(run->args, ROWS);

	if (!rows && json_object_set_new(run->args, ROWS, rows = json_array()) < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	if (json_array_append_new(rows,
				  json_pack("{s:s, s:I, s:s*}", "path", part_str(entry, "path"),
					    "replaced_count",
					    (json_int_t)part_number(run->answer.json, "changes"),
					    "error", part_failure(run))) < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	return 0;
}

int osb_ask_replace(struct tool_run *run, struct cay_err *err)
{
	const json_t *entries = json_object_get(run->args, "entries");
	const json_t *entry = json_array_get(entries, run->step);
	int r = 0;

	if (run->step)
		r = add_count(run, json_array_get(entries, run->step - 1), err);
	if (r < 0 || !entry)
		return r < 0 ? r : TOOL_SHOWN;
	run->hears = true;
	return part_edit(run, part_str(entry, "path"), "replace_all",
			 part_str(entry, "old_content"), part_str(entry, "new_content"), 0, err);
}

int osb_show_replaced(struct tool_run *run, struct result *out, struct cay_err *)
{
	json_t *rows = json_object_get(run->args, ROWS), *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		out->error |= json_object_get(row, "error") != NULL;
	}
	part_json(out, json_pack("{s:O}", "result", rows));
	return 0;
}
