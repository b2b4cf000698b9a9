/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TESTS_SIM_EGRESS_PLAIN_H
#define CAY_TESTS_SIM_EGRESS_PLAIN_H
/*
 * egress-plain - the reference: egress policies as texts, judged one request at a time
 *
 * No compiled form, no connection apart from its requests, no parser of names or networks.  It is
 * short enough to be read beside docs/egress.md, and shares no code with src/lib/egress.
 */
#include <stddef.h>
#include <stdint.h>

enum { PLAIN_ALLOW, PLAIN_ASK, PLAIN_DENY };
enum { PLAIN_NODE, PLAIN_TENANT, PLAIN_TEMPLATE, PLAIN_SANDBOX, PLAIN_ANSWERS, PLAIN_LAYERS };

#define PLAIN_RULES 8

struct plain_rule {
	int action;
	const char *to;       /* "a.b", "*.a.b", "*", or a row of plain_nets */
	unsigned from, until; /* ports */
	const char *method;   /* NULL: any */
	const char *path;     /* NULL: any; "/a/..." may end with a star */
	int inspect;          /* its requests are read, whatever they are */
};

struct plain_layer {
	int absent;    /* it allows everything */
	int otherwise; /* its default */
	size_t n;
	struct plain_rule rules[PLAIN_RULES];
};

struct plain_policy {
	struct plain_layer layers[PLAIN_LAYERS];
};

struct plain_net {
	const char *text;
	uint32_t first, last;
};
extern const struct plain_net plain_nets[3];

/* A request; of a protocol that has none, the only thing that is sent. */
struct plain_request {
	const char *name; /* NULL: it dialled an address */
	uint32_t address;
	unsigned port;
	const char *method;
	const char *path; /* NULL: servers read it in different ways */
};

int plain_judge(const struct plain_policy *p, const struct plain_request *rq);
/* Whether a rule for this name or address and port looks at requests at all. */
int plain_reads(const struct plain_policy *p, const struct plain_request *rq);
#endif
