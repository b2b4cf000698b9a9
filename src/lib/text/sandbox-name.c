/* SPDX-License-Identifier: Apache-2.0 */
#include "text/sandbox-name.h"

#include <errno.h>

#include "base/id.h"
#include "text/percent.h"

/* Invisible characters, and those that move others: Unicode's controls, format characters and
 * line separators, and code points that are no characters.  In order. */
static const struct {
	uint32_t from, to;
} hidden[] = {
	{ 0x00, 0x1f },       { 0x7f, 0x9f },          { 0xad, 0xad },     { 0x61c, 0x61c },
	{ 0x180e, 0x180e },   { 0x200b, 0x200f },      { 0x2028, 0x202e }, { 0x2060, 0x206f },
	{ 0xfdd0, 0xfdef },   { 0xfeff, 0xfeff },      { 0xfff0, 0xfffb }, { 0xfffe, 0xffff },
	{ 0xe0000, 0xe0fff }, { 0xf0000, UINT32_MAX },
};

/* The sequence is valid. */
static uint32_t utf8_code_point(const char *p, size_t n)
{
	static const uint8_t first[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	uint32_t c = (uint8_t)p[0] & first[n];

	for (size_t i = 1; i < n; i++)
		c = c << 6 | ((uint8_t)p[i] & 0x3f);
	return c;
}

static bool code_point_is_hidden(uint32_t c)
{
	for (size_t i = 0; i < ARRAY_SIZE(hidden); i++)
		if (c >= hidden[i].from && c <= hidden[i].to)
			return true;
	return false;
}

bool sandbox_name_is_valid(struct slice name)
{
	struct id id;

	if (!name.n || name.n > SANDBOX_NAME_MAX || name.p[0] == '.')
		return false;
	for (size_t i = 0, n; i < name.n; i += n) {
		n = utf8_len(name.p + i, name.n - i);
		if (!n || name.p[i] == '/' || code_point_is_hidden(utf8_code_point(name.p + i, n)))
			return false;
	}
	return id_parse(ID_SANDBOX, name, &id) < 0;
}

int sandbox_name_decode(struct slice segment, char ret[static SANDBOX_NAME_MAX + 1])
{
	char name[3 * SANDBOX_NAME_MAX];
	size_t n;

	if (!segment.n || segment.n > sizeof(name) ||
	    percent_decode(segment.p, segment.n, name, &n) < 0 ||
	    !sandbox_name_is_valid((struct slice){ name, n }))
		return -EINVAL;
	memcpy(ret, name, n);
	ret[n] = 0;
	return 0;
}
