/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "wire/verb-internal.h"
#include "wire/volume-path.h"

/* Ended by a zero byte, and nothing but zeros follow. */
static bool verb_text_is_ended(const char *text, size_t size)
{
	size_t n = strnlen(text, size);

	if (n == size)
		return false;
	for (; n < size; n++)
		if (text[n])
			return false;
	return true;
}

/* Either a volume, or the name of a directory of the host. */
bool verb_mount_is_valid(const struct verb_mount *m)
{
	bool named = m->host[0] != 0;

	if (!verb_text_is_ended(m->host, sizeof(m->host)) ||
	    !verb_text_is_ended(m->path, sizeof(m->path)) || m->read_only > 1)
		return false;
	if (named ? !verb_id_is_zero((const uint8_t *)&m->volume) ||
			    !host_name_is_valid(m->host, strlen(m->host))
		  : !id_is_valid(&m->volume, ID_VOLUME))
		return false;
	return !volume_path_fault(m->path, strlen(m->path));
}

/* Rows in use first, by id and name, none twice. */
bool verb_mounts_are_valid(const uint8_t *at)
{
	static const struct verb_mount unused = {};
	struct verb_mount m, last = {};
	bool end = false;

	for (size_t i = 0; i < VERB_MOUNTS_MAX; i++, last = m) {
		memcpy(&m, at + i * sizeof(m), sizeof(m));
		end |= memcmp(&m, &unused, sizeof(m)) == 0;
		if (end && memcmp(&m, &unused, sizeof(m)) != 0)
			return false;
		if (end)
			continue;
		static_assert(offsetof(struct verb_mount, host) == sizeof(m.volume));
		if (memcmp(&last, &m, sizeof(m.volume) + sizeof(m.host)) >= 0 ||
		    !verb_mount_is_valid(&m))
			return false;
	}
	return true;
}
