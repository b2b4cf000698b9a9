/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_POLICY_H
#define CAY_EGRESS_POLICY_H
/*
 * policy - where the connections of a sandbox may go
 *
 * A policy has layers: the node's, the tenant's, the template's and the sandbox's.  In a layer the
 * first rule that matches decides, or the layer's default; of all layers the strictest decides.  So
 * a layer can only narrow what the others allow.
 *
 * The last layer has the answers that were remembered.  Its rules are looked at only where the
 * others ask, so an answer never allows what one of them denies.
 *
 * Names of other sandboxes in the group (HOST_GROUP_PARENT) are for rules that name them, or
 * "*.group.cay.internal": neither "*" nor a default is.
 *
 * A rule may be for some requests of HTTP only, or need each request to be read (request-terms.h).
 * A connection is judged before its requests: by the mildest verdict that one of them can have.
 *
 * Compiled, a policy is one piece of memory: a head, rows of layers, rows of rules, and texts.
 * control writes it (egress_policy_write()), cay-egress checks it once (egress_policy_check()) and
 * judges by it.  Pure.
 */
#include "base/buf.h"
#include "base/err.h"
#include "egress/host-name.h"
#include "egress/request-terms.h"

#define EGRESS_POLICY_MAX KIB(64)
#define EGRESS_RULES_MAX 512 /* of all layers */
#define EGRESS_PORTS_MAX 4   /* ranges of a rule */

/* The layers of a sandbox's policy.  A layer that is absent allows everything, so that each has the
 * same number in every policy. */
enum egress_layer_id {
	EGRESS_NODE,     /* setting egress.max */
	EGRESS_TENANT,   /* egress_max of the tenant */
	EGRESS_TEMPLATE, /* egress of the template */
	EGRESS_SANDBOX,  /* egress of the sandbox */
	EGRESS_ANSWERS,  /* what was answered where the others ask; its default is not looked at */
	EGRESS_LAYER_NUM
};
#define EGRESS_LAYERS_MAX EGRESS_LAYER_NUM

extern const char *const egress_layer_names[EGRESS_LAYER_NUM + 1]; /* ended by NULL */

/* The strictest is the largest. */
enum egress_action { EGRESS_ALLOW, EGRESS_ASK, EGRESS_DENY, EGRESS_ACTION_NUM };

enum egress_target_kind {
	EGRESS_TO_NAME,  /* api.example.com */
	EGRESS_TO_BELOW, /* *.example.com: any name below, not the name itself */
	EGRESS_TO_NAMES, /* *: any name, but those of a group */
	EGRESS_TO_NET,   /* 192.0.2.0/24: addresses that were dialled without a name */
	EGRESS_TARGET_NUM
};

struct egress_target {
	enum egress_target_kind kind;
	struct host_name name; /* of the first two */
	uint32_t net;          /* in host byte order */
	uint8_t prefix;
};

struct egress_ports {
	uint16_t from, to; /* both included */
};

struct egress_rule {
	enum egress_action action;
	struct egress_target to;
	struct egress_ports ports[EGRESS_PORTS_MAX];
	size_t n_ports; /* 0: 443 */
	struct egress_terms terms;
};

struct egress_layer {
	enum egress_action otherwise;
	const struct egress_rule *rules;
	size_t n_rules;
	bool absent; /* it has no rules, and allows everything */
};

struct egress_verdict {
	enum egress_action action;
	unsigned layer; /* that decided: the first of the strictest */
	int rule;       /* of that layer; -1: its default */
	bool inspect;   /* of a connection: its requests decide, or each is to be read */
};

/* Of a rule: a name, "*.NAME", "*", or an IPv4 network. */
[[nodiscard]] int egress_target_parse(struct slice text, struct egress_target *ret,
				      struct cay_err *err);
/* A rule with terms is for names, and for ports where requests can be read: 80 and 443; with a
 * credential for 443 alone.  field is the member to blame. */
[[nodiscard]] int egress_rule_check_terms(const struct egress_rule *rule, struct cay_err *err);
/* Append the compiled form.  -E2BIG: it has too many rules or bytes. */
[[nodiscard]] int egress_policy_write(const struct egress_layer *layers, size_t n,
				      uint64_t generation, struct buf *ret);
/* Whether these bytes are a policy; egress_judge_*() takes no others.  They need not be aligned. */
[[nodiscard]] int egress_policy_check(struct slice policy);
uint64_t egress_policy_generation(struct slice policy);
struct egress_verdict egress_judge_name(struct slice policy, const struct host_name *name,
					uint16_t port);
/* A request of such a connection.  *ret_credential, in the policy, is that of the innermost layer
 * whose rule names one, or empty. */
struct egress_verdict egress_judge_request(struct slice policy, const struct host_name *name,
					   uint16_t port, const struct egress_request *rq,
					   struct slice *ret_credential);
/* Whether a connection can exist whose requests are to be read. */
bool egress_policy_inspects(struct slice policy);
/* An address that no name led to; in host byte order. */
struct egress_verdict egress_judge_address(struct slice policy, uint32_t address, uint16_t port);
/* Whether no name is denied on this port, so that one that is hidden is not either. */
bool egress_allows_every_name(struct slice policy, uint16_t port);
/* The mildest verdict on any port.  EGRESS_ALLOW: name servers may be asked; EGRESS_ASK: not before
 * an answer; EGRESS_DENY: it does not exist. */
enum egress_action egress_judge_name_on_any_port(struct slice policy, const struct host_name *name);
/* How long a connection waits for an answer. */
#define EGRESS_ASK_MS 30000
#define EGRESS_ASK_MS_MAX 600000
void egress_policy_set_ask_ms(char *policy, uint32_t ms); /* 0: EGRESS_ASK_MS */
uint32_t egress_policy_ask_ms(struct slice policy);
#endif
