/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_HTTP_RANGE_H
#define CAY_FILE_HTTP_RANGE_H
/* http-range - the bytes a "Range: bytes=" header requests.  One range, by RFC 9110 section 14:
 * first-last, first-, -suffix.  Anything else (another unit, several ranges, garbage) is ignored:
 * everything is sent.  Pure. */
#include "base/str.h"

enum http_range_kind {
	HTTP_RANGE_ALL,           /* none was requested */
	HTTP_RANGE_PART,          /* [first, first + n), n > 0 */
	HTTP_RANGE_UNSATISFIABLE, /* no byte of it exists: 416 */
};

enum http_range_kind http_range_parse(struct slice header, uint64_t size, uint64_t *ret_first,
				      uint64_t *ret_n);
#endif
