/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TEMPLATE_PACKAGE_LAYER_H
#define CAY_CAYD_TEMPLATE_PACKAGE_LAYER_H
/*
 * layer - a request for a sandbox with packages: they become a layer first
 *
 * The same packages over the same image are the same layer.  Of the request's variables
 * only those of package managers and proxies are its business; with the others every
 * request would have a layer of its own.
 */
#include "cayd/core/cayd.h"

/* Packages that are not in an image yet. */
bool package_layer_is_needed(const struct sandbox_create *spec);
/* Request the layer; `again` is called with the request once the layer exists, or the request
 * is answered.  spec is the request merged with its template. */
void package_layer_request(struct cayd *c, struct request *rq, const struct sandbox_create *spec,
			   void (*again)(struct cayd *c, struct request *rq));
/* Whether there may be one more layer (of a tenant, or nothing) beside those being made: else
 * the one that was used longest ago, and that nothing uses, goes.  CAY_E_LIMIT: there is none. */
[[nodiscard]] int layers_make_room(struct cayd *c, const struct id *tenant, size_t of_tenant,
				   size_t in_all, struct cay_err *err);
/* A tenant is gone. */
void layers_remove_of_tenant(struct cayd *c, const struct id *tenant);
#endif
