/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CORE_SETTINGS_FILE_H
#define CAY_CLI_CORE_SETTINGS_FILE_H
/* settings-file - read cay.conf and the variables CAY_* over it */
#include "ops/settings.h"

#define SETTINGS_FILE "/etc/cay/cay.conf"

/* path NULL: SETTINGS_FILE, which may be absent.  origins: an element for each key, or NULL.
 * -ENOENT, -EACCES: the file cannot be read; *settings has the defaults and the variables. */
[[nodiscard]] int settings_file_read(const char *path, struct settings *ret,
				     struct conf_origin *origins, struct cay_err *err);
#endif
