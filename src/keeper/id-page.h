/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_ID_PAGE_H
#define CAY_KEEPER_ID_PAGE_H
/* id-page - the first ids after another one, among the names in a directory */
#include "wire/verb.h"

struct id_page {
	enum id_noun noun;
	struct id after;
	struct id ids[VERB_LIST_MAX]; /* in order */
	uint32_t n;
	bool more;
};

/* Other names are ignored.  Set noun and after before. */
[[nodiscard]] int id_page_read(struct id_page *l, int dir);
#endif
