/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_GREP_H
#define CAY_FILE_GREP_H
/*
 * grep - lines of files that have a text or fit an expression
 *
 * An expression is POSIX extended, by libc, on bytes; how long it may take and how much
 * memory it may have is its process's to bound.  Links are not followed, what has a NUL
 * in its first block is passed by, and of a line longer than GREP_LINE_MAX only so much
 * is looked at.
 */
#include "file/glob.h"

#define GREP_PATTERN_MAX 1024
#define GREP_LINE_MAX KIB(64)
#define GREP_CONTEXT_MAX 20
#define GREP_WIDTH_MAX 4096
#define GREP_INCLUDES_MAX 16

struct grep_hit {
	struct slice path; /* below what was searched, "" when that is a file */
	uint64_t line;     /* from 1 */
	uint64_t column;   /* of the first match in it, in bytes from 1; 0 of context */
	struct slice text; /* without its end; of a long line what is around the match */
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
	size_t width;      /* of a line that is told */
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
