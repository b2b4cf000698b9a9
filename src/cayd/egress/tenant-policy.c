/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/egress/tenant-policy.h"

#include "cayd/egress/policy.h"

#define AT_ONCE 64 /* sandboxes whose acknowledgement is waited for */

static bool sandbox_is_over(const struct sandbox *sb)
{
	return life_is_finished(&sb->life) || sb->life.state == SB_ENDING;
}

/* Checking */

static int tenant_sandbox_check(const struct sandbox *sb, const struct egress_spec *max,
				struct cay_err *err)
{
	auto_buf compiled = BUF_INIT(EGRESS_POLICY_MAX);
	struct egress_policies p = sandbox_get_policies(sb);
	char id[ID_TEXT_LEN + 1];

	p.tenant = max;
	if (sandbox_is_over(sb) || !egress_policies_can_allow(&p) ||
	    egress_compile(sb->cayd, &p, sandbox_egress_generation(sb), &compiled, err) >= 0)
		return 0;
	id_format(&sb->info.id, id);
	cay_err_prefix_field(err, "egress_max");
	return cay_err_wrap(err, -EINVAL, "with the policies of sandbox %s", id);
}

int tenant_policies_check(struct cayd *c, const struct tenant_info *next, struct cay_err *err)
{
	int r = 0;

	if (next->has_egress_default)
		r = egress_policy_check_spec(c, &next->egress_default, "egress_default", err);
	if (r < 0 || !next->has_egress_max)
		return r;
	if (next->egress_max.has_expose)
		return cay_fail_field(err, CAY_E_INVALID, "egress_max.expose",
				      "a bound is for connections out of sandboxes");
	r = egress_policy_check_spec(c, &next->egress_max, "egress_max", err);
	for (const struct sandbox *sb = sandbox_first_bound_by(c, &next->id); r >= 0 && sb;
	     sb = sandbox_next_bound_by(sb, &next->id))
		r = tenant_sandbox_check(sb, &next->egress_max, err);
	return r;
}

/* Changing */

struct policy_change;

struct policy_call {
	struct policy_change *change;
	struct id sandbox;
};

struct policy_change {
	struct cayd *cayd;
	egress_link_fn *fn;
	void *arg;
	struct cay_err failure;
	size_t n, next;
	unsigned open;
	bool walking;
	struct policy_call calls[];
};

static void policy_change_go_on(struct policy_change *p);

/* One that ends meanwhile needs no policy.  Without cay-egress the others fail as well, and get the
 * policy when it is connected again. */
static void on_policy_call_done(void *arg, const struct cay_err *outcome)
{
	const struct policy_call *call = arg;
	struct policy_change *p = call->change;
	const struct sandbox *sb = sandbox_find(p->cayd->sandboxes, &call->sandbox);

	p->open--;
	if (outcome->code && sb && !sandbox_is_over(sb) && !p->failure.code)
		p->failure = *outcome;
	if (p->failure.code && !egress_link_is_ready(p->cayd))
		p->next = p->n;
	policy_change_go_on(p);
}

static void policy_change_go_on(struct policy_change *p)
{
	if (p->walking)
		return;
	p->walking = true; /* a call may be done at once */
	while (p->next < p->n && p->open < AT_ONCE) {
		struct policy_call *call = &p->calls[p->next++];
		struct sandbox *sb = sandbox_find(p->cayd->sandboxes, &call->sandbox);

		if (!sb || sandbox_is_over(sb))
			continue;
		p->open++;
		egress_policy_changed(sb, on_policy_call_done, call);
	}
	p->walking = false;
	if (p->open)
		return;
	if (p->fn)
		p->fn(p->arg, &p->failure);
	free(p);
}

static bool sandbox_needs_policy(const struct sandbox *sb)
{
	return !sandbox_is_over(sb) && (sandbox_has_egress(sb) || egress_link_has(sb));
}

static struct policy_change *policy_change_create(struct cayd *c, const struct id *tenant)
{
	struct sandbox *newest = sandbox_first_bound_by(c, tenant);
	struct policy_change *p;
	size_t n = 0;

	for (const struct sandbox *sb = newest; sb; sb = sandbox_next_bound_by(sb, tenant))
		n += sandbox_needs_policy(sb);
	p = calloc(1, sizeof(*p) + n * sizeof(p->calls[0]));
	if (!p)
		return NULL;
	for (const struct sandbox *sb = newest; sb; sb = sandbox_next_bound_by(sb, tenant))
		if (sandbox_needs_policy(sb))
			p->calls[p->n++] = (struct policy_call){ p, sb->info.id };
	return p;
}

void tenant_policy_changed(struct cayd *c, const struct id *tenant, egress_link_fn *fn, void *arg)
{
	struct policy_change *p = policy_change_create(c, tenant);
	struct cay_err err = {};

	if (p) {
		p->cayd = c;
		p->fn = fn;
		p->arg = arg;
		policy_change_go_on(p);
		return;
	}
	(void)cay_no_memory(&err);
	if (fn)
		fn(arg, &err);
}
