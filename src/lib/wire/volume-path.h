/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WIRE_VOLUME_PATH_H
#define CAY_WIRE_VOLUME_PATH_H
/*
 * volume-path - where a volume is mounted in a sandbox
 *
 * An absolute path in one spelling: no empty component, no "." and "..", no slash at the end,
 * printable ASCII without space and colon.  Not the root, and nothing in the directories that a
 * runtime mounts.
 */
#include <stddef.h>

#define VOLUME_PATH_MAX 107
#define HOST_DIR_NAME_MAX 31 /* of a directory of the host that an operator has named */

/* NULL, or why it is none. */
const char *volume_path_fault(const char *path, size_t n);
/* Lower-case letters, digits and hyphens. */
bool host_name_is_valid(const char *name, size_t n);
#endif
