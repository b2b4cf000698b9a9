/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/flow-judge.h"

bool flow_is_outside(const struct host_name *name)
{
	struct slice label;

	return name && !host_name_is_of_group(name, &label);
}

static struct egress_verdict flow_verdict(struct slice policy, const struct flow_facts *f)
{
	return f->name ? egress_judge_name(policy, f->name, f->port)
		       : egress_judge_address(policy, f->address, f->port);
}

static struct flow_judgement flow_is_cut(struct egress_verdict v, const char *why)
{
	return (struct flow_judgement){ FLOW_CUT, why, v };
}

struct flow_judgement flow_judge_first(struct slice policy, const struct flow_facts *f)
{
	const struct egress_verdict v = flow_verdict(policy, f);

	if (v.action == EGRESS_ASK)
		return (struct flow_judgement){ FLOW_ASKS, NULL, v };
	if (v.action != EGRESS_ALLOW)
		return flow_is_cut(v, "deny");
	return (struct flow_judgement){ FLOW_PASSES, NULL, v };
}

bool flow_is_to_guard(const struct flow_facts *f, const struct egress_verdict *v)
{
	return flow_is_outside(f->name) && f->port == FLOW_HTTP_PORT && !v->inspect;
}

/* Its requests are to be read, and it is too late: some have passed. */
static bool flow_escapes_inspection(const struct flow_facts *f, const struct egress_verdict *v)
{
	return v->inspect && !f->inspected && !f->saying;
}

struct flow_judgement flow_judge_again(struct slice policy, const struct flow_facts *f)
{
	const struct egress_verdict v = flow_verdict(policy, f);
	const bool waits_on = v.action == EGRESS_ASK && (f->approved || f->asking);

	if (f->asking && f->guarded != flow_is_to_guard(f, &v))
		return flow_is_cut(v, "not_inspected");
	if (v.action != EGRESS_ALLOW && !waits_on)
		return flow_is_cut(v, "deny");
	if (f->asking && v.action == EGRESS_ALLOW)
		return (struct flow_judgement){ FLOW_PASSES, NULL, v };
	if (!f->asking && flow_escapes_inspection(f, &v))
		return flow_is_cut(v, "not_inspected");
	if (f->hides_name && !egress_allows_every_name(policy, f->port))
		return flow_is_cut(v, "name_is_hidden");
	return (struct flow_judgement){ FLOW_STAYS, NULL, v };
}

struct flow_judgement flow_judge_answered(struct slice policy, const struct flow_facts *f,
					  bool allowed)
{
	const struct egress_verdict v = flow_verdict(policy, f);

	if (!allowed || v.action == EGRESS_DENY)
		return flow_is_cut(v, "deny");
	return (struct flow_judgement){ FLOW_PASSES, NULL, v };
}
