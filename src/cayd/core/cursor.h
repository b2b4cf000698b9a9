/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_CORE_CURSOR_H
#define CAY_CAYD_CORE_CURSOR_H
/* cursor - the position of a page in a list */
#include "cayd/core/cayd.h"

/* False when the request was answered: the cursor is invalid. */
bool cursor_parse(struct request *rq, const char *cursor, uint64_t *ret);
/* NULL when out of memory: the reply is then the last page. */
const char *cursor_format(struct request *rq, uint64_t at);
#endif
