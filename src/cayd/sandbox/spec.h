/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_SPEC_H
#define CAY_CAYD_SANDBOX_SPEC_H
/* spec - what a create asks for, as members of the sandbox */
#include "cayd/sandbox/sandbox.h"

struct life_terms sandbox_life_terms(const struct cayd *c, const struct sandbox_create *spec);
/* Set owner, name, key and everything else that the request has.  -E2BIG: more than the journal
 * keeps of one sandbox. */
[[nodiscard]] int sandbox_assign_spec(struct sandbox *sb, const struct sandbox_create *spec,
				      const struct idempotency_key *key, const struct id *tenant);
/* The same for a new sandbox, with an id and a life. */
[[nodiscard]] int sandbox_init_from_spec(struct sandbox *sb, const struct sandbox_create *spec,
					 const struct idempotency_key *key,
					 const struct id *tenant);
/* Creating a name again returns its sandbox if the request matches. */
[[nodiscard]] int sandbox_check_same_spec(const struct sandbox *sb,
					  const struct sandbox_create *spec, struct cay_err *err);
/* Whether its storage and its other members allow what it wants of stopping. */
/* It would end or stop before it dozes. */
bool rest_spec_never_dozes(const struct sandbox_create *spec);
/* The time at rest that was asked for, within limits.rest_ttl; 0: for ever. */
uint64_t rest_bound_ms(const struct cayd *c, uint64_t asked);
[[nodiscard]] int rest_spec_check(const struct sandbox_create *spec, struct cay_err *err);
#endif
