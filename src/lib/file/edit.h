/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_EDIT_H
#define CAY_FILE_EDIT_H
/*
 * edit - several changes of one text file, all of them or none
 *
 *	open -> lock -> read whole -> change in memory -> write beside it
 *	     -> is it still what was read? -> rename over it
 *
 * Who reads the file sees the old text or the new one, never a part.  The lock (flock
 * on the old file) makes edits of one file take turns; a writer that knows nothing of
 * it is noticed by reading once more before the rename, and the edit begins anew with
 * what is there then.  A link to a file stays a link: its target is edited.  Mode and
 * owner stay; a file of several names keeps the old text under its others.
 *
 * What does not stand in the text exactly as given is not guessed at.
 */
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define EDIT_FILE_MAX MIB(16)
#define EDITS_MAX 256

enum edit_kind { EDIT_REPLACE, EDIT_REPLACE_ALL, EDIT_INSERT };

struct edit {
	enum edit_kind kind;
	struct slice old;  /* to be found; of an insert nothing */
	struct slice text; /* to stand there */
	uint64_t line;     /* of an insert: behind this one, 0 at the top */
};

/* The text after all edits, each made on what the one before left.  *ret_count is how many
 * places were changed.  ret is an empty buffer; on failure it holds nothing of use. */
[[nodiscard]] int edit_apply(struct slice before, const struct edit *edits, size_t n,
			     struct buf *ret, uint64_t *ret_count, struct cay_err *err);

#define EDIT_HASH_LEN 32
typedef int edit_hash_fn(const void *p, size_t n, uint8_t ret[static EDIT_HASH_LEN]);

struct edit_request {
	const char *path; /* as the process sees it */
	const struct edit *edits;
	size_t n;
	edit_hash_fn *hash;     /* SHA-256 */
	const uint8_t *if_hash; /* what the old text must have, or NULL */
	bool dry_run;           /* only say what would be */
	/* For tests: called when the new text is written and not yet in its place. */
	void (*before_rename)(void *arg);
	void *arg;
};

struct edit_result {
	struct buf before, after;
	uint64_t count;              /* places changed */
	unsigned tries;              /* 1 unless somebody else wrote at the same time */
	uint8_t hash[EDIT_HASH_LEN]; /* of the new text */
	int old_fd; /* what was replaced: closing it is its end, which nobody need wait for */
};

#define EDIT_RESULT_INIT \
	((struct edit_result){ .before = BUF_INIT(EDIT_FILE_MAX + 1), \
			       .after = BUF_INIT(EDIT_FILE_MAX), \
			       .old_fd = -EBADF })
#define auto_edit_result CAY_CLEANUP(edit_result_fini) struct edit_result

void edit_result_fini(struct edit_result *d);
[[nodiscard]] int edit_file(const struct edit_request *ask, struct edit_result *ret,
			    struct cay_err *err);
#endif
