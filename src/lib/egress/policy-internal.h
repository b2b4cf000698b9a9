/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_POLICY_INTERNAL_H
#define CAY_EGRESS_POLICY_INTERNAL_H
/* policy-internal - the compiled form of a policy, for policy.c and policy-ports.c */
#include "egress/policy.h"

/* The compiled form; numbers are in the machine's byte order, both programs run on one. */
struct policy_head {
	uint32_t magic;
	uint32_t size; /* of all */
	uint64_t generation;
	uint16_t n_layers, n_rules;
	uint32_t ask_ms; /* 0: EGRESS_ASK_MS */
};
static_assert(sizeof(struct policy_head) == 24);

struct policy_layer_row {
	uint16_t n_rules;
	uint8_t otherwise;
	uint8_t absent;
};
static_assert(sizeof(struct policy_layer_row) == 4);

struct policy_rule_row {
	uint8_t action, kind;
	uint8_t n;       /* length of the name, or of the prefix */
	uint8_t n_ports; /* at least 1 */
	uint32_t at;     /* offset of the name in all, or the network */
	struct egress_ports ports[EGRESS_PORTS_MAX];
	uint32_t terms_at; /* offset in all; 0: none */
	uint16_t n_terms;
	uint16_t zero;
};
static_assert(sizeof(struct policy_rule_row) == 32);

/* Of a valid policy. */
struct policy_head policy_head(struct slice policy);
struct policy_layer_row policy_layer(struct slice policy, size_t i);
struct policy_rule_row policy_rule(struct slice policy, size_t n_layers, size_t i);
struct slice rule_terms(struct slice policy, const struct policy_rule_row *row);
/* Its default for this name, or for an address (NULL).  A name of a group is allowed by a rule that
 * is for it, and by no default. */
unsigned policy_layer_otherwise(const struct policy_layer_row *row, const struct host_name *name);
bool rule_has_port(const struct policy_rule_row *row, uint16_t port);
bool rule_has_name(struct slice policy, const struct policy_rule_row *row,
		   const struct host_name *name);
#endif
