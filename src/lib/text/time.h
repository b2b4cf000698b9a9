/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TEXT_TIME_H
#define CAY_TEXT_TIME_H
/* time - instants and durations as people and programs write them.  An instant is RFC 3339 in UTC
 * ("Z" only; a local offset is refused, so that times compare as text).  clk_format_rfc3339() in
 * base writes them.  A duration is a number with one of ms s m h d ("15m"), or 0. */
#include "base/clock.h"
#include "base/str.h"

/* Nanoseconds since 1970, up to the year 2554 where 64 bits end.  -EINVAL. */
[[nodiscard]] int time_parse(struct slice s, uint64_t *ret_wall_ns);
/* Milliseconds; -EINVAL for bad text, -ERANGE when it does not fit. */
[[nodiscard]] int duration_parse(struct slice s, uint64_t *ret_ms);

#define DURATION_TEXT_MAX 24
/* The largest unit that is exact: 900000 is "15m". */
void duration_format(uint64_t ms, char ret[static DURATION_TEXT_MAX]);
#endif
