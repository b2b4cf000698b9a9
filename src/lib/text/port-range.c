/* SPDX-License-Identifier: Apache-2.0 */
#include "text/port-range.h"

#include <errno.h>

int port_range_parse(struct slice text, uint16_t *ret_from, uint16_t *ret_to)
{
	struct slice first = slice_cut(&text, '-');
	uint64_t from, to;

	if (str_parse_u64(first, 1, UINT16_MAX, &from) < 0)
		return -EINVAL;
	to = from;
	if (text.p && str_parse_u64(text, from, UINT16_MAX, &to) < 0)
		return -EINVAL;
	*ret_from = (uint16_t)from;
	*ret_to = (uint16_t)to;
	return 0;
}

bool port_range_is_valid(struct slice text)
{
	uint16_t from, to;

	return port_range_parse(text, &from, &to) == 0;
}
