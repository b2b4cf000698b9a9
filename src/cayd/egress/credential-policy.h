/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_EGRESS_CREDENTIAL_POLICY_H
#define CAY_CAYD_EGRESS_CREDENTIAL_POLICY_H
/* credential-policy - the credentials that the rules of a policy name */
#include "cayd/core/cayd.h"

/* Whether the tenant has each of them, and for the host of the rule.  spec may be NULL.  Presets
 * are not looked at: a request that needs a credential of theirs is refused if there is none. */
[[nodiscard]] int credential_policy_check(const struct cayd *c, const struct id *tenant,
					  const struct egress_spec *spec, struct cay_err *err);
/* Add the placeholders of the credentials in the policies of a create to its variables; those that
 * the create sets stay. */
[[nodiscard]] int credential_placeholders_apply(const struct cayd *c, const struct id *tenant,
						struct sandbox_create *spec, struct arena *arena);
#endif
