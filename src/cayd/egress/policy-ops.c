/* SPDX-License-Identifier: Apache-2.0 */
/* policy-ops - operations on egress policies: get, put, patch, check, and the list of presets */
#include "auth/key.h"
#include "cayd/core/deferred-reply.h"
#include "cayd/core/handlers.h"
#include "cayd/egress/asks.h"
#include "cayd/egress/credential-policy.h"
#include "cayd/egress/destination.h"
#include "cayd/egress/egress-link.h"
#include "cayd/egress/peers.h"
#include "cayd/egress/policy.h"
#include "cayd/sandbox/record.h"
#include "egress/name-map.h"
#include "egress/special-net.h"
#include "text/hex.h"

#define DIGEST_BYTES 8
#define LIST_ARENA_MAX MIB(4)
#define PATCH_ARENA_MAX KIB(256)
#define EGRESS_SPEC_RULES_MAX 256 /* as in ops/schemas.def */

/* Its own policy, or else that of its template, or none. */
static struct egress_spec egress_get_own(const struct sandbox *sb)
{
	const struct egress_policies p = sandbox_get_policies(sb);

	return p.own        ? *p.own
	       : p.template ? *p.template
			    : (struct egress_spec){ .otherwise = EGRESS_SPEC_DENY };
}

static struct egress_limits_spec egress_limits_describe(const struct sandbox *sb)
{
	const struct egress_limits l = sandbox_get_egress_limits(sb);

	return (struct egress_limits_spec){ .flows = l.flows,
					    .has_flows = true,
					    .new_per_s = l.new_per_s,
					    .has_new_per_s = true,
					    .up_bytes = l.bytes[0],
					    .has_up_bytes = l.bytes[0],
					    .down_bytes = l.bytes[1],
					    .has_down_bytes = l.bytes[1],
					    .up_rate = l.rate[0],
					    .has_up_rate = l.rate[0],
					    .down_rate = l.rate[1],
					    .has_down_rate = l.rate[1] };
}

static void egress_reply(struct cayd *c, const struct sandbox *sb, struct request *rq)
{
	auto_buf compiled = BUF_INIT(EGRESS_POLICY_MAX);
	struct egress_policies p = sandbox_get_policies(sb);
	char digest[2 * DIGEST_BYTES + 1];
	struct egress_info info = { .generation = sandbox_egress_generation(sb),
				    .attached = egress_link_has(sb),
				    .has_template = p.template != NULL,
				    .has_tenant = p.tenant != NULL,
				    .answers = sandbox_list_answers(sb),
				    .has_answers = sandbox_list_answers(sb).n > 0,
				    .digest = digest,
				    .ca = sb->ca };
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
	info.policy = egress_get_own(sb);
	info.limits = egress_limits_describe(sb);
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
			    const struct egress_spec *own, struct cay_err *err)
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
	p.own = own;
	if (egress_spec_check(p.own, egress_get_presets(c), err) < 0 ||
	    credential_policy_check(c, &sb->info.tenant, p.own, err) < 0 ||
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
		peers_policy_changed(sb, NULL, NULL);
		deferred_reply_finish(l, failure);
	} else {
		if (sandbox_wakes(sb)) /* PID 1 may have to write files for it */
			sandbox_touch(sb);
		peers_policy_changed(sb, deferred_reply_finish, l);
	}
}

static void egress_put(struct cayd *c, struct sandbox *sb, struct request *rq,
		       const struct egress_spec *own)
{
	struct sandbox_waiter *waiter;
	struct deferred_reply *l;
	struct cay_err err = {};
	int r;

	if (egress_put_check(c, sb, rq, own, &err) < 0 || egress_put_store(sb, own, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	sandbox_save(sb, true);
	l = deferred_reply_create(c, rq, &sb->info.id, on_egress_put_done);
	if (!l) {
		peers_policy_changed(sb, NULL, NULL);
		return;
	}
	r = sandbox_wait(sb, WAIT_SAVED, on_egress_put_saved, l, &waiter);
	if (r > 0) {
		on_egress_put_saved(l, sb);
	} else if (r < 0) {
		(void)cay_no_memory(&err);
		peers_policy_changed(sb, NULL, NULL);
		deferred_reply_finish(l, &err);
	}
}

void op_egress_put(struct cayd *c, struct request *rq)
{
	struct sandbox *sb = sandbox_find_of_request(c, rq);

	if (sb)
		egress_put(c, sb, rq, rq->body);
}

static bool egress_rule_is_removed(const struct egress_rule_spec *rule,
				   const struct egress_patch *patch)
{
	for (size_t i = 0; i < patch->remove.n; i++)
		if (str_eq(rule->to, patch->remove.v[i]))
			return true;
	return false;
}

/* The new rules, then those there are.  A sandbox without a policy of its own gets one from its
 * template's, as egress.get shows it. */
static int egress_patch_apply(const struct egress_patch *patch, struct egress_spec *own,
			      struct arena *arena, struct cay_err *err)
{
	const struct egress_rule_spec *was = own->rules.v;
	struct egress_rule_spec *rules =
		arena_alloc(arena, patch->rules.n + own->rules.n + 1, sizeof(*rules));
	size_t n = patch->rules.n;

	if (!rules)
		return cay_no_memory(err);
	if (n)
		memcpy(rules, patch->rules.v, n * sizeof(*rules));
	for (size_t i = 0; i < own->rules.n; i++)
		if (!egress_rule_is_removed(&was[i], patch))
			rules[n++] = was[i];
	if (n > EGRESS_SPEC_RULES_MAX)
		return cay_fail_field(err, CAY_E_INVALID, "rules",
				      "the policy would have %zu rules; the most are %d", n,
				      EGRESS_SPEC_RULES_MAX);
	own->rules = (struct field_list){ rules, n };
	return 0;
}

void op_egress_patch(struct cayd *c, struct request *rq)
{
	struct sandbox *sb = sandbox_find_of_request(c, rq);
	auto_arena arena = ARENA_INIT(PATCH_ARENA_MAX);
	struct egress_spec own;
	struct cay_err err = {};

	if (!sb)
		return;
	own = egress_get_own(sb);
	if (egress_patch_apply(rq->body, &own, &arena, &err) < 0)
		request_fail(rq, &err);
	else
		egress_put(c, sb, rq, &own);
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

/* The connection to judge, or a request of it. */
struct egress_question {
	struct egress_destination to;
	uint16_t port;
	struct buf path; /* decoded */
	const struct egress_request *rq;
	struct egress_request request;
};

static void egress_question_fini(struct egress_question *q)
{
	buf_fini(&q->path);
}

static int egress_question_read(const struct egress_check *from, struct egress_question *ret,
				struct cay_err *err)
{
	*ret = (struct egress_question){ .port = (uint16_t)from->port, .path = BUF_INIT(KIB(1)) };
	if (egress_destination_parse(from->to, &ret->to, err) < 0)
		return -EINVAL;
	if (!from->method && !from->path)
		return 0;
	if (!from->path)
		return cay_fail_field(err, CAY_E_INVALID, "path",
				      "a request has a path, such as /v1/status");
	if (!ret->to.name.n)
		return cay_fail_field(err, CAY_E_INVALID, "to",
				      "requests are read for names only, not for addresses");
	ret->request.method = from->method ? slice_of(from->method) : SLICE("GET");
	if (egress_path_decode(slice_of(from->path), &ret->path) == 0)
		ret->request.path = (struct slice){ ret->path.data, ret->path.len };
	ret->rq = &ret->request;
	return 0;
}

static int egress_judge(const struct egress_spec *const layers[static EGRESS_LAYER_NUM],
			const struct egress_presets *presets, const struct egress_question *q,
			struct egress_verdict *ret, struct cay_err *err)
{
	auto_buf compiled = BUF_INIT(EGRESS_POLICY_MAX);
	int r = egress_layers_compile(layers, presets, 1, &compiled, err);
	struct slice policy = { compiled.data, compiled.len }, credential;
	struct egress_verdict v;

	if (r < 0)
		return r;
	v = q->to.name.n ? egress_judge_name(policy, &q->to.name, q->port)
			 : egress_judge_address(policy, q->to.address, q->port);
	*ret = v;
	/* without inspection the requests have the verdict of their connection */
	if (q->rq && v.inspect && v.action != EGRESS_DENY)
		*ret = egress_judge_request(policy, &q->to.name, q->port, q->rq, &credential);
	ret->inspect = v.inspect && v.action != EGRESS_DENY;
	return r;
}

/* A target that is allowed is allowed by every layer: name the rule of the innermost. */
static int egress_judge_innermost(const struct egress_spec *const layers[static EGRESS_LAYER_NUM],
				  const struct egress_presets *presets,
				  const struct egress_question *q, struct egress_verdict *ret,
				  struct cay_err *err)
{
	unsigned at = layers[EGRESS_SANDBOX] ? EGRESS_SANDBOX : EGRESS_TEMPLATE;
	const struct egress_spec *alone[EGRESS_LAYER_NUM] = { layers[at] };
	const bool inspect = ret->inspect;
	int r;

	if (ret->layer == EGRESS_ANSWERS)
		return 0;
	r = egress_judge(alone, presets, q, ret, err);
	ret->layer = at;
	ret->inspect = inspect;
	return r;
}

static int egress_reason_write(const struct egress_checked *v, bool special, bool unclear,
			       struct buf *out)
{
	static const char *const verbs[] = { "allows it", "asks", "denies it" };
	const char *layer = egress_layer_names[v->layer];
	int r;

	if (special)
		return buf_puts(out, "an address of this node, a private network or a metadata "
				     "service is never reached");
	if (unclear && v->verdict == EGRESS_SPEC_DENY)
		return buf_puts(out, "servers could read this path in different ways, and the "
				     "rules for the name have paths");
	if (v->layer == EGRESS_ANSWERS)
		return buf_printf(out, "the policies ask, and a remembered answer %s: %s",
				  verbs[v->verdict], v->text);
	if (v->has_rule)
		r = buf_printf(out, "rule %llu of the %s's policy %s: %s",
			       (unsigned long long)v->rule, layer, verbs[v->verdict], v->text);
	else
		r = buf_printf(out, "no rule of the %s's policy matches, and its default %s", layer,
			       verbs[v->verdict]);
	if (r < 0 || !v->has_waits)
		return r;
	return buf_puts(out, v->waits ? "; a connection would wait for an answer now"
				      : "; no client waits for asks, so a connection would be "
					"reset now");
}

/* The other side's word, about one that is allowed here. */
static int egress_check_peer(struct sandbox *sb, const struct egress_question *q,
			     struct buf *reason, struct egress_checked *ret)
{
	struct slice label;
	bool exposed;
	int r;

	if (ret->verdict == EGRESS_SPEC_DENY || !q->to.name.n ||
	    !host_name_is_of_group(&q->to.name, &label))
		return 0;
	r = peer_explain(sb, &q->to.name, q->port, &exposed, reason);
	if (!exposed)
		ret->verdict = EGRESS_SPEC_DENY;
	return r;
}

static int egress_check_run(struct cayd *c, struct sandbox *sb, const struct egress_question *q,
			    struct buf *rule, struct buf *reason, struct egress_checked *ret,
			    struct cay_err *err)
{
	const struct egress_presets *presets = egress_get_presets(c);
	const struct egress_spec *layers[EGRESS_LAYER_NUM];
	struct egress_policies p = sandbox_get_policies(sb);
	struct egress_verdict v;
	bool special;
	int r;

	egress_get_layers(c, &p, layers);
	r = egress_judge(layers, presets, q, &v, err);
	if (r >= 0 && v.action == EGRESS_ALLOW)
		r = egress_judge_innermost(layers, presets, q, &v, err);
	if (r < 0)
		return r;
	special = v.action != EGRESS_DENY && egress_destination_is_special(&q->to);
	if (special)
		v = (struct egress_verdict){ EGRESS_DENY, EGRESS_NODE, -1, false };
	*ret = (struct egress_checked){ .verdict = v.action,
					.layer = v.layer,
					.inspected = v.inspect,
					.has_rule = v.rule >= 0,
					.has_waits = v.action == EGRESS_ASK,
					.waits = v.action == EGRESS_ASK && asks_have_decider(sb),
					.rule = v.rule >= 0 ? (uint64_t)v.rule : 0 };
	if (v.rule >= 0) {
		r = egress_rule_describe(layers[v.layer], presets, v.rule, rule);
		ret->text = buf_str(rule);
	}
	if (r >= 0)
		r = egress_reason_write(ret, special, q->rq && v.inspect && !q->rq->path.p, reason);
	if (r >= 0)
		r = egress_check_peer(sb, q, reason, ret);
	ret->reason = buf_str(reason);
	return r < 0 ? cay_no_memory(err) : 0;
}

/* "mirror.example:8080", or "". */
static int egress_mirror_write(const struct cayd *c, const struct egress_question *q,
			       struct buf *out)
{
	static struct name_map map;
	const struct name_mirror *m = NULL;
	struct cay_err err = {};
	unsigned port;

	if (q->to.name.n && name_map_parse(c->settings.egress_map, &map, &err) >= 0)
		m = name_map_find(&map, &q->to.name);
	port = m && m->port ? m->port : q->port;
	return m ? buf_printf(out, "%s:%u", m->to.text, port) : 0;
}

void op_egress_check(struct cayd *c, struct request *rq)
{
	auto_buf rule = BUF_INIT(KIB(1)), reason = BUF_INIT(KIB(2)), mirror = BUF_INIT(KIB(1));
	struct sandbox *sb = sandbox_find_of_request(c, rq);
	struct egress_question q;
	struct egress_checked checked;
	struct cay_err err = {};

	if (!sb)
		return;
	if (egress_question_read(rq->body, &q, &err) < 0 ||
	    egress_check_run(c, sb, &q, &rule, &reason, &checked, &err) < 0) {
		request_fail(rq, &err);
	} else if (egress_mirror_write(c, &q, &mirror) < 0) {
		request_no_memory(rq);
	} else {
		checked.mirror = mirror.len ? buf_str(&mirror) : NULL;
		request_reply_json(rq, &egress_checked_table, &checked);
	}
	egress_question_fini(&q);
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
