/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/core/cursor.h"

#include <stdio.h>

bool cursor_parse(struct request *rq, const char *cursor, uint64_t *ret)
{
	struct cay_err err = {};

	*ret = 0;
	if (cursor && str_parse_u64(slice_of(cursor), 1, INT64_MAX, ret) < 0)
		(void)cay_fail_field(&err, CAY_E_INVALID, "cursor", "not a valid cursor");
	if (err.code)
		request_fail(rq, &err);
	return !err.code;
}

const char *cursor_format(struct request *rq, uint64_t at)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)at);

	return n > 0 && n < (int)sizeof(text) ? arena_strndup(&rq->arena, text, (size_t)n) : NULL;
}
