/* SPDX-License-Identifier: Apache-2.0 */
#include "opensandbox/opensandbox.h"

#define LIST_MAX 10000
#define LIST_MS 60000
#define DEPTH_MAX 64
#define STEPS_MAX 1000                            /* of a batch */
#define ENTRY_PATH_MAX ((size_t)4 * OSB_PATH_MAX) /* a byte that is not UTF-8 becomes three */
#define LIST_BYTES_MAX SERVER_OUT_MAX             /* of the paths of a list */
#define SEARCH_MAX 100000000                      /* bytes of names, times those of the pattern */
#define ROW_BYTES 1024                            /* of a file in v->rows, beside its texts */

/* Paths are absolute, or begin at the workspace or, with "~/", at the home directory. */
const char *osb_absolute(struct osb_request *v, const char *path)
{
	const char *base = v->workspace;
	size_t n;
	char *ret;

	if (!path || strlen(path) >= OSB_PATH_MAX)
		return NULL;
	if (path[0] == '/' || !base)
		return path;
	if (str_eq(path, "~") || strncmp(path, "~/", 2) == 0) {
		base = v->home;
		path += path[1] ? 2 : 1;
	}
	while (strncmp(path, "./", 2) == 0)
		path += 2;
	if (!path[0] || str_eq(path, "."))
		return base;
	n = strlen(base) + 1 + strlen(path) + 1;
	ret = arena_alloc(&v->arena, 1, n);
	if (ret && snprintf(ret, n, "%s/%s", str_eq(base, "/") ? "" : base, path) < 0)
		ret[0] = 0;
	return ret;
}

static const char *osb_keep_text(struct osb_request *v, const char *name)
{
	const char *s = osb_answer_text(v, name);

	return s[0] && strlen(s) < OSB_PATH_MAX ? arena_strndup(&v->arena, s, strlen(s)) : NULL;
}

static void on_osb_info_known(struct osb_request *v)
{
	v->home = osb_keep_text(v, "home");
	v->workspace = osb_keep_text(v, "workspace");
	v->owner = osb_keep_text(v, "user");
	v->uid = (uint64_t)json_integer_value(json_object_get(v->answer, "uid"));
	v->gid = (uint64_t)json_integer_value(json_object_get(v->answer, "gid"));
	if (!v->home || !v->workspace)
		osb_refuse(v, CAY_E_MISBEHAVED, "the sandbox does not know its directories");
	else
		v->later(v);
}

void osb_with_info(struct osb_request *v, osb_step *later)
{
	v->later = later;
	osb_call(v, OP_SANDBOX_INFO, on_osb_info_known, "{}");
}

const char *osb_owner(struct osb_request *v, const json_t *entry)
{
	const char *owner = osb_text(entry, "owner"), *group = osb_text(entry, "group");
	size_t n = strlen(owner) + strlen(group) + 2;
	char *ret;

	if (!owner[0] && !group[0])
		return NULL;
	ret = arena_alloc(&v->arena, 1, n);
	if (ret && snprintf(ret, n, "%s%s%s", owner, group[0] ? ":" : "", group) < 0)
		ret[0] = 0;
	return ret;
}

int osb_mode(const json_t *entry, char ret[static TRANSLATE_MODE_TEXT], struct cay_err *err)
{
	const json_t *m = json_object_get(entry, "mode");

	ret[0] = 0;
	if (!m || json_is_null(m) || (json_is_integer(m) && !json_integer_value(m)))
		return 0;
	if (!json_is_integer(m) || translate_mode(json_integer_value(m), ret) < 0)
		return cay_fail(err, CAY_E_INVALID, "mode is not a number such as 644");
	return 0;
}

/* Descriptions of files */

static const char *osb_owner_name(const struct osb_request *v, uint64_t id, bool is_group,
				  char ret[static 24])
{
	if (!id)
		return "root";
	/* a user's own group has its name */
	if (v->owner && id == (is_group ? v->gid : v->uid))
		return v->owner;
	if (snprintf(ret, 24, "%llu", (unsigned long long)id) < 0)
		ret[0] = 0;
	return ret;
}

static json_t *osb_file(const struct osb_request *v, const char *path, const json_t *row)
{
	const char *mode = osb_text(row, "mode"), *type = osb_text(row, "type");
	uint64_t digits = 0;
	char uid[24], gid[24];

	while (*mode == '0')
		mode++;
	(void)str_parse_u64(slice_of(mode), 0, 7777, &digits);
	return json_pack(
		"{s:s,s:s,s:I,s:s,s:s,s:s,s:s,s:I}", "path", path, "type",
		str_eq(type, "file") || str_eq(type, "directory") || str_eq(type, "symlink")
			? type
			: "other",
		"size", json_integer_value(json_object_get(row, "size")), "modified_at",
		osb_text(row, "mtime"), "created_at", osb_text(row, "mtime"), "owner",
		osb_owner_name(v, (uint64_t)json_integer_value(json_object_get(row, "uid")), false,
			       uid),
		"group",
		osb_owner_name(v, (uint64_t)json_integer_value(json_object_get(row, "gid")), true,
			       gid),
		"mode", (json_int_t)digits);
}

/* Info: one file after the other. */

static void osb_info_next(struct osb_request *v)
{
	const char *path = osb_query_nth(v, "path", v->at);

	if (path) {
		v->target = osb_absolute(v, path);
		v->at++;
		if (v->target)
			osb_call(v, OP_FILE_STAT, v->later, "{s:s}", "path", v->target);
		else
			osb_refuse(v, CAY_E_INVALID, "the paths are too long");
	} else if (v->at) {
		osb_reply(v, 200, json_incref(v->rows));
	} else {
		osb_refuse(v, CAY_E_INVALID, "path is missing");
	}
}

static void on_osb_stat_known(struct osb_request *v)
{
	const char *path = osb_query_nth(v, "path", v->at - 1);
	size_t *held = v->memory.kinds;
	struct cay_err err = {};

	/* each may have long texts: its sandbox wrote them */
	if (!path || json_object_set_new(v->rows, path, osb_file(v, v->target, v->answer)) < 0)
		osb_refuse(v, CAY_E_MISBEHAVED, "the sandbox sent an entry that is none");
	else if (!osb_hold(v, OSB_MEM_KEPT,
			   held[OSB_MEM_KEPT] + 2 * held[OSB_MEM_ANSWER] + ROW_BYTES, &err))
		osb_fail(v, &err);
	else
		osb_info_next(v);
}

static void osb_info_begin(struct osb_request *v)
{
	v->rows = json_object();
	v->later = on_osb_stat_known;
	osb_info_next(v);
}

void osb_file_info(struct osb_request *v)
{
	osb_with_info(v, osb_info_begin);
}

/* Changes of several files: one batch */

static void on_osb_batch_done(struct osb_request *v)
{
	const json_t *row;
	size_t i;

	json_array_foreach(json_object_get(v->answer, "results"), i, row)
	{
		struct cay_err err = {};

		if (json_is_true(json_object_get(row, "done")))
			continue;
		(void)cay_fail(&err, face_code_named(osb_text(row, "code")), "%s",
			       osb_text(row, "message"));
		osb_fail(v, &err);
		return;
	}
	osb_reply_status(v, 200);
}

/* Takes step.  Negative: the request has ended and steps are freed, since nothing is left undone in
 * silence. */
static int osb_add_step(struct osb_request *v, json_t *steps, json_t *step)
{
	if (json_array_append_new(steps, step) >= 0)
		return 0;
	json_decref(steps);
	osb_refuse(v, CAY_E_INVALID, "the paths are too long");
	return -EINVAL;
}

/* Takes steps. */
static void osb_batch(struct osb_request *v, json_t *steps)
{
	if (json_array_size(steps) > STEPS_MAX) {
		json_decref(steps);
		osb_refuse(v, CAY_E_TOO_LARGE, "more than 1000 files in one request");
	} else if (!json_array_size(steps)) {
		json_decref(steps);
		osb_reply_status(v, 200);
	} else {
		osb_call(v, OP_FILE_BATCH, on_osb_batch_done, "{s:o}", "steps", steps);
	}
}

static void osb_delete_all(struct osb_request *v)
{
	json_t *steps = json_array();
	const char *path;

	for (size_t i = 0; (path = osb_query_nth(v, "path", i)); i++)
		if (osb_add_step(v, steps,
				 json_pack("{s:s,s:s,s:b,s:b}", "do", "delete", "path",
					   osb_absolute(v, path), "recursive", v->flag,
					   "missing_ok", true)) < 0)
			return;
	osb_batch(v, steps);
}

void osb_file_delete(struct osb_request *v)
{
	osb_with_info(v, osb_delete_all);
}

void osb_directory_delete(struct osb_request *v)
{
	v->flag = true;
	osb_with_info(v, osb_delete_all);
}

/* {path: {owner?, group?, mode?}} */
static void osb_change_all(struct osb_request *v)
{
	const char *path, *owner;
	json_t *steps = json_array(), *entry, *step;
	char mode[TRANSLATE_MODE_TEXT];
	struct cay_err err = {};

	json_object_foreach (v->json, path, entry) {
		if (osb_mode(entry, mode, &err) < 0) {
			json_decref(steps);
			osb_fail(v, &err);
			return;
		}
		owner = osb_owner(v, entry);
		step = json_pack("{s:s,s:s}", "do", v->flag ? "mkdir" : "chmod", "path",
				 osb_absolute(v, path));
		if (step && v->flag)
			(void)json_object_set_new(step, "parents", json_true());
		if (step && mode[0])
			(void)json_object_set_new(step, "mode", json_string(mode));
		if (step && owner)
			(void)json_object_set_new(step, "owner", json_string(owner));
		if (osb_add_step(v, steps, step) < 0)
			return;
	}
	osb_batch(v, steps);
}

void osb_file_permissions(struct osb_request *v)
{
	osb_with_info(v, osb_change_all);
}

void osb_directory_create(struct osb_request *v)
{
	v->flag = true;
	osb_with_info(v, osb_change_all);
}

static void osb_move_all(struct osb_request *v)
{
	json_t *steps = json_array(), *row;
	size_t i;

	json_array_foreach(v->json, i, row)
	{
		const char *from = osb_text(row, "src"), *to = osb_text(row, "dest");

		if (!from[0] || !to[0]) {
			json_decref(steps);
			osb_refuse(v, CAY_E_INVALID, "src or dest is missing");
			return;
		}
		if (osb_add_step(v, steps,
				 json_pack("{s:s,s:s,s:s,s:b}", "do", "move", "path",
					   osb_absolute(v, from), "to", osb_absolute(v, to),
					   "parents", true)) < 0)
			return;
	}
	osb_batch(v, steps);
}

void osb_file_move(struct osb_request *v)
{
	osb_with_info(v, osb_move_all);
}

/* Lists */

static int osb_compare_files(const void *a, const void *b)
{
	return strcmp(osb_text(*(json_t *const *)a, "path"), osb_text(*(json_t *const *)b, "path"));
}

/* By path; takes files. */
static void osb_reply_files(struct osb_request *v, json_t *files)
{
	size_t n = json_array_size(files), i;
	json_t **sorted = arena_alloc(&v->arena, n ? n : 1, sizeof(json_t *)), *row;
	json_t *ret = sorted ? json_array() : NULL;

	if (ret) {
		json_array_foreach(files, i, row) sorted[i] = row;
		qsort(sorted, n, sizeof(json_t *), osb_compare_files);
		for (i = 0; i < n; i++)
			(void)json_array_append(ret, sorted[i]);
	}
	json_decref(files);
	osb_reply(v, 200, ret);
}

/* The whole path of an entry, in *path until the next one: a list may have more paths than a
 * request has memory. */
static int osb_entry_path(const struct osb_request *v, const json_t *row, struct buf *path)
{
	int r = 0;

	buf_clear(path);
	if (osb_text(row, "path")[0] != '/')
		r = buf_printf(path, "%s/", str_eq(v->target, "/") ? "" : v->target);
	return r < 0 ? r : face_append_entry_path(row, path);
}

/* *work grows by the time that this takes at most. */
static bool osb_entry_is_wanted(const struct osb_request *v, const json_t *row, const char *path,
				size_t *work)
{
	const char *pattern = json_string_value(v->kept), *slash = strrchr(path, '/');

	if (!pattern)
		return true;
	if (str_eq(osb_text(row, "type"), "directory"))
		return false;
	*work += strlen(pattern) * strlen(slash ? slash + 1 : path);
	return *work <= SEARCH_MAX && translate_name_matches(pattern, slash ? slash + 1 : path);
}

/* 0, or why there is no whole list. */
static int osb_list_files(const struct osb_request *v, json_t *files, struct cay_err *err)
{
	const json_t *entries = json_object_get(v->answer, "entries"), *row;
	auto_buf path = BUF_INIT(ENTRY_PATH_MAX);
	size_t sum = 0, work = 0;

	for (size_t i = 0; (row = json_array_get(entries, i)); i++) {
		/* more than was asked for, or a list without one of its entries */
		if (i == LIST_MAX || osb_entry_path(v, row, &path) < 0)
			return cay_fail(err, CAY_E_MISBEHAVED,
					"the sandbox sent an entry that is none");
		if (osb_entry_is_wanted(v, row, buf_str(&path), &work))
			sum += path.len;
		else if (work <= SEARCH_MAX)
			continue;
		if (sum > LIST_BYTES_MAX || work > SEARCH_MAX)
			return cay_fail(err, CAY_E_TOO_LARGE,
					"the list is too large: name a directory below");
		if (json_array_append_new(files, osb_file(v, buf_str(&path), row)) < 0)
			return cay_no_memory(err);
	}
	return 0;
}

/* A list has all below v->target; with v->kept, a search for what its text matches, files only. */
static void on_osb_listed(struct osb_request *v)
{
	json_t *files = json_array();
	struct cay_err err = {};
	int r = 0;

	if (json_is_true(json_object_get(v->answer, "truncated")))
		r = cay_fail(&err, CAY_E_TOO_LARGE,
			     "there are more than 10000 files: name a directory below");
	if (r >= 0)
		r = osb_list_files(v, files, &err);
	if (r >= 0) {
		osb_reply_files(v, files);
	} else {
		json_decref(files);
		osb_fail(v, &err);
	}
}

static void osb_list_begin(struct osb_request *v)
{
	v->target = osb_absolute(v, osb_query(v, "path"));
	if (!v->target)
		osb_refuse(v, CAY_E_INVALID, "path is missing");
	else
		osb_call(v, OP_FILE_LIST, on_osb_listed, "{s:s,s:I,s:i,s:i}", "path", v->target,
			 "depth", (json_int_t)v->number, "limit", LIST_MAX, "timeout_ms", LIST_MS);
}

void osb_directory_list(struct osb_request *v)
{
	const char *depth = osb_query(v, "depth");

	v->number = 1;
	if (depth && str_parse_u64(slice_of(depth), 0, DEPTH_MAX, &v->number) < 0)
		osb_refuse(v, CAY_E_INVALID, "depth must be between 0 and 64");
	else if (!v->number)
		osb_reply(v, 200, json_array());
	else
		osb_with_info(v, osb_list_begin);
}

void osb_file_search(struct osb_request *v)
{
	const char *pattern = osb_query(v, "pattern");

	if (!pattern || !pattern[0])
		pattern = "*";
	v->kept = json_string(pattern);
	v->number = DEPTH_MAX;
	if (strlen(pattern) > TRANSLATE_PATTERN_MAX)
		osb_refuse(v, CAY_E_INVALID, "pattern is longer than 100 bytes");
	else
		osb_with_info(v, osb_list_begin);
}

/* Replace: one file after the other. */

static void osb_replace_next(struct osb_request *v)
{
	void *at = v->at ? json_object_iter_at(v->json, v->target) : json_object_iter(v->json);
	const json_t *entry;

	if (v->at)
		at = json_object_iter_next(v->json, at);
	if (!at) {
		if (osb_query(v, "verbose") && str_eq(osb_query(v, "verbose"), "true"))
			osb_reply(v, 200, json_incref(v->rows));
		else
			osb_reply_status(v, 200);
		return;
	}
	v->at = 1;
	v->target = json_object_iter_key(at);
	entry = json_object_iter_value(at);
	if (!osb_text(entry, "old")[0]) {
		osb_refuse(v, CAY_E_INVALID, "old is missing");
		return;
	}
	v->accepts_failure = true;
	osb_call(v, OP_FILE_EDIT, v->later, "{s:s,s:[{s:s,s:s,s:s}]}", "path",
		 osb_absolute(v, v->target), "edits", "kind", "replace_all", "old",
		 osb_text(entry, "old"), "new", osb_text(entry, "new"));
}

/* A text that does not occur is replaced 0 times. */
static void on_osb_replaced(struct osb_request *v)
{
	const json_t *changes = json_object_get(v->answer, "changes");
	const char *field = osb_text(json_object_get(v->answer, "error"), "field");
	size_t n = strlen(field);
	bool absent = n >= 3 && str_eq(field + n - 3, "old");

	if (v->status >= 400 && !(absent && v->failure.code == CAY_E_CONFLICT)) {
		osb_fail(v, &v->failure);
		return;
	}
	if (json_object_set_new(v->rows, v->target,
				json_pack("{s:I}", "replacedCount",
					  v->status < 400 ? json_integer_value(changes) : 0)) < 0)
		osb_refuse(v, CAY_E_NO_MEMORY, "out of memory");
	else
		osb_replace_next(v);
}

static void osb_replace_begin(struct osb_request *v)
{
	v->rows = json_object();
	v->later = on_osb_replaced;
	osb_replace_next(v);
}

void osb_file_replace(struct osb_request *v)
{
	osb_with_info(v, osb_replace_begin);
}
