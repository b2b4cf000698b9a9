/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TEMPLATE_PACKAGE_LAYER_H
#define CAY_CAYD_TEMPLATE_PACKAGE_LAYER_H
/*
 * package-layer - packages of a create, built as a layer first
 *
 * The same packages over the same image are the same layer.  Only variables of package managers
 * and proxies are part of it; with all of them every request would have its own layer.
 */
#include "cayd/core/cayd.h"

/* Whether the request has packages that are not in its image yet. */
bool package_layer_is_needed(const struct sandbox_create *spec);
/* Request the layer; `again` is called with the request once the layer exists, or the request
 * is answered.  spec is the request merged with its template. */
void package_layer_request(struct cayd *c, struct request *rq, const struct sandbox_create *spec,
			   void (*again)(struct cayd *c, struct request *rq));
/* Make room for one more layer (of a tenant, or none), beside those being built, by removing the
 * least recently used one that is not in use. CAY_E_LIMIT: all are in use. */
[[nodiscard]] int layers_make_room(struct cayd *c, const struct id *tenant, size_t of_tenant,
				   size_t in_all, struct cay_err *err);
void layers_remove_of_tenant(struct cayd *c, const struct id *tenant);
#endif
