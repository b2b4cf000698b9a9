/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_FIND_H
#define CAY_FILE_FIND_H
/*
 * find - the files a pattern means, newest first
 *
 * However many there are, the newest `limit` of them are kept, in a heap whose top is
 * the oldest of those; all are counted.
 */
#include "file/glob.h"
#include "file/walk.h"

#define FIND_LIMIT_MAX 10000

enum find_type { FIND_FILE, FIND_DIR, FIND_ANY }; /* FILE: whatever is no directory */

struct find_ask {
	const char *dir;
	struct slice pattern;
	bool hidden;
	enum find_type type;
	unsigned limit; /* 1..FIND_LIMIT_MAX */
};

struct found {
	char *path; /* below dir, or absolute when the pattern is */
	size_t n;
	uint64_t mtime_ns;
	uint64_t size;
	unsigned char type; /* DT_* */
};

struct find {
	struct found *v; /* sorted: newest first, then by name */
	size_t n;
	uint64_t total, skipped;
};

#define auto_find CAY_CLEANUP(find_fini) struct find

/* ret is zeroed, and to be ended in every case. */
[[nodiscard]] int find_run(const struct find_ask *ask, struct find *ret, struct cay_err *err);
void find_fini(struct find *f);
#endif
