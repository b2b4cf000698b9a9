/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/e2b.h"
#include "face/operation.h"

#define LIST_MAX 10000
#define LINKS_MAX 1000 /* steps of a batch */
#define LIST_MS 60000
#define ENTRY_PATH_MAX ((size_t)4 * E2B_PATH_MAX) /* a byte that is not UTF-8 becomes three */

/* Paths are absolute, or begin at the workspace or, with "~/", at the home directory. */
static const char *e2b_absolute(struct e2b_request *v, const char *path)
{
	const char *base = v->workspace;
	size_t n;
	char *ret;

	if (!path || path[0] == '/')
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

static const char *e2b_keep_text(struct e2b_request *v, const char *name)
{
	const char *s = e2b_answer_text(v, name);

	return s[0] ? arena_strndup(&v->arena, s, strlen(s)) : NULL;
}

static void on_e2b_info_known(struct e2b_request *v)
{
	v->home = e2b_keep_text(v, "home");
	v->workspace = e2b_keep_text(v, "workspace");
	v->owner = e2b_keep_text(v, "user");
	v->uid = (uint64_t)json_integer_value(json_object_get(v->answer, "uid"));
	if (!v->home || !v->workspace) {
		e2b_refuse(v, CAY_E_MISBEHAVED, "the sandbox does not know its directories");
		return;
	}
	v->target = e2b_absolute(v, v->target);
	v->source = e2b_absolute(v, v->source);
	if (!v->target)
		e2b_refuse(v, CAY_E_TOO_LARGE, "the path is too long");
	else
		v->later(v);
}

void e2b_resolve_paths(struct e2b_request *v, const char *target, const char *source,
		       e2b_step *then)
{
	v->target = target;
	v->source = source;
	v->later = then;
	if (!target || strlen(target) >= E2B_PATH_MAX || (source && strlen(source) >= E2B_PATH_MAX))
		e2b_refuse(v, CAY_E_INVALID, "path is missing, or too long");
	else
		e2b_call(v, OP_SANDBOX_INFO, on_e2b_info_known, "{}");
}

static const char *e2b_body_text(const struct e2b_request *v, const char *name)
{
	return json_string_value(json_object_get(v->json, name));
}

static const char *e2b_owner_name(const struct e2b_request *v, uint64_t id, char ret[static 24])
{
	if (!id)
		return "root";
	if (id == v->uid && v->owner)
		return v->owner;
	if (snprintf(ret, 24, "%llu", (unsigned long long)id) < 0)
		ret[0] = 0;
	return ret;
}

static unsigned e2b_octal(const char *digits)
{
	unsigned mode = 0;

	for (; *digits >= '0' && *digits <= '7' && mode < 010000; digits++)
		mode = mode << 3 | (unsigned)(*digits - '0');
	return mode;
}

static void e2b_format_mode(const char *type, unsigned mode, char ret[static 11])
{
	static const char bits[] = "rwxrwxrwx";

	ret[0] = str_eq(type, "directory") ? 'd' : str_eq(type, "symlink") ? 'L' : '-';
	for (unsigned i = 0; i < 9; i++)
		ret[i + 1] = mode & 1u << (8 - i) ? bits[i] : '-';
	ret[10] = 0;
}

/* An entry of E2B: row says what the name is, seen what a link leads to (else the same). */
static json_t *e2b_entry(const struct e2b_request *v, const char *path, const json_t *row,
			 const json_t *seen)
{
	const char *type = json_string_value(json_object_get(row, "type"));
	const char *leads = json_string_value(json_object_get(seen, "type"));
	const char *digits = json_string_value(json_object_get(seen, "mode"));
	const char *target = json_string_value(json_object_get(row, "target"));
	const char *slash = strrchr(path, '/');
	unsigned mode = digits ? e2b_octal(digits) : 0;
	char permissions[11], size[24], uid[24], gid[24];
	json_t *e;

	if (!type || !leads)
		return NULL;
	e2b_format_mode(type, mode, permissions);
	if (snprintf(size, sizeof(size), "%lld",
		     (long long)json_integer_value(json_object_get(seen, "size"))) < 0)
		size[0] = 0;
	e = json_pack(
		"{s:s,s:s,s:s,s:s,s:i,s:s,s:s,s:s,s:O}", "name",
		slash && slash[1] ? slash + 1 : path, "type",
		str_eq(leads, "directory") ? "FILE_TYPE_DIRECTORY"
		: str_eq(leads, "file")    ? "FILE_TYPE_FILE"
		: str_eq(leads, "symlink") ? "FILE_TYPE_SYMLINK"
					   : "FILE_TYPE_UNSPECIFIED",
		"path", path, "size", size, "mode", (int)(mode & 0777), "permissions", permissions,
		"owner",
		e2b_owner_name(v, (uint64_t)json_integer_value(json_object_get(seen, "uid")), uid),
		"group",
		e2b_owner_name(v, (uint64_t)json_integer_value(json_object_get(seen, "gid")), gid),
		"modifiedTime", json_object_get(seen, "mtime"));
	if (e && target)
		(void)json_object_set_new(e, "symlinkTarget", json_string(target));
	return e;
}

/* Stat of v->target, the reply of several methods. */

static void on_e2b_stat_followed(struct e2b_request *v)
{
	/* a link that leads nowhere is an entry too */
	const json_t *seen = v->status < 400 ? v->answer : v->kept;

	e2b_reply(v, 200, json_pack("{s:o}", "entry", e2b_entry(v, v->target, v->kept, seen)));
}

static void on_e2b_stat_known(struct e2b_request *v)
{
	if (!str_eq(e2b_answer_text(v, "type"), "symlink")) {
		e2b_reply(
			v, 200,
			json_pack("{s:o}", "entry", e2b_entry(v, v->target, v->answer, v->answer)));
		return;
	}
	v->kept = json_incref(v->answer);
	v->accepts_failure = true;
	e2b_call(v, OP_FILE_STAT, on_e2b_stat_followed, "{s:s,s:b}", "path", v->target, "follow",
		 true);
}

static void e2b_reply_stat(struct e2b_request *v)
{
	e2b_call(v, OP_FILE_STAT, on_e2b_stat_known, "{s:s}", "path", v->target);
}

void e2b_file_stat(struct e2b_request *v)
{
	e2b_resolve_paths(v, e2b_body_text(v, "path"), NULL, e2b_reply_stat);
}

/* ListDir: the entries, then where its links lead, in one batch. */

/* In *path, until the next one: a list may have more paths than a request has memory. */
static const char *e2b_entry_path(const struct e2b_request *v, const json_t *row, struct buf *path)
{
	int r;

	buf_clear(path);
	r = buf_printf(path, "%s/", str_eq(v->target, "/") ? "" : v->target);
	if (r >= 0)
		r = face_append_entry_path(row, path);
	return r < 0 ? NULL : buf_str(path);
}

static bool e2b_row_is_link(const json_t *row)
{
	return json_text_eq(json_object_get(row, "type"), "symlink");
}

static void e2b_reply_list(struct e2b_request *v, const json_t *results)
{
	auto_buf text = BUF_INIT(ENTRY_PATH_MAX);
	json_t *rows = json_array(), *row;
	size_t i, links = 0;

	json_array_foreach(v->kept, i, row)
	{
		const char *path = e2b_entry_path(v, row, &text);
		const json_t *seen = row, *got = NULL;

		if (e2b_row_is_link(row))
			got = json_object_get(json_array_get(results, links++), "stat");
		if (got)
			seen = got;
		/* a list without one of its entries would be taken for a whole one */
		if (!path || json_array_append_new(rows, e2b_entry(v, path, row, seen)) < 0) {
			json_decref(rows);
			e2b_refuse(v, CAY_E_MISBEHAVED, "the sandbox sent an entry that is none");
			return;
		}
	}
	e2b_reply(v, 200, json_pack("{s:o}", "entries", rows));
}

static void on_e2b_links_followed(struct e2b_request *v)
{
	e2b_reply_list(v, json_object_get(v->answer, "results"));
}

static void on_e2b_listed(struct e2b_request *v)
{
	auto_buf text = BUF_INIT(ENTRY_PATH_MAX);
	json_t *steps = json_array(), *row;
	size_t i;

	if (json_is_true(json_object_get(v->answer, "truncated"))) {
		json_decref(steps);
		e2b_refuse(v, CAY_E_TOO_LARGE, "the directory has too many entries");
		return;
	}
	v->kept = json_incref(json_object_get(v->answer, "entries"));
	json_array_foreach(v->kept, i, row)
	{
		bool asks = e2b_row_is_link(row) && json_array_size(steps) < LINKS_MAX;
		const char *path = asks ? e2b_entry_path(v, row, &text) : NULL;

		/* without a path it is refused with the list */
		if (asks)
			(void)json_array_append_new(steps,
						    json_pack("{s:s,s:s,s:b}", "do", "stat", "path",
							      path ? path : "/", "follow", true));
	}
	if (!json_array_size(steps)) {
		json_decref(steps);
		e2b_reply_list(v, NULL);
		return;
	}
	v->accepts_failure = true;
	e2b_call(v, OP_FILE_BATCH, on_e2b_links_followed, "{s:o,s:b}", "steps", steps, "keep_going",
		 true);
}

static void e2b_list_resolved(struct e2b_request *v)
{
	json_int_t depth = json_integer_value(json_object_get(v->json, "depth"));

	e2b_call(v, OP_FILE_LIST, on_e2b_listed, "{s:s,s:I,s:i,s:i}", "path", v->target, "depth",
		 depth < 1    ? (json_int_t)1
		 : depth > 64 ? (json_int_t)64
			      : depth,
		 "limit", LIST_MAX, "timeout_ms", LIST_MS);
}

void e2b_file_list(struct e2b_request *v)
{
	e2b_resolve_paths(v, e2b_body_text(v, "path"), NULL, e2b_list_resolved);
}

/* MakeDir */

static void on_e2b_mkdir_checked(struct e2b_request *v)
{
	bool directory = str_eq(e2b_answer_text(v, "type"), "directory");

	if (v->status < 400)
		e2b_refuse(v, directory ? CAY_E_CONFLICT : CAY_E_INVALID,
			   directory ? "directory already exists"
				     : "path already exists but it is not a directory");
	else if (v->failure.code != CAY_E_NOT_FOUND)
		e2b_fail(v, &v->failure);
	else if (v->user)
		e2b_call(v, OP_FILE_MKDIR, e2b_reply_stat, "{s:s,s:b,s:s}", "path", v->target,
			 "parents", true, "owner", v->user);
	else
		e2b_call(v, OP_FILE_MKDIR, e2b_reply_stat, "{s:s,s:b}", "path", v->target,
			 "parents", true);
}

static void e2b_mkdir_resolved(struct e2b_request *v)
{
	v->accepts_failure = true;
	e2b_call(v, OP_FILE_STAT, on_e2b_mkdir_checked, "{s:s,s:b}", "path", v->target, "follow",
		 true);
}

void e2b_file_mkdir(struct e2b_request *v)
{
	e2b_resolve_paths(v, e2b_body_text(v, "path"), NULL, e2b_mkdir_resolved);
}

static void e2b_move_resolved(struct e2b_request *v)
{
	e2b_call(v, OP_FILE_MOVE, e2b_reply_stat, "{s:s,s:s,s:b,s:b}", "path", v->source, "to",
		 v->target, "overwrite", true, "parents", true);
}

void e2b_file_move(struct e2b_request *v)
{
	const char *from = e2b_body_text(v, "source");

	e2b_resolve_paths(v, from ? e2b_body_text(v, "destination") : NULL, from,
			  e2b_move_resolved);
}

static void on_e2b_removed(struct e2b_request *v)
{
	e2b_reply(v, 200, json_object());
}

static void e2b_remove_resolved(struct e2b_request *v)
{
	e2b_call(v, OP_FILE_DELETE, on_e2b_removed, "{s:s,s:b,s:b}", "path", v->target, "recursive",
		 true, "missing_ok", true);
}

void e2b_file_remove(struct e2b_request *v)
{
	e2b_resolve_paths(v, e2b_body_text(v, "path"), NULL, e2b_remove_resolved);
}
