/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OPS_TYPES_FILE_H
#define CAY_OPS_TYPES_FILE_H
/* types-file - files, text and trees of a sandbox, as types.h has the rest */
#include "ops/field.h"

/* Files.  Of each pair one is set: the second is base64, for names that are not UTF-8. */
enum file_type {
	FILE_REGULAR,
	FILE_DIR,
	FILE_SYMLINK,
	FILE_FIFO,
	FILE_SOCKET,
	FILE_CHAR,
	FILE_BLOCK,
	FILE_NUM_TYPES
};

struct file_query {
	const char *path, *path_b64, *token;
};

struct file_stat_query {
	const char *path, *path_b64;
	bool follow;
};

struct file_stat {
	const char *path, *path_b64;
	unsigned type; /* enum file_type */
	uint64_t size;
	const char *mode;
	uint64_t uid, gid, mtime_ns;
	const char *target, *target_b64;
};

/* Text files */
struct file_view_query {
	const char *path, *path_b64;
	uint64_t first, limit, width;
	bool tail, numbers;
};

struct file_view {
	uint64_t size, first, lines, total, cut;
	bool has_first, has_total, more, binary;
	const char *text, *text_b64;
};

struct file_glob_query {
	const char *path, *path_b64;
	const char *pattern;
	bool hidden;
	unsigned type; /* enum glob_find_type */
	uint64_t limit;
};

struct file_found {
	const char *path, *path_b64;
	unsigned type; /* enum file_type */
	uint64_t size, mtime_ns;
};

struct file_glob {
	struct field_list files; /* struct file_found */
	uint64_t total, skipped;
};

/* Trees of them. */
enum tree_format { TREE_TAR, TREE_TAR_GZ, TREE_NUM_FORMATS };
enum link_format { LINK_TAR, LINK_TAR_GZ, LINK_FILE, LINK_NUM_FORMATS };

struct tree_query {
	const char *path, *path_b64;
	unsigned format; /* enum tree_format */
	const char *token;
};

struct tree_put_query {
	const char *path, *path_b64;
	unsigned format;
	uint64_t max_entries, max_bytes;
};

struct tree_made {
	uint64_t files, directories, links, bytes, skipped, changed;
};

struct file_grep_ask {
	const char *path, *path_b64;
	const char *pattern;
	bool fixed, ignore_case, hidden;
	struct field_texts include;
	bool has_include;
	uint64_t context, limit, per_file, width;
};

struct file_hit {
	const char *path, *path_b64;
	uint64_t line, column;
	bool has_column, cut;
	const char *text, *text_b64;
};

struct file_grep {
	struct field_list hits; /* struct file_hit */
	uint64_t files, binary, skipped;
	bool truncated;
};

struct file_watch_query {
	const char *path, *path_b64;
	bool flat;
	uint64_t wait_ms, limit;
};

struct file_event {
	uint64_t number;
	unsigned event; /* enum watch_kind */
	const char *path, *path_b64;
	bool directory;
	uint64_t move;
	bool has_move;
};

struct file_event_list {
	struct field_list events; /* struct file_event */
};

struct file_list_query {
	const char *path, *path_b64;
	uint64_t depth, limit, timeout_ms;
};

struct file_list {
	struct field_list entries; /* struct file_stat */
	bool truncated;
};

struct file_write_query {
	const char *path, *path_b64;
	const char *mode, *owner, *sha256, *if_sha256;
	bool create_only, parents, append, has_size;
	uint64_t size;
};

struct file_written {
	const char *path, *path_b64, *sha256;
	uint64_t size;
	bool created;
};

struct file_mkdir {
	const char *path, *path_b64, *mode, *owner;
	bool parents;
};

struct file_move {
	const char *path, *path_b64, *to, *to_b64;
	bool overwrite, parents;
};

struct file_copy {
	const char *path, *path_b64, *to, *to_b64;
	bool overwrite, parents, recursive;
};

struct file_delete {
	const char *path, *path_b64;
	bool recursive, missing_ok;
};

struct file_chmod {
	const char *path, *path_b64, *mode, *owner;
	bool recursive;
};

struct file_symlink {
	const char *path, *path_b64, *target, *target_b64;
	bool overwrite, parents;
};

/* Any of those, in a batch. */
enum file_verb {
	FILE_MKDIR,
	FILE_MOVE,
	FILE_COPY,
	FILE_DELETE,
	FILE_CHMOD,
	FILE_LINK,
	FILE_WRITE,
	FILE_STAT,
	FILE_NUM_VERBS
};

struct file_step {
	unsigned verb;
	const char *path, *path_b64, *to, *to_b64, *target, *target_b64, *mode, *owner;
	bool overwrite, parents, recursive, missing_ok;
	/* of write and stat */
	const char *content, *content_b64, *sha256, *if_sha256;
	bool create_only, append, follow;
};

struct file_batch {
	struct field_list steps; /* struct file_step */
	bool keep_going;
};

struct file_done {
	const char *path, *path_b64;
};

struct file_result {
	const char *path, *path_b64;
	bool done;
	const char *code, *message; /* of one that failed */
	bool has_written, has_stat;
	struct file_written written;
	struct file_stat stat;
};

struct file_results {
	struct field_list results;
	uint64_t failed, left;
};

struct file_change {
	unsigned kind; /* enum edit_kind */
	const char *old, *text;
	uint64_t line;
};

struct file_edit {
	const char *path, *path_b64;
	struct field_list edits; /* struct file_change */
	const char *if_sha256;
	bool dry_run;
};

struct file_edited {
	uint64_t changes, size;
	const char *sha256;
	const char *diff, *diff_b64;
	bool diff_left_out;
};

struct tree_import {
	struct id from;     /* or none, and then: */
	const char *upload; /* of the group of the sandbox */
	const char *path, *path_b64, *to, *to_b64;
};

struct tree_link {
	const char *path, *path_b64;
	unsigned format;
	uint64_t ttl_ms;
};

struct tree_linked {
	const char *url;
	uint64_t expires_ns;
};

enum export_type { EXPORT_FILE, EXPORT_DIR, EXPORT_NUM_TYPES };

struct export_path {
	const char *path, *path_b64;
};

struct export_info {
	const char *path, *path_b64; /* absolute */
	unsigned type;               /* enum export_type */
	uint64_t size;               /* of a file, when it was exported */
	bool has_size;
	uint64_t created_ns;
	const char *url; /* only in the reply that creates it */
};

/* In the journal. */
struct export_record {
	struct export_info info;
	const char *token;
};

struct export_list {
	struct field_list exports; /* struct export_info */
};

struct upload_put_query {
	const char *group, *name, *sha256;
	bool has_size;
	uint64_t size;
};

struct upload_query {
	const char *group, *name;
};

struct upload_info {
	const char *name, *sha256;
	uint64_t size, created_ns;
};

struct upload_list {
	struct field_list uploads;
};
#endif
