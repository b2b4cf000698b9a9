/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TESTS_SIM_EGRESS_POLICY_GEN_H
#define CAY_TESTS_SIM_EGRESS_POLICY_GEN_H
/* egress-policy-gen - random policies, as the reference has them and as clients write them */
#include "base/buf.h"
#include "egress-plain.h"

extern const char *const gen_names[10];
extern const uint16_t gen_ports[5];
extern const uint32_t gen_addresses[3];
extern const char *const gen_methods[3];
extern const char *const gen_paths[4]; /* the last is NULL: unclear */

struct gen_random {
	uint64_t state;
};

uint64_t gen_random(struct gen_random *g, uint64_t below);
void gen_layer(struct gen_random *g, struct plain_layer *ret);
/* By the way that a policy of a client takes.  -E2BIG: it does not fit. */
int gen_compile(const struct plain_policy *p, uint64_t generation, struct buf *ret);
#endif
