/* SPDX-License-Identifier: Apache-2.0 */
#include "egress-plain.h"

#include <string.h>

#define GROUP ".group.cay.internal"

const struct plain_net plain_nets[3] = {
	{ "93.184.2.0/24", 0x5db80200, 0x5db802ff },
	{ "93.184.2.7", 0x5db80207, 0x5db80207 },
	{ "0.0.0.0/0", 0, UINT32_MAX },
};

static int ends_with(const char *text, const char *end)
{
	const size_t n = strlen(text), m = strlen(end);

	return n > m && strcmp(text + n - m, end) == 0;
}

static int is_for_target(const struct plain_rule *r, const struct plain_request *rq)
{
	if (rq->port < r->from || rq->port > r->until)
		return 0;
	for (size_t i = 0; i < 3; i++)
		if (strcmp(r->to, plain_nets[i].text) == 0)
			return !rq->name && rq->address >= plain_nets[i].first &&
			       rq->address <= plain_nets[i].last;
	if (!rq->name)
		return 0;
	/* a sandbox of the group is named, or is all of them */
	if (ends_with(rq->name, GROUP) && strcmp(r->to, rq->name) != 0)
		return strcmp(r->to, "*" GROUP) == 0;
	if (strcmp(r->to, "*") == 0)
		return 1;
	return r->to[0] == '*' ? ends_with(rq->name, r->to + 1) : strcmp(r->to, rq->name) == 0;
}

static int has_path(const char *pattern, const char *path)
{
	const size_t n = strlen(pattern) - 1;

	return pattern[n] == '*' ? strncmp(path, pattern, n) == 0 : strcmp(path, pattern) == 0;
}

/* The first rule for this request, or its default; *ret says whether it was a rule. */
static int layer_judge(const struct plain_layer *l, const struct plain_request *rq, int *ret)
{
	*ret = 1;
	for (size_t i = 0; i < l->n; i++) {
		const struct plain_rule *r = &l->rules[i];

		if (!is_for_target(r, rq) || (r->method && strcmp(r->method, rq->method) != 0))
			continue;
		if (r->path && !rq->path)
			return PLAIN_DENY;
		if (!r->path || has_path(r->path, rq->path))
			return r->action;
	}
	*ret = 0;
	if (l->absent)
		return PLAIN_ALLOW;
	return rq->name && ends_with(rq->name, GROUP) ? PLAIN_DENY : l->otherwise;
}

int plain_judge(const struct plain_policy *p, const struct plain_request *rq)
{
	int strictest = PLAIN_ALLOW, by_rule, answer;

	for (size_t i = 0; i < PLAIN_ANSWERS; i++) {
		const int here = layer_judge(&p->layers[i], rq, &by_rule);

		strictest = here > strictest ? here : strictest;
	}
	answer = layer_judge(&p->layers[PLAIN_ANSWERS], rq, &by_rule);
	return strictest == PLAIN_ASK && by_rule ? answer : strictest;
}

int plain_reads(const struct plain_policy *p, const struct plain_request *rq)
{
	for (size_t i = 0; i < PLAIN_LAYERS; i++)
		for (size_t k = 0; k < p->layers[i].n; k++) {
			const struct plain_rule *r = &p->layers[i].rules[k];

			if ((r->method || r->path || r->inspect) && is_for_target(r, rq))
				return 1;
		}
	return 0;
}
