/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TEXT_ABSOLUTE_PATH_H
#define CAY_TEXT_ABSOLUTE_PATH_H
/* absolute-path - the one spelling of a path, without looking at the files
 *
 * It begins with '/' and has no empty and no "." components.  A ".." is refused: where it leads
 * depends on symbolic links, so two spellings of one path could differ. */
#include "base/buf.h"
#include "base/str.h"

/* Append it; a relative path begins at dir, which is absolute.  -EINVAL: it has a "..", or is
 * empty; -ENOBUFS: it is longer than the buffer may be. */
[[nodiscard]] int absolute_path_format(const char *dir, struct slice path, struct buf *ret);
#endif
