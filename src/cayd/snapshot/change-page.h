/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SNAPSHOT_CHANGE_PAGE_H
#define CAY_CAYD_SNAPSHOT_CHANGE_PAGE_H
/*
 * change-page - the first rows by name of those that a packer has written
 *
 * The packer writes rows as it finds them (archive/change-row.h), and no row is trusted.  A page is
 * the smallest names after another name: it is the same for the same files, so a cursor is a name.
 * Reads the file once, in a worker.
 *
 * Bounded: CHANGE_PAGE_ROWS rows, CHANGE_PAGE_NAMES bytes of their names.
 */
#include "archive/change-row.h"
#include "cayd/core/cayd.h"

#define CHANGE_PAGE_ROWS 10000
#define CHANGE_PAGE_NAMES KIB(512)

struct change_page {
	struct change_row *rows; /* by name, when it is read; their names are allocated */
	size_t n, limit;
	size_t bytes;   /* of names */
	bool more;      /* there are rows after these */
	bool truncated; /* the packer left rows out */
	uint64_t skipped;
	char *cut; /* no name from here on is in the page; NULL: any can be */
	size_t cut_len;
};

/* after: only names after it; p NULL: all. */
[[nodiscard]] int change_page_read(struct change_page *p, int fd, struct slice after, size_t limit,
				   struct cay_err *err);
/* The page as the reply to sandbox.changes. */
void change_page_reply(const struct change_page *p, struct request *rq);
/* The name in a cursor; false: it is none. */
bool change_cursor_parse(const char *cursor, char ret[static CHANGE_ROW_MAX],
			 struct slice *ret_name);
void change_page_fini(struct change_page *p);
#endif
