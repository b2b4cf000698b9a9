/* SPDX-License-Identifier: Apache-2.0 */
#include "text/quantity.h"

#include <assert.h>
#include <inttypes.h>
#include <stdckdint.h>
#include <stdio.h>

/* In thousandths: "m" is a whole number; 128 bits hold the largest suffix times any fraction. */
static const struct {
	const char *name;
	unsigned __int128 milli;
} suffixes[] = {
	{ "Ei", (unsigned __int128)1000 << 60 },
	{ "Pi", (unsigned __int128)1000 << 50 },
	{ "Ti", (unsigned __int128)1000 << 40 },
	{ "Gi", (unsigned __int128)1000 << 30 },
	{ "Mi", (unsigned __int128)1000 << 20 },
	{ "Ki", (unsigned __int128)1000 << 10 },
	{ "E", (unsigned __int128)1000 * 1000000000000000000 },
	{ "P", (unsigned __int128)1000 * 1000000000000000 },
	{ "T", (unsigned __int128)1000 * 1000000000000 },
	{ "G", (unsigned __int128)1000 * 1000000000 },
	{ "M", (unsigned __int128)1000 * 1000000 },
	{ "k", (unsigned __int128)1000 * 1000 },
	{ "", 1000 },
	{ "m", 1 },
};

static constexpr size_t MAX_FRACTION = 9;

/* text = whole [ "." fraction ] suffix; the value in thousandths, exact. */
static int quantity_parse_exact(struct slice s, unsigned __int128 *ret)
{
	unsigned __int128 number = 0, scale = 1, v;
	size_t i = 0, whole, places = 0;

	while (i < s.n && i < 20 && ascii_is_digit(s.p[i]))
		number = number * 10 + (unsigned)(s.p[i++] - '0');
	whole = i;
	if (i < s.n && s.p[i] == '.') {
		for (i++; i < s.n && places < MAX_FRACTION && ascii_is_digit(s.p[i]);
		     i++, places++) {
			number = number * 10 + (unsigned)(s.p[i] - '0');
			scale *= 10;
		}
		if (!places)
			return -EINVAL;
	}
	if (!whole || (whole > 1 && s.p[0] == '0'))
		return -EINVAL;
	s = (struct slice){ s.p + i, s.n - i };
	for (i = 0; i < ARRAY_SIZE(suffixes); i++) {
		if (!slice_eq(s, slice_of(suffixes[i].name)))
			continue;
		if (ckd_mul(&v, number, suffixes[i].milli) || v % scale)
			return -ERANGE;
		*ret = v / scale;
		return 0;
	}
	return -EINVAL;
}

static int quantity_parse_unit(struct slice s, unsigned unit_milli, uint64_t *ret)
{
	unsigned __int128 milli;
	int r = quantity_parse_exact(s, &milli);

	if (r < 0)
		return r;
	if (milli % unit_milli || milli / unit_milli > UINT64_MAX)
		return -ERANGE;
	*ret = (uint64_t)(milli / unit_milli);
	return 0;
}

int quantity_parse_bytes(struct slice s, uint64_t *ret)
{
	return quantity_parse_unit(s, 1000, ret);
}

int quantity_parse_milli(struct slice s, uint64_t *ret)
{
	return quantity_parse_unit(s, 1, ret);
}

void quantity_format(uint64_t bytes, char ret[static QUANTITY_TEXT_MAX])
{
	static const char *const names[] = { "", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei" };
	size_t i = 0;
	int n;

	while (bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		i++;
	}
	n = snprintf(ret, QUANTITY_TEXT_MAX, "%" PRIu64 "%s", bytes, names[i]);
	assert(n > 0 && n < QUANTITY_TEXT_MAX);
}
