/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_GLOB_FIND_H
#define CAY_FILE_GLOB_FIND_H
/* glob-find - files that match a pattern, newest first.  The newest `limit` of them are kept, in a
 * heap whose top is the oldest of those; all are counted. */
#include "file/glob.h"
#include "file/walk.h"

#define GLOB_FIND_LIMIT_MAX 10000

enum glob_find_type {
	GLOB_FIND_FILE,
	GLOB_FIND_DIR,
	GLOB_FIND_ANY
}; /* FILE: whatever is no directory */

struct glob_find_request {
	const char *dir;
	struct slice pattern;
	bool hidden;
	enum glob_find_type type;
	unsigned limit; /* 1..FIND_LIMIT_MAX */
};

struct glob_find_entry {
	char *path; /* below dir, or absolute when the pattern is */
	size_t n;
	uint64_t mtime_ns;
	uint64_t size;
	unsigned char type; /* DT_* */
};

struct glob_find_result {
	struct glob_find_entry *v; /* sorted: newest first, then by name */
	size_t n;
	uint64_t total, skipped;
};

#define auto_glob_find CAY_CLEANUP(glob_find_fini) struct glob_find_result

/* ret is zeroed, and to be ended in every case. */
[[nodiscard]] int glob_find_run(const struct glob_find_request *ask, struct glob_find_result *ret,
				struct cay_err *err);
void glob_find_fini(struct glob_find_result *f);
#endif
