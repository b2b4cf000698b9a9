/* SPDX-License-Identifier: Apache-2.0 */
#include "text/time.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

/* Exactly `width` digits at p, or -1. */
static int time_parse_digits(const char *p, unsigned width)
{
	int v = 0;

	for (unsigned i = 0; i < width; i++) {
		if (!ascii_is_digit(p[i]))
			return -1;
		v = v * 10 + (p[i] - '0');
	}
	return v;
}

static bool time_year_is_leap(int year)
{
	return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Days since 1970-01-01; -1 for a date the calendar does not have. */
static int64_t time_days_since_epoch(int year, int month, int day)
{
	static const int before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365 };
	int y = year - 1, length;

	if (year < 1970 || month < 1 || month > 12)
		return -1;
	length = before[month] - before[month - 1] + (month == 2 && time_year_is_leap(year));
	if (day < 1 || day > length)
		return -1;
	return (int64_t)y * 365 + y / 4 - y / 100 + y / 400 - 719162 + before[month - 1] +
	       (month > 2 && time_year_is_leap(year)) + day - 1;
}

/* ".123" to nanoseconds: one to nine digits. */
static int time_parse_fraction(struct slice s, uint64_t *ret)
{
	uint64_t ns = 0, scale = NS_PER_S;

	if (s.n < 2 || s.n > 10 || s.p[0] != '.')
		return -EINVAL;
	for (size_t i = 1; i < s.n; i++) {
		if (!ascii_is_digit(s.p[i]))
			return -EINVAL;
		scale /= 10;
		ns += (uint64_t)(s.p[i] - '0') * scale;
	}
	*ret = ns;
	return 0;
}

int time_parse(struct slice s, uint64_t *ret_wall_ns)
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd";
	constexpr size_t len = sizeof(form) - 1;
	int64_t day;
	int hour, min, sec;
	uint64_t ns = 0;

	if (s.n < len + 1 || s.p[s.n - 1] != 'Z')
		return -EINVAL;
	for (size_t i = 0; i < len; i++)
		if (form[i] != 'd' && s.p[i] != form[i])
			return -EINVAL;
	day = time_days_since_epoch(time_parse_digits(s.p, 4), time_parse_digits(s.p + 5, 2),
				    time_parse_digits(s.p + 8, 2));
	hour = time_parse_digits(s.p + 11, 2);
	min = time_parse_digits(s.p + 14, 2);
	sec = time_parse_digits(s.p + 17, 2);
	if (day < 0 || hour < 0 || hour > 23 || min < 0 || min > 59 || sec < 0 || sec > 59)
		return -EINVAL;
	if (s.n > len + 1 &&
	    time_parse_fraction((struct slice){ s.p + len, s.n - len - 1 }, &ns) < 0)
		return -EINVAL;
	ns += (uint64_t)(hour * 3600 + min * 60 + sec) * NS_PER_S;
	/* 64 bits of nanoseconds end in 2554 */
	if ((uint64_t)day > (UINT64_MAX - ns) / (86400 * NS_PER_S))
		return -EINVAL;
	*ret_wall_ns = (uint64_t)day * 86400 * NS_PER_S + ns;
	return 0;
}

/* Largest first. */
static const struct {
	const char *name;
	uint64_t ms;
} units[] = {
	{ "d", 86400000 }, { "h", 3600000 }, { "m", 60000 }, { "s", 1000 }, { "ms", 1 },
};

int duration_parse(struct slice s, uint64_t *ret_ms)
{
	struct slice number = { s.p, 0 }, unit;
	uint64_t v;
	int r;

	while (number.n < s.n && ascii_is_digit(s.p[number.n]))
		number.n++;
	unit = (struct slice){ s.p + number.n, s.n - number.n };
	r = str_parse_u64(number, 0, UINT64_MAX, &v);
	if (r < 0)
		return r;
	if (!unit.n && v == 0) {
		*ret_ms = 0;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (!slice_eq(unit, slice_of(units[i].name)))
			continue;
		if (v > UINT64_MAX / units[i].ms)
			return -ERANGE;
		*ret_ms = v * units[i].ms;
		return 0;
	}
	return -EINVAL;
}

void duration_format(uint64_t ms, char ret[static DURATION_TEXT_MAX])
{
	size_t i = 0;
	int n;

	while (ms % units[i].ms)
		i++;
	n = ms ? snprintf(ret, DURATION_TEXT_MAX, "%" PRIu64 "%s", ms / units[i].ms, units[i].name)
	       : snprintf(ret, DURATION_TEXT_MAX, "0");
	assert(n > 0 && n < DURATION_TEXT_MAX);
}
