/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_IMAGE_REGISTRY_H
#define CAY_CAYD_IMAGE_REGISTRY_H
/*
 * registry - registries that may be used, and the credentials for them
 *
 * Credentials are in db/registries.json, mode 0600, each sealed with the node's key
 * (core/node-key.h) and bound to its registry, user name and tenant.  Those of the node serve every
 * tenant; a tenant's own come before them and serve this tenant alone.  They are opened only for
 * the authfile of a pull, which has those of its own registry and is a memfd that cannot be
 * changed.
 */
#include "cayd/core/cayd.h"

#define REGISTRIES_MAX 64    /* of the node */
#define REGISTRIES_TENANT 16 /* of one tenant */

[[nodiscard]] int registries_open(struct cayd *c, struct cay_err *err);
/* Whether a setting, a list of words, contains this host. */
bool registry_is_listed(const char *list, struct slice host);
/* Whether the tenant has credentials of its own: images pulled with them are its own. */
bool registry_has_login(const struct cayd *c, const struct id *tenant, struct slice host);
/* An authfile as skopeo reads it, with the credentials of this registry if there are any: those
 * given, else the owner's, else the node's. */
[[nodiscard]] int registry_authfile_write(const struct cayd *c, const struct id *owner,
					  const struct registry_auth *given, struct slice host,
					  struct buf *ret, struct cay_err *err);
/* A copy of credentials that came with a request, whose own are wiped. */
struct registry_auth_copy {
	char username[255 + 1], password[4096 + 1];
	struct registry_auth auth; /* of these two */
	bool given;
};
void registry_auth_take(struct registry_auth *from, bool *has, struct registry_auth_copy *ret);
[[nodiscard]] int registry_auth_check(const struct registry_auth_copy *a, struct cay_err *err);
/* Remove the credentials of tenants that do not exist: when one was deleted, and at the start once
 * the journal is read. */
[[nodiscard]] int registries_remove_of_deleted(struct cayd *c, struct cay_err *err);

#endif
