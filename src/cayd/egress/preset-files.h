/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_EGRESS_PRESET_FILES_H
#define CAY_CAYD_EGRESS_PRESET_FILES_H
/* preset-files - the presets of the node: a file for each in paths.egress, NAME.conf */
#include "base/arena.h"
#include "life/egress-layers.h"

#define PRESETS_MAX 64

/* Sorted by name.  A directory that does not exist has none; a file that is no preset is an error
 * that names it. */
[[nodiscard]] int preset_files_read(const char *dir, struct arena *arena,
				    struct egress_presets *ret, struct cay_err *err);
#endif
