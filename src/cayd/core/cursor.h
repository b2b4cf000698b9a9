/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_CORE_CURSOR_H
#define CAY_CAYD_CORE_CURSOR_H
/* page - where a page of a list begins and where the next one does */
#include "cayd/core/cayd.h"

/* False when the request was answered: not a cursor of ours, or no room for rows. */
bool cursor_parse(struct request *rq, const char *cursor, const void *rows, uint64_t *ret);
/* NULL without memory: then it is the last page. */
const char *cursor_format(struct request *rq, uint64_t at);
#endif
