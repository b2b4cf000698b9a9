/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_IMAGE_REGISTRY_H
#define CAY_CAYD_IMAGE_REGISTRY_H
/*
 * registry - registries that may be used, and the credentials for them
 *
 * Credentials are in db/registries.json, mode 0600, each sealed with the node's key
 * (core/node-key.h) and bound to its registry and user name.  They are opened only for the
 * authfile of a pull, which has those of its own registry and is a memfd that cannot be changed.
 */
#include "cayd/core/cayd.h"

#define REGISTRIES_MAX 64

[[nodiscard]] int registries_open(struct cayd *c, struct cay_err *err);
/* Whether a setting, a list of words, contains this host. */
bool registry_is_listed(const char *list, struct slice host);
/* An authfile as skopeo reads it, with the credentials of this registry if there are any. */
[[nodiscard]] int registry_authfile_write(const struct cayd *c, struct slice host, struct buf *ret,
					  struct cay_err *err);

#endif
