/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_HOST_DIR_H
#define CAY_KEEPER_HOST_DIR_H
/*
 * host-dir - directories of the host that sandboxes may mount (docs/adr/0142)
 *
 * They are opened once, when the keeper starts, and only by the fd afterwards: another directory or
 * a link at the same path changes nothing.  A sandbox gets a mount in which one user of the
 * host, the owner of the directory, is one user of the sandbox; files of all others belong to
 * nobody there.
 */
#include "keeper/keeper-sandbox.h"

/* Open all that the settings name.  One that cannot be used is in the log and is refused later;
 * settings that are not valid are a failure. */
[[nodiscard]] int host_dirs_open(struct keeper *k, struct cay_err *err);
/* In the host's mount namespace: a detached mount for this sandbox. */
[[nodiscard]] int host_dir_mount(const struct keeper *k, const struct sandbox *sb,
				 const struct verb_mount *row, struct cay_err *err);
#endif
