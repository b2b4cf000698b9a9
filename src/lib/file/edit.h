/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_EDIT_H
#define CAY_FILE_EDIT_H
/* edit - several changes of one text file, all of them or none
 *
 *	open -> lock -> read whole -> change in memory -> write beside it
 *	     -> check that it is unchanged -> rename over it
 *
 * A reader sees the old text or the new one, never a part.  The lock (flock on the old file)
 * serializes edits of one file; a writer without the lock is detected by reading again before the
 * rename, and the edit starts over with the new content.  A link to a file stays a link: its target
 * is edited.  Mode and owner stay; a file of several names keeps the old text under its others.
 *
 * Text to replace must match exactly; there is no fuzzy matching. */
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
	struct slice text; /* replacement */
	uint64_t line;     /* for an insert: after this line, 0 at the top */
};

/* The text after all edits, each applied to the result of the one before. *ret_count is the
 * number of places changed. ret is an empty buffer; its content is undefined on failure. */
[[nodiscard]] int edit_apply(struct slice before, const struct edit *edits, size_t n,
			     struct buf *ret, uint64_t *ret_count, struct cay_err *err);

#define EDIT_HASH_LEN 32
typedef int edit_hash_fn(const void *p, size_t n, uint8_t ret[static EDIT_HASH_LEN]);

struct edit_request {
	const char *path; /* as the process sees it */
	const struct edit *edits;
	size_t n;
	edit_hash_fn *hash;     /* SHA-256 */
	const uint8_t *if_hash; /* required hash of the old text, or NULL */
	bool dry_run;           /* report the result without writing */
	/* For tests: called when the new text is written and not yet in its place. */
	void (*before_rename)(void *arg);
	void *arg;
};

struct edit_result {
	struct buf before, after;
	uint64_t count;              /* places changed */
	unsigned tries;              /* 1 unless another process wrote at the same time */
	uint8_t hash[EDIT_HASH_LEN]; /* of the new text */
	int old_fd; /* the replaced file: closing it frees its blocks, which the reply need not wait
		       for */
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
