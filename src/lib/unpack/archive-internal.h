/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_UNPACK_ARCHIVE_INTERNAL_H
#define CAY_UNPACK_ARCHIVE_INTERNAL_H
/* archive - libarchive, with cleanup of its readers */
#include <archive.h>
#include <archive_entry.h>

#include "base/mem.h"

#define auto_archive CAY_CLEANUP(archive_freep) struct archive *

static inline void archive_freep(struct archive **a)
{
	if (*a)
		(void)archive_read_free(*a);
}
#endif
