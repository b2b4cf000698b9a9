/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OPS_TYPES_EGRESS_H
#define CAY_OPS_TYPES_EGRESS_H
/* types-egress - where the connections of a sandbox may go; a part of types.h */
#include "ops/field.h"

/* In the order of enum egress_action. */
enum egress_spec_action {
	EGRESS_SPEC_ALLOW,
	EGRESS_SPEC_ASK,
	EGRESS_SPEC_DENY,
	EGRESS_SPEC_NUM_ACTIONS
};

struct egress_rule_spec {
	unsigned action; /* enum egress_spec_action */
	const char *to;
	struct field_texts ports;
	bool has_ports;
};

/* A policy as clients write it. */
struct egress_spec {
	struct field_texts presets;
	bool has_presets;
	struct field_list rules; /* struct egress_rule_spec */
	unsigned otherwise;      /* enum egress_spec_action */
};

/* The policy of a sandbox, and where it stands. */
struct egress_info {
	struct egress_spec policy, template, tenant;
	bool has_template, has_tenant, attached;
	uint64_t generation;
	const char *digest;
};

struct egress_put_query {
	uint64_t if_generation;
	bool has_generation;
};

struct egress_check {
	const char *to;
	uint64_t port;
};

struct egress_checked {
	unsigned verdict; /* enum egress_spec_action */
	unsigned layer;
	uint64_t rule;
	bool has_rule;
	const char *text, *reason;
};

/* An open connection; name is NULL for one to an address, address before it is dialled. */
struct egress_flow {
	const char *name, *address;
	uint64_t port, since_ns, up_bytes, down_bytes;
	unsigned state; /* enum egress_flow_state of wire/egress-message.h */
};

struct egress_flow_list {
	struct field_list flows; /* struct egress_flow */
};

/* Which connections to cut. */
struct egress_cut_spec {
	const char *to;
	uint64_t port;
	bool has_port;
};

struct egress_cut_done {
	uint64_t connections;
};

struct preset_info {
	const char *name, *help;
	struct field_texts rules;
	bool has_rules;
};

struct preset_list {
	struct field_list presets; /* struct preset_info */
};

/* What a sandbox uses of the network. */
struct egress_usage {
	uint64_t open, total, denied, failed, names_denied, up_bytes, down_bytes;
};

/* The policies of a sandbox in the journal. */
struct egress_record {
	struct egress_spec own, template;
	bool has_own, has_template, has_used;
	uint64_t generation;
	struct egress_usage used;
};
#endif
