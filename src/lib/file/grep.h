/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_GREP_H
#define CAY_FILE_GREP_H
/* grep - lines of files that contain a text or match an expression
 *
 * An expression is POSIX extended, by libc, on bytes; the process bounds its time and memory.
 * Links are not followed, files with a NUL in their first block are skipped, and only the first
 * GREP_LINE_MAX of a line are searched. */
#include "file/glob.h"

#define GREP_PATTERN_MAX 1024
#define GREP_LINE_MAX KIB(64)
#define GREP_CONTEXT_MAX 20
#define GREP_WIDTH_MAX 4096
#define GREP_INCLUDES_MAX 16

struct grep_hit {
	struct slice path; /* relative to the searched directory, "" if that is a file */
	uint64_t line;     /* from 1 */
	uint64_t column;   /* of the first match in it, in bytes from 1; 0 of context */
	struct slice text; /* without its end; of a long line, the part around the match */
	bool cut;
};

struct grep_request {
	const char *path; /* a file, or a directory with all that is below */
	struct slice pattern;
	bool fixed, ignore_case, hidden;
	const char *const *include; /* only files that fit one of these; without '/': by name */
	size_t n_include;
	unsigned context;  /* lines around each */
	uint64_t limit;    /* hits */
	uint64_t per_file; /* hits of one file; 0: as many as there are */
	size_t width;      /* most bytes returned of a line */
	/* 0, or -errno to stop with. */
	int (*on_hit)(void *arg, const struct grep_hit *h);
	void (*on_file)(void *arg); /* one more is begun; may be NULL */
	void *arg;
};

struct grep_result {
	uint64_t files, hits, binary, skipped;
	bool more; /* the limit was reached, and there may be others */
};

[[nodiscard]] int grep_run(const struct grep_request *ask, struct grep_result *ret,
			   struct cay_err *err);
#endif
