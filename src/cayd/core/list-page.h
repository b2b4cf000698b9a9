/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_CORE_LIST_PAGE_H
#define CAY_CAYD_CORE_LIST_PAGE_H
/*
 * list-page - the reply to a list operation, at most PAGE_BYTES long
 *
 * A page ends when its limit of rows is reached or the next row would make it longer, whichever is
 * first; the cursor then continues with that row.  Rows are written as they are added, so a list
 * of any length costs one page of memory.
 */
#include "base/jsonw.h"
#include "cayd/core/cayd.h"

#define PAGE_BYTES KIB(255) /* with its end and a cursor it stays below 256 KiB */

struct list_page {
	struct buf body;
	struct jw w;
	size_t rows;
};

void list_page_begin(struct list_page *p, const char *list);
/* False: the page is full, and the row is not part of it.  The first row always fits. */
[[nodiscard]] bool list_page_add(struct list_page *p, const struct field_table *t, const void *row);
/* The same for a row that is kept as JSON. */
[[nodiscard]] bool list_page_add_text(struct list_page *p, struct slice json);
/* End the list and write the cursor; NULL: the last page. */
void list_page_finish(struct list_page *p, const char *next_cursor);
/* Send it, or report why it could not be written.  The page is freed. */
void list_page_reply(struct list_page *p, struct request *rq);
#endif
