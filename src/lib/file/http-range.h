/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_HTTP_RANGE_H
#define CAY_FILE_HTTP_RANGE_H
/*
 * range - which bytes a "Range: bytes=" asks for
 *
 * One range, as RFC 9110 section 14 has it: first-last, first-, -suffix.  What is not one
 * (another unit, several, nonsense) is as if it were not there: everything is sent.  Pure.
 */
#include "base/str.h"

enum http_range_kind {
	HTTP_RANGE_ALL,           /* none was asked for */
	HTTP_RANGE_PART,          /* [first, first + n), n > 0 */
	HTTP_RANGE_UNSATISFIABLE, /* nothing of it is there: 416 */
};

enum http_range_kind http_range_parse(struct slice header, uint64_t size, uint64_t *ret_first,
				      uint64_t *ret_n);
#endif
