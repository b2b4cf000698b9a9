/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_FLOW_JUDGE_H
#define CAY_EGRESS_FLOW_JUDGE_H
/*
 * flow-judge - what a connection of a sandbox may do under a policy: when it begins, when the
 * policy changes under it, and when the answer to its question comes
 *
 * cay-egress states the facts about the connection and acts by the judgement.  A request of a
 * connection whose requests are read is judged by egress_judge_request().  Pure.
 */
#include "egress/policy.h"

#define FLOW_HTTP_PORT 80
#define FLOW_HTTPS_PORT 443

/* A connection that was not refused. */
struct flow_facts {
	const struct host_name *name; /* NULL: it dialled an address that no name has */
	uint32_t address;             /* if so; in host byte order */
	uint16_t port;
	bool asking;     /* it waits for an answer */
	bool approved;   /* once, where the policy asks */
	bool saying;     /* its TLS hello has not passed, so its requests can still be read */
	bool guarded;    /* on port 80: only the Host of its requests is compared */
	bool inspected;  /* its requests are read */
	bool hides_name; /* its TLS hello may hide another name */
};

enum flow_next {
	FLOW_STAYS, /* as it is: it waits, or its bytes are passed on */
	FLOW_ASKS,  /* it waits for an answer */
	FLOW_PASSES,
	FLOW_CUT
};

struct flow_judgement {
	enum flow_next next;
	const char *why; /* of FLOW_CUT; static */
	struct egress_verdict verdict;
};

/* A connection to a name that is outside: what its program sends is compared with that name. */
bool flow_is_outside(const struct host_name *name);
/* It begins: FLOW_ASKS, FLOW_PASSES or FLOW_CUT. */
struct flow_judgement flow_judge_first(struct slice policy, const struct flow_facts *f);
/* Only the Host of its requests is to be compared; settled when it begins. */
bool flow_is_to_guard(const struct flow_facts *f, const struct egress_verdict *v);
/* There is another policy: FLOW_STAYS, FLOW_PASSES or FLOW_CUT. */
struct flow_judgement flow_judge_again(struct slice policy, const struct flow_facts *f);
/* The answer to its question came: FLOW_PASSES, and it is approved, or FLOW_CUT. */
struct flow_judgement flow_judge_answered(struct slice policy, const struct flow_facts *f,
					  bool allowed);
#endif
