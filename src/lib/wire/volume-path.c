/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/volume-path.h"

#include "base/str.h"

static const char *const reserved[] = { "proc", "dev", "sys" };

static const char *volume_path_part_fault(struct slice part)
{
	if (!part.n || slice_eq(part, slice_of(".")) || slice_eq(part, slice_of("..")))
		return "has an empty part, '.' or '..'";
	for (size_t i = 0; i < part.n; i++)
		if (part.p[i] <= ' ' || part.p[i] > '~' || part.p[i] == ':')
			return "has a space, a colon or a character that is not ASCII";
	return NULL;
}

const char *volume_path_fault(const char *path, size_t n)
{
	struct slice rest = { path + 1, n - 1 };
	const char *fault = NULL;
	bool first = true;

	if (n < 2 || path[0] != '/')
		return "is not an absolute path below /";
	if (n > VOLUME_PATH_MAX)
		return "has more than 107 characters";
	while (!fault && rest.p) {
		struct slice part = slice_cut(&rest, '/');

		fault = volume_path_part_fault(part);
		for (size_t i = 0; first && i < ARRAY_SIZE(reserved); i++)
			if (slice_eq(part, slice_of(reserved[i])))
				fault = "is in /proc, /dev or /sys, which every sandbox has";
		first = false;
	}
	return fault;
}

bool host_name_is_valid(const char *name, size_t n)
{
	for (size_t i = 0; i < n && n <= HOST_DIR_NAME_MAX; i++)
		if (!ascii_is_lower(name[i]) && !ascii_is_digit(name[i]) && name[i] != '-')
			return false;
	return n > 0 && n <= HOST_DIR_NAME_MAX && name[0] != '-';
}
