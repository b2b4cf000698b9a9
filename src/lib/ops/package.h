/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OPS_PACKAGE_H
#define CAY_OPS_PACKAGE_H
/* package - the command that installs packages with untrusted names.  A name and a version are
 * letters, digits and a few signs: neither can be an option, a path, an address or a second word.
 * They become arguments, never a part of a shell's or interpreter's program. */
#include "ops/types.h"

#define PACKAGE_NAME_MAX 128
#define PACKAGE_VERSION_MAX 64

struct package_manager {
	const char *name; /* as requests name it */
	size_t offset;    /* of its map in struct packages */
};

extern const struct package_manager package_managers[]; /* ended by a row without a name */

/* The map of one of them. */
const struct field_map *packages_get_map(const struct packages *p, const struct package_manager *m);
bool packages_has_any(const struct packages *p);
/* Every name and version; CAY_E_INVALID names the manager. */
[[nodiscard]] int packages_check(const struct packages *p, struct cay_err *err);
/* The command; its texts live in the pool. */
[[nodiscard]] int package_install_argv(const struct package_manager *m,
				       const struct field_map *names, struct arena *arena,
				       struct field_texts *ret);
#endif
