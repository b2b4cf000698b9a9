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
	struct field_texts ports, methods, paths;
	bool has_ports, has_methods, has_paths, has_inspect, inspect;
	const char *credential;
};

/* What a sandbox may use; a rate is bytes in a second. */
struct egress_limits_spec {
	uint64_t flows, new_per_s, up_bytes, down_bytes, up_rate, down_rate;
	bool has_flows, has_new_per_s, has_up_bytes, has_down_bytes, has_up_rate, has_down_rate;
};

/* How connections wait where a policy asks. */
struct egress_ask_spec {
	uint64_t timeout_ms;
};

/* A policy as clients write it. */
struct egress_spec {
	struct field_texts presets;
	bool has_presets, has_ask;
	struct egress_ask_spec ask;
	struct field_list rules; /* struct egress_rule_spec */
	unsigned otherwise;      /* enum egress_spec_action */
	struct egress_limits_spec limits;
	struct field_texts expose; /* ports, for others of the group */
	bool has_limits, has_expose;
};

/* How long an answer lasts. */
enum ask_remember { REMEMBER_ONCE, REMEMBER_SANDBOX, REMEMBER_GROUP, REMEMBER_NUM };

/* An answer that was remembered. */
struct egress_remembered {
	unsigned verdict;  /* EGRESS_SPEC_ALLOW or EGRESS_SPEC_DENY */
	unsigned remember; /* REMEMBER_SANDBOX or REMEMBER_GROUP */
	const char *to;
	uint64_t port, at_ns, until_ns; /* until_ns 0: no end */
};

/* What programs asked for; enum ask_state and enum egress_ask_kind have its state and kind. */
struct ask_info {
	struct id id, sandbox;
	const char *group, *to;
	uint64_t port, count, waiting, generation, since_ns, changed_ns, until_ns, seq;
	unsigned state, kind, remember;
	bool has_kind, has_remember;
};

struct ask_query {
	const char *sandbox, *group;
	unsigned state;
	bool has_state;
	uint64_t after, wait_ms, limit;
};

struct ask_list {
	struct field_list asks; /* struct ask_info */
	uint64_t next;
};

struct ask_answer {
	unsigned verdict, remember;
	uint64_t until_ns;
};

/* The policy of a sandbox, and where it stands. */
struct egress_info {
	struct field_list answers; /* struct egress_remembered */
	struct egress_spec policy, template, tenant;
	struct egress_limits_spec limits;
	bool has_template, has_tenant, has_answers, attached;
	uint64_t generation;
	const char *digest, *ca;
};

struct egress_put_query {
	uint64_t if_generation;
	bool has_generation;
};

/* A change of a policy. */
struct egress_patch {
	struct field_list rules;   /* struct egress_rule_spec */
	struct field_texts remove; /* targets */
	bool has_remove;
};

struct egress_check {
	const char *to, *method, *path;
	uint64_t port;
};

struct egress_checked {
	unsigned verdict; /* enum egress_spec_action */
	unsigned layer;
	uint64_t rule;
	bool has_rule, inspected, has_waits, waits;
	const char *text, *reason, *mirror;
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

/* In the order of enum egress_log_verdict in wire/egress-message.h. */
enum egress_decision_verdict { EGRESS_ALLOWED, EGRESS_DENIED, EGRESS_FAILED, EGRESS_NUM_VERDICTS };

/* Which decisions, and how long to wait for the first. */
struct egress_log_filter {
	uint64_t after, wait_ms;
	const char *name;
	unsigned verdict; /* enum egress_decision_verdict */
	bool has_verdict;
};

/* A decision of cay-egress; name is NULL for a connection to an address. */
struct egress_decision {
	uint64_t seq, time_ns, port, rule, up_bytes, down_bytes, more;
	const char *op, *reason, *name, *address;
	unsigned verdict, layer;
	bool has_rule;
};

struct egress_log_page {
	struct field_list decisions; /* struct egress_decision */
	uint64_t next;
	bool dropped;
};

/* A secret for requests of sandboxes. */
struct credential_put {
	unsigned kind; /* enum credential_kind of wire/credential-message.h */
	struct field_texts hosts;
	bool has_hosts;
	const char *value, *header, *pattern, *scope, *env;
};

struct credential_info {
	unsigned kind; /* the same */
	struct field_texts hosts;
	bool has_hosts, ready;
	const char *name, *header, *pattern, *scope, *env, *placeholder, *hint;
	uint64_t changed_at;
};

struct credential_list {
	struct field_list credentials; /* struct credential_info */
};

struct credential_record {
	struct id tenant;
	struct credential_info info;
	const char *sealed;
};

struct credential_file {
	struct field_list credentials; /* struct credential_record */
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
	bool has_own, has_template, has_used, has_answers;
	uint64_t generation;
	struct egress_usage used;
	struct field_list answers; /* struct egress_remembered */
};
#endif
