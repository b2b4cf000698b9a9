/* SPDX-License-Identifier: Apache-2.0 */
/* policy-ops - operations on egress policies: get, put, check, and the list of presets */
#include "auth/key.h"
#include "cayd/core/deferred-reply.h"
#include "cayd/core/handlers.h"
#include "cayd/egress/destination.h"
#include "cayd/egress/egress-link.h"
#include "cayd/egress/policy.h"
#include "cayd/sandbox/record.h"
#include "egress/special-net.h"
#include "text/hex.h"

#define DIGEST_BYTES 8
#define LIST_ARENA_MAX MIB(4)

static void egress_reply(struct cayd *c, const struct sandbox *sb, struct request *rq)
{
	auto_buf compiled = BUF_INIT(EGRESS_POLICY_MAX);
	struct egress_policies p = sandbox_get_policies(sb);
	char digest[2 * DIGEST_BYTES + 1];
	struct egress_info info = { .generation = sandbox_egress_generation(sb),
				    .attached = egress_link_has(sb),
				    .has_template = p.template != NULL,
				    .has_tenant = p.tenant != NULL,
				    .digest = digest };
	uint8_t hash[KEY_HASH_LEN];
	struct cay_err err = {};

	if (sandbox_egress_compile(c, sb, &compiled, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	key_hash((struct slice){ compiled.data, compiled.len }, hash);
	hex_encode(hash, DIGEST_BYTES, digest);
	if (p.template)
		info.template = *p.template;
	if (p.tenant)
		info.tenant = *p.tenant;
	info.policy = p.own        ? *p.own
		      : p.template ? *p.template
				   : (struct egress_spec){ .otherwise = EGRESS_SPEC_DENY };
	request_reply_json(rq, &egress_info_table, &info);
}

void op_egress_get(struct cayd *c, struct request *rq)
{
	const struct sandbox *sb = sandbox_find_of_request(c, rq);

	if (sb)
		egress_reply(c, sb, rq);
}

/* Replacing */

static int egress_put_check(struct cayd *c, const struct sandbox *sb, const struct request *rq,
			    struct cay_err *err)
{
	auto_buf compiled = BUF_INIT(EGRESS_POLICY_MAX);
	const struct egress_put_query *q = rq->query;
	struct egress_policies p = sandbox_get_policies(sb);
	uint64_t generation = sandbox_egress_generation(sb);

	if (rq->actor.one_sandbox)
		return cay_fail(err, CAY_E_FORBIDDEN, "a token cannot change the egress policy");
	if (life_is_finished(&sb->life) || sb->life.state == SB_ENDING)
		return sandbox_fail_state(sb, err);
	if (q->has_generation && q->if_generation != generation)
		return cay_fail_field(err, CAY_E_CONFLICT, "if_generation",
				      "the policy has the generation %llu",
				      (unsigned long long)generation);
	p.own = rq->body;
	if (egress_spec_check(p.own, egress_get_presets(c), err) < 0 ||
	    egress_compile(c, &p, generation + 1, &compiled, err) < 0)
		return -EINVAL;
	return egress_policies_can_allow(&p) ? egress_require_link(c, err) : 0;
}

/* The policy as it was, if the new one does not fit into the sandbox's row. */
static int egress_put_store(struct sandbox *sb, const struct egress_spec *own, struct cay_err *err)
{
	struct sandbox_egress *was = sb->egress;
	int r;

	sb->egress = NULL;
	r = sandbox_set_egress(sb, own, was && was->has_template ? &was->template : NULL,
			       (was ? was->generation : SANDBOX_FIRST_GENERATION) + 1);
	if (r >= 0)
		r = sandbox_record_check_size(sb);
	if (r >= 0) {
		sandbox_egress_free(was);
		return 0;
	}
	sandbox_egress_free(sb->egress);
	sb->egress = was;
	return r == -E2BIG ? cay_fail(err, CAY_E_TOO_LARGE,
				      "the policy is more than the journal keeps of one sandbox")
			   : cay_no_memory(err);
}

static void on_egress_put_done(struct deferred_reply *l, const struct cay_err *outcome)
{
	const struct sandbox *sb = sandbox_find(l->cayd->sandboxes, &l->id);

	if (!l->rq)
		return;
	if (outcome->code)
		request_fail(l->rq, outcome);
	else if (!sb)
		request_refuse(l->rq, CAY_E_NOT_FOUND, "there is no such sandbox");
	else
		egress_reply(l->cayd, sb, l->rq);
}

/* cay-egress gets the policy also if the journal failed: what is in memory is enforced. */
static void on_egress_put_saved(void *arg, struct sandbox *sb)
{
	const struct cay_err *failure = sandbox_wait_failure(sb, WAIT_SAVED);
	struct deferred_reply *l = arg;

	if (failure->code) {
		egress_policy_changed(sb, NULL, NULL);
		deferred_reply_finish(l, failure);
	} else {
		egress_policy_changed(sb, deferred_reply_finish, l);
	}
}

void op_egress_put(struct cayd *c, struct request *rq)
{
	struct sandbox *sb = sandbox_find_of_request(c, rq);
	struct sandbox_waiter *waiter;
	struct deferred_reply *l;
	struct cay_err err = {};
	int r;

	if (!sb)
		return;
	if (egress_put_check(c, sb, rq, &err) < 0 || egress_put_store(sb, rq->body, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	sandbox_save(sb, true);
	l = deferred_reply_create(c, rq, &sb->info.id, on_egress_put_done);
	if (!l) {
		egress_policy_changed(sb, NULL, NULL);
		return;
	}
	r = sandbox_wait(sb, WAIT_SAVED, on_egress_put_saved, l, &waiter);
	if (r > 0) {
		on_egress_put_saved(l, sb);
	} else if (r < 0) {
		(void)cay_no_memory(&err);
		egress_policy_changed(sb, NULL, NULL);
		deferred_reply_finish(l, &err);
	}
}

/* Checking */

static bool egress_destination_is_special(const struct egress_destination *to)
{
	uint8_t address[16] = { [10] = 0xff,
				[11] = 0xff,
				[12] = (uint8_t)(to->address >> 24),
				[13] = (uint8_t)(to->address >> 16),
				[14] = (uint8_t)(to->address >> 8),
				[15] = (uint8_t)to->address };

	return !to->name.n && address_is_special(address);
}

static int egress_judge(const struct egress_spec *const layers[static EGRESS_LAYER_NUM],
			const struct egress_presets *presets, const struct egress_destination *to,
			uint16_t port, struct egress_verdict *ret, struct cay_err *err)
{
	auto_buf compiled = BUF_INIT(EGRESS_POLICY_MAX);
	int r = egress_layers_compile(layers, presets, 1, &compiled, err);
	struct slice policy = { compiled.data, compiled.len };

	if (r >= 0)
		*ret = to->name.n ? egress_judge_name(policy, &to->name, port)
				  : egress_judge_address(policy, to->address, port);
	return r;
}

/* A target that is allowed is allowed by every layer: name the rule of the innermost. */
static int egress_judge_innermost(const struct egress_spec *const layers[static EGRESS_LAYER_NUM],
				  const struct egress_presets *presets,
				  const struct egress_destination *to, uint16_t port,
				  struct egress_verdict *ret, struct cay_err *err)
{
	unsigned at = layers[EGRESS_SANDBOX] ? EGRESS_SANDBOX : EGRESS_TEMPLATE;
	const struct egress_spec *alone[EGRESS_LAYER_NUM] = { layers[at] };
	int r = egress_judge(alone, presets, to, port, ret, err);

	ret->layer = at;
	return r;
}

static int egress_reason_write(const struct egress_checked *v, bool special, struct buf *out)
{
	static const char *const verbs[] = { "allows it", "asks", "denies it" };
	const char *layer = egress_layer_names[v->layer];

	if (special)
		return buf_puts(out, "an address of this node, a private network or a metadata "
				     "service is never reached");
	if (v->has_rule)
		return buf_printf(out, "rule %llu of the %s's policy %s: %s",
				  (unsigned long long)v->rule, layer, verbs[v->verdict], v->text);
	return buf_printf(out, "no rule of the %s's policy matches, and its default %s", layer,
			  verbs[v->verdict]);
}

static int egress_check_run(struct cayd *c, const struct sandbox *sb, const struct egress_check *q,
			    struct buf *rule, struct buf *reason, struct egress_checked *ret,
			    struct cay_err *err)
{
	const struct egress_presets *presets = egress_get_presets(c);
	const struct egress_spec *layers[EGRESS_LAYER_NUM];
	struct egress_policies p = sandbox_get_policies(sb);
	struct egress_destination to;
	struct egress_verdict v;
	bool special;
	int r;

	egress_get_layers(c, &p, layers);
	r = egress_destination_parse(q->to, &to, err);
	if (r >= 0)
		r = egress_judge(layers, presets, &to, (uint16_t)q->port, &v, err);
	if (r >= 0 && v.action == EGRESS_ALLOW)
		r = egress_judge_innermost(layers, presets, &to, (uint16_t)q->port, &v, err);
	if (r < 0)
		return r;
	special = v.action != EGRESS_DENY && egress_destination_is_special(&to);
	if (special)
		v = (struct egress_verdict){ EGRESS_DENY, EGRESS_NODE, -1 };
	*ret = (struct egress_checked){ .verdict = v.action,
					.layer = v.layer,
					.has_rule = v.rule >= 0,
					.rule = v.rule >= 0 ? (uint64_t)v.rule : 0 };
	if (v.rule >= 0) {
		r = egress_rule_describe(layers[v.layer], presets, v.rule, rule);
		ret->text = buf_str(rule);
	}
	if (r >= 0)
		r = egress_reason_write(ret, special, reason);
	ret->reason = buf_str(reason);
	return r < 0 ? cay_no_memory(err) : 0;
}

void op_egress_check(struct cayd *c, struct request *rq)
{
	auto_buf rule = BUF_INIT(KIB(1)), reason = BUF_INIT(KIB(2));
	const struct sandbox *sb = sandbox_find_of_request(c, rq);
	struct egress_checked checked;
	struct cay_err err = {};

	if (!sb)
		return;
	if (egress_check_run(c, sb, rq->body, &rule, &reason, &checked, &err) < 0)
		request_fail(rq, &err);
	else
		request_reply_json(rq, &egress_checked_table, &checked);
}

/* Presets */

static int preset_describe(const struct egress_preset *p, struct arena *arena,
			   struct preset_info *ret)
{
	*ret = (struct preset_info){ .name = p->name, .help = p->help, .has_rules = true };
	ret->rules.v = arena_alloc(arena, p->n_rules + 1, sizeof(*ret->rules.v));
	if (!ret->rules.v)
		return -ENOMEM;
	for (; ret->rules.n < p->n_rules; ret->rules.n++) {
		auto_buf text = BUF_INIT(KIB(1));
		const char *copy = NULL;

		if (egress_rule_write(&p->rules[ret->rules.n], &text) >= 0)
			copy = arena_strndup(arena, buf_str(&text), text.len);
		if (!copy)
			return -ENOMEM;
		ret->rules.v[ret->rules.n] = copy;
	}
	return 0;
}

void op_preset_list(struct cayd *c, struct request *rq)
{
	const struct egress_presets *presets = egress_get_presets(c);
	auto_arena arena = ARENA_INIT(LIST_ARENA_MAX);
	struct preset_info *rows = arena_alloc(&arena, presets->n + 1, sizeof(*rows));
	struct preset_list list = { .presets = { rows, presets->n + 1 } };
	bool all = rows && preset_describe(egress_preset_find(&(struct egress_presets){}, "none"),
					   &arena, &rows[0]) >= 0;

	for (size_t i = 0; all && i < presets->n; i++)
		all = preset_describe(&presets->v[i], &arena, &rows[i + 1]) >= 0;
	if (all)
		request_reply_json(rq, &preset_list_table, &list);
	else
		request_no_memory(rq);
}
