/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_EGRESS_POLICY_H
#define CAY_CAYD_EGRESS_POLICY_H
/*
 * policy - the egress policies of sandboxes
 *
 * A sandbox keeps its policy as the client wrote it, and that of the template it was created with.
 * With egress.max of the node and egress_max of the tenant they are the layers of the compiled
 * policy, which cay-egress judges by; life/egress-layers.h has the rules.  A sandbox without a
 * policy keeps nothing, and nothing is done for it.
 */
#include "cayd/sandbox/sandbox.h"
#include "life/egress-layers.h"

/* The policies of a sandbox; NULL: there is none. */
struct egress_policies {
	const struct egress_spec *tenant, *template, *own, *answers;
};

/* Read the presets and egress.max. */
[[nodiscard]] int egress_open(struct cayd *c, struct cay_err *err);
const struct egress_presets *egress_get_presets(const struct cayd *c);
/* Whether a policy of a request or a template can be enforced; field is the member that has it. */
[[nodiscard]] int egress_policy_check_spec(const struct cayd *c, const struct egress_spec *spec,
					   const char *field, struct cay_err *err);
[[nodiscard]] int egress_copy_spec(const struct egress_spec *from, struct arena *arena,
				   struct egress_spec *ret);
/* Give a create without a policy the tenant's, or else the node's. */
[[nodiscard]] int egress_apply_default(const struct cayd *c, const struct id *tenant,
				       struct sandbox_create *spec, struct arena *arena);
/* Whether the policies of a create can be enforced; and whether cay-egress is there, if the sandbox
 * would need it. */
[[nodiscard]] int egress_create_check(const struct cayd *c, const struct id *tenant,
				      const struct sandbox_create *spec, struct cay_err *err);
[[nodiscard]] int egress_create_require_link(const struct cayd *c,
					     const struct sandbox_create *spec,
					     struct cay_err *err);
/* The layers of a sandbox with these policies. */
void egress_get_layers(const struct cayd *c, const struct egress_policies *p,
		       const struct egress_spec *ret[static EGRESS_LAYER_NUM]);
[[nodiscard]] int egress_compile(const struct cayd *c, const struct egress_policies *p,
				 uint64_t generation, struct buf *ret, struct cay_err *err);
bool egress_policies_can_allow(const struct egress_policies *p);
/* egress_max of a tenant, or NULL. */
const struct egress_spec *egress_of_tenant(const struct cayd *c, const struct id *tenant);
/* The tenant with the bound of its policy: of a build, the one that it is for. */
const struct id *sandbox_get_egress_tenant(const struct sandbox *sb);
/* Every sandbox that the tenant's egress_max bounds, also those of its builds. */
struct sandbox *sandbox_first_bound_by(struct cayd *c, const struct id *tenant);
struct sandbox *sandbox_next_bound_by(const struct sandbox *sb, const struct id *tenant);
struct egress_policies sandbox_get_policies(const struct sandbox *sb);
/* egress_unavailable unless cay-egress is there. */
[[nodiscard]] int egress_require_link(const struct cayd *c, struct cay_err *err);
/* Whether its own policy can allow something. */
bool sandbox_has_egress(const struct sandbox *sb);
uint64_t sandbox_egress_generation(const struct sandbox *sb);
/* The lowest limits of its policies and the node. */
struct egress_limits;
struct egress_limits sandbox_get_egress_limits(const struct sandbox *sb);
/* Append what cay-egress judges by. */
[[nodiscard]] int sandbox_egress_compile(struct cayd *c, const struct sandbox *sb, struct buf *ret,
					 struct cay_err *err);
#endif
