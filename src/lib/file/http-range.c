/* SPDX-License-Identifier: Apache-2.0 */
#include "file/http-range.h"

/* Digits only; a value that does not fit saturates. */
static bool http_range_parse_number(struct slice s, uint64_t *ret)
{
	uint64_t v = 0;

	if (!s.n)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		unsigned d = (unsigned)(s.p[i] - '0');

		if (!ascii_is_digit(s.p[i]))
			return false;
		v = v > (UINT64_MAX - d) / 10 ? UINT64_MAX : v * 10 + d;
	}
	*ret = v;
	return true;
}

enum http_range_kind http_range_parse(struct slice header, uint64_t size, uint64_t *ret_first,
				      uint64_t *ret_n)
{
	static const struct slice unit = SLICE("bytes=");
	uint64_t first = 0, last = 0;
	struct slice to, from;

	*ret_first = 0;
	*ret_n = size;
	header = slice_trim(header);
	if (header.n < unit.n || memcmp(header.p, unit.p, unit.n) != 0)
		return HTTP_RANGE_ALL;
	to = (struct slice){ header.p + unit.n, header.n - unit.n };
	from = slice_cut(&to, '-');
	if (!to.p || (from.n && !http_range_parse_number(from, &first)) ||
	    (to.n && !http_range_parse_number(to, &last)) || (!from.n && !to.n) ||
	    (from.n && to.n && last < first))
		return HTTP_RANGE_ALL;
	if (!from.n) {
		if (!last || !size)
			return HTTP_RANGE_UNSATISFIABLE;
		first = last < size ? size - last : 0;
		last = size - 1;
	} else if (first >= size) {
		return HTTP_RANGE_UNSATISFIABLE;
	} else if (!to.n || last >= size) {
		last = size - 1;
	}
	*ret_first = first;
	*ret_n = last - first + 1;
	return HTTP_RANGE_PART;
}
