/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CMD_PACKAGE_PRESET_H
#define CAY_CLI_CMD_PACKAGE_PRESET_H
/*
 * package-preset - a preset of the hosts that package clients are configured with
 *
 * Cay names no registry itself: a client without configuration has no hosts in the preset, and a
 * comment says how to configure it.
 */
#include "base/buf.h"
#include "base/err.h"

#define PACKAGE_PRESET_MAX KIB(256)

/* Append the file of the preset.  root: the directory with the system to look at, without the
 * variables of this process; NULL: this one.  read_only: for GET and HEAD alone. */
[[nodiscard]] int package_preset_write(const char *root, bool read_only, struct buf *ret,
				       struct cay_err *err);
#endif
